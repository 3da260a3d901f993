"""Atari games reach agents in the same form by every path: true last observations, each frame stored once."""

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.envs import MultiprocessVectorEnv, as_vector_stream
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.nn import Lambda
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.wrappers import VectorFrameStack
from pfrl_like.wrappers.atari_wrappers import make_atari, wrap_deepmind

ale_py = pytest.importorskip("ale_py")
MAX_FRAMES = 100  # of a game: about 20 steps
STEPS = 64


def deepmind(frame_stack: bool = True) -> Any:
    env = make_atari("PongNoFrameskip-v4", max_frames=MAX_FRAMES)
    env.seed(0)
    return wrap_deepmind(env, frame_stack=frame_stack)


def gymnasiums_own() -> Any:
    pytest.importorskip("cv2")
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("PongNoFrameskip-v4", max_num_frames_per_episode=MAX_FRAMES)
    return gymnasium.wrappers.FrameStackObservation(gymnasium.wrappers.AtariPreprocessing(env), 4)


def atari_vector_env(mode: AutoresetMode) -> Any:
    env = ale_py.AtariVectorEnv("pong", 2, max_num_frames_per_episode=MAX_FRAMES, autoreset_mode=mode)
    env.reset(seed=0)
    return env


ONE = {"DeepMind's wrappers": deepmind, "gymnasium's wrappers": gymnasiums_own}
SEVERAL = {
    "DeepMind's wrappers": lambda: SyncVectorEnv([deepmind, deepmind]),
    "gymnasium's wrappers": lambda: SyncVectorEnv([gymnasiums_own] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
    "frames stacked here": lambda: VectorFrameStack(
        MultiprocessVectorEnv([functools.partial(deepmind, frame_stack=False)] * 2, start_method="fork"), 4
    ),
    "AtariVectorEnv, next step": lambda: atari_vector_env(AutoresetMode.NEXT_STEP),
    "AtariVectorEnv, same step": lambda: atari_vector_env(AutoresetMode.SAME_STEP),
    "make_vec": lambda: gymnasium.make_vec("ALE/Pong-v5", 2, max_num_frames_per_episode=MAX_FRAMES),
}


def make_player(n_actions: int) -> DQN:
    def small(x: torch.Tensor) -> torch.Tensor:
        return x[:, :, ::12, ::12].flatten(1)

    q_function = nn.Sequential(Lambda(small), nn.Linear(4 * 49, n_actions), DiscreteActionValueHead())
    sizes = {"capacity": 10_000, "replay_start_size": 40, "minibatch_size": 8}
    return make_agent(q_function=q_function, n_actions=n_actions, phi=lambda x: np.float32(x), **sizes)


def check_replay(agent: DQN) -> None:
    """Each frame is there once; nothing is terminal; consecutive stacks overlap."""
    columns = agent.replay_buffer._columns
    frames = columns.obs.leaves[0].frames
    n_episodes = int((columns.successor[: STEPS + 1] == 0).sum()) + 2
    n_frames = frames.size - 1 - len(frames.free)
    assert n_frames <= STEPS + 4 * n_episodes
    batch = agent.replay_buffer.sample_batch(STEPS, 0.9)
    assert (batch.discount == np.float32(0.9)).all()  # Pong is not over after so few frames: every end is a truncation
    assert batch.obs.shape == (STEPS, 4, 84, 84) and batch.obs.dtype == torch.uint8
    assert torch.equal(batch.obs[:, 1:], batch.next_obs[:, :-1])


@pytest.mark.representatives(1)
@pytest.mark.parametrize("name", ONE)
def test_one_game_trains_with_each_frame_stored_once(name: str, tmp_path: Any) -> None:
    agent = make_player(6)
    train_agent(agent, ONE[name](), STEPS, tmp_path)
    assert agent.optim_t == STEPS - 39
    check_replay(agent)


@pytest.mark.representatives(1)
@pytest.mark.parametrize("name", SEVERAL)
def test_several_games_train_with_each_frame_stored_once(name: str, tmp_path: Any) -> None:
    env = SEVERAL[name]()
    agent = make_player(6)
    train_agent_batch(agent, env, STEPS, tmp_path)
    env.close()
    assert agent.t == STEPS
    check_replay(agent)


def test_vector_env_of_the_emulator_shows_the_same_transitions_in_both_modes() -> None:
    """The last frames of a game, and the first of the next, in whichever step they come."""
    seen = {}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        stream = as_vector_stream(atari_vector_env(mode))
        now, seen[mode] = stream.reset(), [[], []]
        for _ in range(60):
            step = stream.step(np.array([2, 3]))
            for i in np.flatnonzero(step.active):
                seen[mode][i].append((np.array(now.obs[i]), np.array(step.obs[i]), bool(step.truncated[i])))
            now = stream.begin((step.terminated | step.truncated) & step.active)
        stream.close()
    for one, other in zip(seen[AutoresetMode.NEXT_STEP], seen[AutoresetMode.SAME_STEP], strict=True):
        assert sum(truncated for *_, truncated in one) >= 2
        for a, b in zip(one, other, strict=False):
            assert a[2] == b[2] and np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
