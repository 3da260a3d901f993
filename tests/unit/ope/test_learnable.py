"""Estimators in files from which they are made again as a whole."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, fitted, make, predicted

import pfrl_like
from pfrl_like import algos, ope
from pfrl_like.errors import CheckpointError
from pfrl_like.testing.play import difference

OBS = np.random.default_rng(1).normal(size=(7, 4))


@pytest.mark.representatives(4)
@pytest.mark.parametrize("name", ALL)
def test_a_saved_estimator_is_made_again_with_what_it_had_learnt(name: str, tmp_path: Path) -> None:
    made = fitted(name, scaler="standard")
    made.save(tmp_path / "model.d3")
    again = pfrl_like.load_learnable(tmp_path / "model.d3", device="cpu")
    assert type(again) is type(made) and again.observation_shape == (4,) and again.action_size == made.action_size
    assert repr(again.get_params()) == repr({**made.get_params(), "scaler": made.scaler_})
    assert not difference(again.impl.state_dict(), made.impl.state_dict())
    np.testing.assert_array_equal(predicted(again, OBS), predicted(made, OBS))


def saved(name: str, folder: Path) -> Any:
    made = make(name)
    made.create_impl((4,), 3)
    made.save(folder / "model.d3")
    return made


@pytest.mark.slow
def test_a_process_that_has_imported_nothing_else_loads_it(tmp_path: Path) -> None:
    saved("DQN", tmp_path)
    code = "import sys, pfrl_like; print(type(pfrl_like.load_learnable(sys.argv[1])).__name__)"
    command = [sys.executable, "-c", code, str(tmp_path / "model.d3")]
    environment = {**os.environ, "PYTHONPATH": str(Path(pfrl_like.__file__).parents[1])}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert printed.stdout.strip() == "DQN"


def test_what_fits_no_estimator_is_refused(tmp_path: Path) -> None:
    made = saved("BC", tmp_path)
    with pytest.raises(TypeError, match="algo is BC, but .*model.d3 contains BC, not an FQE: expected None"):
        pfrl_like.load_learnable(tmp_path / "model.d3", algo=made)
    with pytest.raises(ValueError, match="expected 'cpu' or 'cuda:<number>'"):
        pfrl_like.load_learnable(tmp_path / "model.d3", device="meta")
    own = algos.BC(impl=made.impl)
    own.save(tmp_path / "own.d3")
    with pytest.raises(CheckpointError, match="own.d3"):
        pfrl_like.load_learnable(tmp_path / "own.d3")


def test_a_model_of_other_layers_is_refused_by_the_name_of_its_file(tmp_path: Path) -> None:
    wide, narrow = make("BC", encoder_params={"hidden_units": [9]}), make("BC")
    for each in (wide, narrow):
        each.create_impl((4,), 2)
    wide.save_model(tmp_path / "wide.pt")
    with pytest.raises(CheckpointError, match="wide.pt: does not match the estimator"):
        narrow.load_model(tmp_path / "wide.pt")


@pytest.mark.parametrize("device", ["cpu:0", "cpu", False, torch.device("cpu:0")])
def test_the_cpu_with_a_number_is_the_cpu(device: Any, tmp_path: Path) -> None:
    made = saved("DQN", tmp_path)
    again = pfrl_like.load_learnable(tmp_path / "model.d3", device=device)
    assert again.impl.device == torch.device("cpu") and again.use_gpu is None
    fqe = ope.FQE(made, device=device)
    fqe.create_impl((4,), 3)
    assert fqe.agent.policy.q_function is made.impl.model  # no copy on another device
    fqe.save(tmp_path / "fqe.d3")
    loaded = pfrl_like.load_learnable(tmp_path / "fqe.d3", device=device)
    assert loaded.agent.device == fqe.agent.device == torch.device("cpu")


def test_a_gpu_is_asked_for_by_its_number(tmp_path: Path) -> None:
    saved("DQN", tmp_path)
    for device in ("cuda:99", 99):
        with pytest.raises(ValueError, match="device is cuda:99, but torch finds"):
            pfrl_like.load_learnable(tmp_path / "model.d3", device=device)
