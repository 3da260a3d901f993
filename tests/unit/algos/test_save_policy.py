"""Policies that run without the library."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SEQUENTIAL, SMALL_FILTERS, built, images, make

from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.errors import CheckpointError, NotFittedError
from pfrl_like.preprocessing import MinMaxActionScaler, StandardScaler

OBS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


#: Actions of the data, far from those that networks give.
FAR = MinMaxActionScaler(minimum=[3.0, 3.0], maximum=[5.0, 5.0])


def scaled(name: str) -> Any:
    return built(name, scaler=StandardScaler(OBS), action_scaler=None if ESTIMATORS[name].discrete_action else FAR)


@pytest.mark.representatives(4, "PPO")
@pytest.mark.parametrize("name", [name for name in [*ALL, "PPO"] if name not in SEQUENTIAL])
def test_torchscript_gives_the_actions_of_predict_for_raw_observations(name: str) -> None:
    made = scaled(name)
    made.save_policy("policy.pt")
    actions, again = (torch.jit.load("policy.pt")(torch.from_numpy(OBS)).detach().numpy() for _ in range(2))
    assert made.discrete_action or name == "PPO" or ((actions > 2.9) & (actions < 5.1)).all()  # BCQ perturbs
    if name in {"BCQ", "BEAR"}:  # which draw numbers to act, that are fixed in the file
        assert actions.shape == (7, 2) and np.array_equal(actions, again)
    else:
        assert np.allclose(actions, made.predict(OBS), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["policy.onnx", "policy.pt", pytest.param("policy", marks=pytest.mark.slow)])
def test_onnx_does_so_too(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    made = scaled("SAC")
    made.save_policy(name, as_onnx=True)
    session = runtime.InferenceSession(name)
    (actions,) = session.run(None, {"input_0": OBS})[:1]
    assert np.allclose(actions, made.predict(OBS), atol=1e-5)
    assert [path.name for path in Path().iterdir()] == [name]


def test_stacked_images_are_taken() -> None:
    made = make("DQN", n_frames=2, scaler="pixel", encoder_params=SMALL_FILTERS)
    made.fit(images(True), n_epochs=1, **QUIET).save_policy("policy.pt")
    frames = np.random.default_rng(0).integers(0, 256, (5, 2, 16, 16), dtype=np.uint8)
    actions = torch.jit.load("policy.pt")(torch.from_numpy(frames).float())
    assert np.array_equal(actions.numpy(), made.predict(frames))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(NotFittedError):
        make("DQN").save_policy("policy.pt")
    with pytest.raises(CheckpointError):
        scaled("DQN").save_policy("nowhere/policy.pt")
