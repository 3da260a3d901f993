"""With hindsight an agent learns to flip bits; without, it never meets the reward that it would learn from."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from pfrl_like.agents import DoubleDQN
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.envs.bit_flipping import BitFlipping
from pfrl_like.experiments import eval_performance, train_agent, train_agent_batch
from pfrl_like.explorers import LinearDecayEpsilonGreedy
from pfrl_like.q_functions import FCStateQFunctionWithDiscreteAction
from pfrl_like.replay_buffers import HindsightReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed
from pfrl_like.utils.goals import concatenate_goal


def make_env(n_bits: int, seed: int = 0) -> BitFlipping:
    env = BitFlipping(n_bits)
    env.reset(seed=seed)
    return env


def make_agent(n_bits: int, buffer: Any, steps: int, width: int = 64, lr: float = 5e-3, **options: Any) -> DoubleDQN:
    q_function = FCStateQFunctionWithDiscreteAction(2 * n_bits, n_bits, width, 1)
    env = make_env(n_bits)
    env.action_space.seed(0)
    return DoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=lr),
        buffer,
        0.9,
        LinearDecayEpsilonGreedy(1.0, 0.1, steps // 2, env.action_space.sample),
        phi=concatenate_goal,
        **{"replay_start_size": 200, "minibatch_size": 64, "target_update_interval": 25, **options},
    )


def hindsight(n_bits: int, **options: Any) -> HindsightReplayBuffer:
    env = BitFlipping(n_bits)
    return HindsightReplayBuffer(50_000, env.compute_reward, terminated_fn=env.compute_terminated, **options)


def success_rate(agent: DoubleDQN, n_bits: int) -> float:
    """Share of 200 episodes of the greedy policy that reach the goal, where the reward is 0 instead of -1."""
    env = gymnasium.wrappers.TransformReward(make_env(n_bits, seed=1), lambda reward: reward + 1.0)
    return float(eval_performance(env, agent, n_steps=None, n_episodes=200)["mean"])


@pytest.mark.slow
def test_dqn_with_hindsight_learns_to_flip_five_bits_in_several_environments(tmp_path: Path) -> None:
    set_random_seed(0)
    agent = make_agent(5, hindsight(5), steps=800)
    train_agent_batch(agent, SerialVectorEnv([make_env(5, seed) for seed in range(4)]), 800, tmp_path)
    assert success_rate(agent, 5) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"strategy": "final"}, {"strategy": "episode"}, {"num_steps": 3}], ids=str)
def test_every_strategy_and_longer_returns_learn_to_flip_five_bits(options: dict[str, Any], tmp_path: Path) -> None:
    set_random_seed(0)
    agent = make_agent(5, hindsight(5, **options), steps=2_000)
    train_agent(agent, make_env(5), 2_000, tmp_path)
    assert success_rate(agent, 5) > 0.9


@pytest.mark.slow
def test_ten_bits_are_learnt_in_hindsight_where_plain_replay_fails(tmp_path: Path) -> None:
    rates = []
    for buffer in (hindsight(10), ReplayBuffer(50_000)):
        set_random_seed(0)
        agent = make_agent(10, buffer, steps=4_000, width=256, lr=1e-3, minibatch_size=128, target_update_interval=200)
        train_agent(agent, make_env(10), 4_000, tmp_path)
        rates.append(success_rate(agent, 10))
    assert rates[0] > 0.95
    assert rates[1] < 0.1
