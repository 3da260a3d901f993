"""Fitted Q evaluation of algorithms that see stacked frames."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from estimator_parts import SMALL_FILTERS, images
from experiment_fakes import Counting
from fqe_parts import QUIET
from torch import nn

import pfrl_like
from pfrl_like import algos, ope
from pfrl_like.dataset import MDPDataset
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.replay_buffers import ReplayBuffer

N_FRAMES = 3


def estimator(discrete: bool = True, side: int = 16) -> Any:
    kind: Any = algos.DQN if discrete else algos.TD3
    made = kind(n_frames=N_FRAMES, batch_size=8, encoder_params=SMALL_FILTERS)
    made.create_impl((1, side, side), 3 if discrete else 2)
    return made


def make(discrete: bool = True, algo: Any = None) -> ope.FQE:
    config = ope.FQEConfig(batch_size=8, encoder_params=SMALL_FILTERS, observation_scaler="pixel")
    return (ope.DiscreteFQE if discrete else ope.FQE)(algo or estimator(discrete), config)


class Film(Counting):
    """Episodes of five steps in which each image holds the number of its step, plus one."""

    def __init__(self) -> None:
        super().__init__(5)
        self.observation_space = gymnasium.spaces.Box(0, 255, (1, 16, 16), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)

    def _obs(self) -> Any:
        return np.full((1, 16, 16), self.step_in_episode + 1, np.uint8)


@pytest.mark.parametrize("discrete", [True, False])
def test_data_are_stacked_as_the_algorithm_has_them(discrete: bool) -> None:
    fqe, data = make(discrete), images(discrete)
    fqe.fit(data, 6, **QUIET)
    assert fqe.observation_shape == (1, 16, 16)
    batch = data.sample(5, N_FRAMES)
    np.testing.assert_array_equal(fqe.predict(batch.observations), fqe.algo.predict(batch.observations))
    assert fqe.predict_value(batch.observations, batch.actions).shape == (5,)
    assert np.isfinite(fqe.update(batch)["loss"])


def test_collected_observations_are_frames_that_are_learnt_from_as_stacks() -> None:
    fqe = make()
    buffer = fqe.collect(Film(), n_steps=20, show_progress=False)
    assert buffer.sample_batch(20).obs.shape == (20, 1, 16, 16)
    batch = buffer.sample_batch(20, n_frames=N_FRAMES)
    assert batch.obs.shape == (20, N_FRAMES, 16, 16)
    last = batch.obs[:, -1, 0, 0].float()
    for back in range(N_FRAMES):
        assert torch.equal(batch.obs[:, -1 - back, 0, 0].float(), (last - back).clamp(min=0))
    assert torch.equal(batch.next_obs[:, -1, 0, 0].float(), last + 1)
    again = make()
    again.fit(buffer, 3, **QUIET)
    assert again.observation_shape == (1, 16, 16)
    again.fit_online(Film(), buffer=ReplayBuffer(50), n_steps=20, **QUIET)
    again.fit(MDPDataset.from_buffer(buffer), 1, **QUIET)


def test_a_buffer_of_stacks_is_refused() -> None:
    buffer = ReplayBuffer()
    for _ in range(9):
        buffer.append(np.zeros((N_FRAMES, 16, 16)), 0, 0.0, np.zeros((N_FRAMES, 16, 16)))
    with pytest.raises(ValueError, match=r"shape \(3, 16, 16\) .* DQN was built for shape \(1, 16, 16\)"):
        make().fit(buffer, 1, **QUIET)


def test_all_estimates_see_stacks() -> None:
    config = ope.FQEConfig(batch_size=8, encoder_params=SMALL_FILTERS)
    found = ope.evaluate_offline(estimator(), images(True), n_steps=4, config=config)
    assert set(found) == {"fqe", "is", "wis", "pdis", "wpdis", "dr", "wdr", "magic"}
    assert np.isfinite(found["fqe"].value)


def test_files_know_how_many_frames_there_were(tmp_path: Path) -> None:
    fqe, data = make(), images(True)
    fqe.fit(data, 3, **QUIET)
    fqe.save(tmp_path / "fqe.d3")
    loaded = pfrl_like.load_learnable(tmp_path / "fqe.d3")
    assert loaded.n_frames == N_FRAMES
    x, action = data.sample(4, N_FRAMES).observations, np.zeros(4, np.int64)
    np.testing.assert_array_equal(loaded.predict_value(x, action), fqe.predict_value(x, action))


def test_a_behavior_sees_as_many_frames_as_it_has_learnt_from() -> None:
    algo, behavior = estimator(), algos.DiscreteBC(n_frames=1, encoder_params=SMALL_FILTERS)
    behavior.create_impl((1, 16, 16), 3)
    found = ope.evaluate_offline(algo, images(True), behavior=behavior, estimators=["wis"])
    assert found["wis"].n_episodes == len(images(True).episodes)


def test_a_policy_is_asked_about_the_stacks_of_a_buffer() -> None:
    class Policy(nn.Sequential):
        n_frames = N_FRAMES

    policy = Policy(nn.Flatten(), ToFloat(), nn.Linear(N_FRAMES * 16 * 16, 4), SoftmaxCategoricalHead())
    fqe = make(algo=policy)
    fqe.fit(ReplayBuffer.from_dataset(images(True)), 1, **QUIET)
    assert fqe.action_size == 4


class ToFloat(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float()
