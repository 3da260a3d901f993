"""Datasets of D4RL's form: one HDF5 file of arrays, in which a row's reward is for its own action."""

from pathlib import Path

import numpy as np

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.flat import Flat, table_of
from pfrl_like.dataset.io.hdf5 import read_hdf5
from pfrl_like.dataset.table import SAME_ROW
from pfrl_like.errors import CheckpointError


def dataset_of_file(path: Path) -> MDPDataset:
    """The dataset of a file.

    Mixed sets were joined without a mark where one ends: an episode is cut off where a row's next observation is not
    the observation of the row after it.

    Raises:
        CheckpointError: If the file is damaged, or holds what cannot be right.
        MissingDependencyError: If h5py is not installed.
    """
    flat = read_hdf5(str(path))
    try:
        return MDPDataset.of_table(*table_of(_with_cuts(flat), flat.convention or SAME_ROW, flat.discrete))
    except ValueError as error:
        raise CheckpointError(path, str(error)) from error


def _with_cuts(flat: Flat) -> Flat:
    arrays = flat.arrays
    if "next_observations" not in arrays or not {"observations", "terminals"} <= arrays.keys():
        return flat
    obs, following = np.asarray(arrays["observations"]), np.asarray(arrays["next_observations"])
    if obs.shape != following.shape:
        return flat  # refused where the table is made
    jumps = (obs[1:] != following[:-1]).reshape(len(obs) - 1, -1).any(1)
    terminal = np.asarray(arrays["terminals"]).reshape(-1) != 0
    cut = np.asarray(arrays.get("timeouts", np.zeros(len(terminal)))).reshape(-1) != 0
    cut[:-1] |= jumps[: len(cut) - 1]
    return flat._replace(arrays=arrays | {"timeouts": cut & ~terminal})
