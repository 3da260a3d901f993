"""Datasets of d3rlpy 2 beside d3rlpy itself: values, dtypes, and what NumPy's stream samples."""

from pathlib import Path

import numpy as np
from peer_libraries import answer, asks
from peers.d3rlpy_datasets import facts

from pfrl_like.d3rlpy import dataset


@asks("d3rlpy")
def test_all_values_and_dtypes_are_those_of_d3rlpy(tmp_path: Path) -> None:
    with np.load(answer("d3rlpy", "peers/d3rlpy_datasets.py", tmp_path / "facts.npz")) as theirs:
        ours = facts(dataset)
        assert ours.keys() == {*theirs.files} and len(ours) > 400
        for name, values in ours.items():
            assert values.dtype == theirs[name].dtype and values.shape == theirs[name].shape, name
            assert np.allclose(values, theirs[name], rtol=1e-6), name
