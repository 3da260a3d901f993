"""One environment in a vector gives the serial runner's numbers, and a seed the same numbers twice, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from agent_parts import make_q_function
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from pfrl_like.agents import DQN
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.explorers import LinearDecayEpsilonGreedy
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedReplayBuffer
from pfrl_like.testing.play import difference
from pfrl_like.utils import set_random_seed

STEPS = 180


def run(train: Callable[[DQN, Any], None], recurrent: bool) -> tuple[Any, Any]:
    """Train on CartPole from one seed; returns the agent's state and everything in its buffer."""
    set_random_seed(3)
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=5)
    env.action_space.seed(7)
    q_function = make_q_function(recurrent=recurrent, obs_size=4)
    buffer = EpisodicReplayBuffer(10_000) if recurrent else PrioritizedReplayBuffer(10_000, num_steps=2)
    agent = DQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-3),
        buffer,
        0.99,
        LinearDecayEpsilonGreedy(1.0, 0.1, 200, env.action_space.sample),
        replay_start_size=50,
        minibatch_size=4,
        update_interval=4 if recurrent else 2,
        target_update_interval=40,
        episodic_update_len=10,
        recurrent=recurrent,
    )
    train(agent, env)
    assert agent.t == STEPS and agent.optim_t > 20
    set_random_seed(0)
    content = buffer.sample(len(buffer))
    return agent.state_dict(), content


def serial(outdir: Path) -> Callable[[DQN, Any], None]:
    return lambda agent, env: train_agent(agent, env, STEPS, outdir) and None


def vector(outdir: Path, make: Callable[[Any], Any]) -> Callable[[DQN, Any], None]:
    return lambda agent, env: train_agent_batch(agent, make(env), STEPS, outdir) and None


VECTORS: dict[str, Callable[[Any], Any]] = {
    "SerialVectorEnv": lambda env: SerialVectorEnv([env]),
    **{
        f"SyncVectorEnv, {mode.name}": lambda env, mode=mode: SyncVectorEnv([lambda: env], autoreset_mode=mode)  # type: ignore[misc]
        for mode in AutoresetMode
    },
}


@pytest.fixture(scope="module", params=[False, True], ids=["DQN", "recurrent DQN"])
def serial_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bool, Any]:
    return request.param, run(serial(tmp_path_factory.mktemp("serial")), request.param)


@pytest.mark.representatives(2)
@pytest.mark.parametrize("kind", VECTORS)
def test_a_vector_of_one_is_the_environment_alone(kind: str, serial_run: tuple[bool, Any], tmp_path: Path) -> None:
    recurrent, expected = serial_run
    found = difference(run(vector(tmp_path, VECTORS[kind]), recurrent), expected, "(state, buffer)")
    assert found is None, found


def test_the_same_seed_gives_the_same_numbers_twice(serial_run: tuple[bool, Any], tmp_path: Path) -> None:
    recurrent, expected = serial_run
    found = difference(run(serial(tmp_path), recurrent), expected, "(state, buffer)")
    assert found is None, found
