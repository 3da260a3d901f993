from typing import Any

import gymnasium
import numpy as np
import pytest

from pfrl_like.d3rlpy import datasets
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset import FrameStackTransitionPicker
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.datasets import public_sets


def test_packaged_episodes_have_their_environment() -> None:
    picker = FrameStackTransitionPicker(1)
    dataset, env = datasets.get_dataset("cartpole", picker)
    assert dataset.size() == 120 and dataset.transition_picker is picker and env.spec.id == "CartPole-v1"
    assert dataset.dataset_info.action_space == ActionSpace.DISCRETE and dataset.dataset_info.action_size == 2
    random, _ = datasets.get_cartpole("random")
    assert [e.compute_return() for e in random.episodes[:3]] == [22, 29, 18] and random.size() == 60
    with pytest.raises(ValueError, match="dataset_type"):
        datasets.get_cartpole("expert")


def test_actions_of_the_packaged_pendulum_are_torques_of_its_environment() -> None:
    dataset, env = datasets.get_dataset("pendulum-random")
    assert dataset.size() == 20 and 1.9 < np.abs(dataset.episodes[0].actions).max() <= 2
    env.reset(seed=0)
    episode = dataset.episodes[0]
    cos, sin, speed = episode.observations[0]
    env.unwrapped.state = np.array([np.arctan2(sin, cos), speed], np.float64)
    observation, reward, *_ = env.step(episode.actions[0])
    assert observation == pytest.approx(episode.observations[1], abs=1e-4)
    assert reward == pytest.approx(episode.rewards[0, 0], abs=1e-3)


@pytest.mark.parametrize(("as_tuple", "shapes"), [(False, [(5,)]), (True, [(3,), (2,)])])
def test_goals_of_minari_are_part_of_the_observations(as_tuple: bool, shapes: list, monkeypatch) -> None:
    class Goals(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {key: gymnasium.spaces.Box(0, 9, (n,)) for key, n in (("observation", 3), ("desired_goal", 2))}
        )
        action_space = gymnasium.spaces.Box(-1, 1, (1,))

    obs: dict[str, Any] = {"observation": np.zeros((4, 3)), "desired_goal": np.arange(8.0).reshape(4, 2)}
    flags = np.array([0, 1, 0, 1])
    recorded = LibraryDataset(obs, np.zeros((4, 1)), np.arange(4.0), flags, reward_convention="same_row")
    monkeypatch.setattr(public_sets, "get_minari", lambda name: (recorded, Goals()))
    dataset, env = datasets.get_minari("goals/any-v0", tuple_observation=as_tuple)
    assert dataset.dataset_info.observation_signature.shape == shapes
    last = dataset.episodes[1].observations
    assert (last[1] if as_tuple else last[:, 3:]).tolist() == [[4, 5], [6, 7]]
    assert env.observation_space.contains(env.observation_space.sample())


def test_unknown_names_and_stacked_files_are_refused() -> None:
    with pytest.raises(ValueError, match="env_name"):
        datasets.get_dataset("hopper-any-v2")
    with pytest.raises(ValueError, match="pre_stack"):
        datasets.get_atari("breakout-mixed-v0", pre_stack=True)
