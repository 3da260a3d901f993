from typing import Any

import gym
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from pfrl_like.d3rlpy import envs


class Images(gymnasium.Env):
    """An environment whose images have the number of the step as value."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, shape: tuple[int, ...] = (4, 5, 3)) -> None:
        self.observation_space, self.t = Box(0, 255, shape, np.uint8), 0

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.t = 1
        return self.image(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.image(), 1.0, False, False, {}

    def image(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self.t, np.uint8)


class Goals(Images):
    observation_space = Dict(observation=Box(-1, 1, (3,)), desired_goal=Box(-2, 2, (2,)))

    def __init__(self) -> None:
        """Keep the space of the class."""

    def image(self) -> Any:
        return {"observation": np.full(3, self.t, np.float32), "desired_goal": np.ones(2, np.float32)}


@pytest.mark.parametrize(("shape", "result"), [((4, 5, 3), (3, 4, 5)), ((4, 5), (1, 4, 5))])
def test_channels_become_the_first_axis(shape: tuple, result: tuple) -> None:
    env = envs.ChannelFirst(Images(shape))
    assert env.observation_space.shape == env.reset()[0].shape == env.step(0)[0].shape == result


def test_environments_of_gym_are_wrapped() -> None:
    class OldImages(gym.Env):
        observation_space, action_space = gym.spaces.Box(0, 255, (4, 5, 3), np.uint8), gym.spaces.Discrete(2)

        def reset(self, **options: Any) -> Any:
            return np.zeros((4, 5, 3), np.uint8), {}

    assert envs.ChannelFirst(OldImages()).reset()[0].shape == (3, 4, 5)


def test_frames_are_stacked_along_a_new_axis_after_zeros() -> None:
    env = envs.FrameStack(Images((4, 5)), 3)
    assert env.observation_space.shape == (3, 4, 5)
    for _ in range(2):
        assert env.reset()[0][:, 0, 0].tolist() == [0, 0, 1]
        assert env.step(0)[0][:, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("as_tuple", [False, True])
def test_goals_are_appended_to_observations(as_tuple: bool) -> None:
    env = envs.GoalConcatWrapper(Goals(), tuple_observation=as_tuple)
    env.reset()
    observation = env.step(0)[0]
    assert env.observation_space.contains(env.observation_space.sample())
    parts = observation if as_tuple else (observation[:3], observation[3:])
    assert [part.tolist() for part in parts] == [[2, 2, 2], [1, 1]]


def test_environments_that_do_not_match_are_rejected() -> None:
    with pytest.raises(ValueError, match="expected images"):
        envs.ChannelFirst(Images((4,)))
    with pytest.raises(ValueError, match="expected a Dict"):
        envs.GoalConcatWrapper(Images())


def test_atari_games_are_preprocessed() -> None:
    ale_py = pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    gymnasium.register_envs(ale_py)
    game = gymnasium.make("BreakoutNoFrameskip-v4")
    stacked, single = envs.Atari(game, num_stack=4, is_eval=True), envs.Atari(game)
    envs.seed_env(stacked, 0)
    assert stacked.reset()[0].shape == stacked.observation_space.shape == (4, 84, 84)
    assert not any(stacked.step(1)[2] for _ in range(40))
    assert single.reset(seed=0)[0].shape == (1, 84, 84) and single.observation_space.dtype == np.uint8
    assert any(single.step(1)[2] for _ in range(40))  # a life is lost
