"""Agents learn the known values of tiny tasks: online in one environment and in several, and from a fixed buffer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, MAKE_BUFFER
from torch import nn

from pfrl_like.action_value import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.agents import DQN
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing import Chain
from pfrl_like.testing.chain import STAY

GAMMA = 0.5
SIZE = 3
STEPS = 400
ALPHA = 0.5
GAP_INCREASING = ("AL", "PAL", "DoublePAL")
ATOMS = torch.linspace(0.0, 6.0, 13)  # the largest value is 3 + 0.5 * 22 / 7 = 4.57


class Table(nn.Module):
    """A number for every state and action."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(SIZE + 1, 2))

    def forward(self, obs: Any) -> DiscreteActionValue:
        return DiscreteActionValue(obs @ self.values)


class DistributionTable(nn.Module):
    """A return distribution for every state and action."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(SIZE + 1, 2, len(ATOMS)))

    def forward(self, obs: Any) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(self.logits[obs.argmax(1)].softmax(2), ATOMS)


def make_agent(agent: str, buffer: str = "uniform", **options: Any) -> DQN:
    """An agent that acts at random and learns fast."""
    distributional = agent.startswith("Categorical")
    q_function = DistributionTable() if distributional else Table()
    if agent in GAP_INCREASING:
        options["alpha"] = ALPHA
    return AGENTS[agent](
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=0.2 if distributional else 0.1),
        MAKE_BUFFER[buffer](capacity=None),
        GAMMA,
        ConstantEpsilonGreedy(1.0, lambda: np.random.randint(2)),
        **{"replay_start_size": 50, "minibatch_size": 32, "target_update_interval": 20, "clip_delta": False, **options},
    )


def online(agent: DQN, chain: Chain, outdir: Path, steps: int) -> None:
    train_agent(agent, chain, steps, outdir)


def batch(agent: DQN, chain: Chain, outdir: Path, steps: int) -> None:
    envs = [Chain(chain.size, chain.terminates, chain.time_limit) for _ in range(4)]
    train_agent_batch(agent, SerialVectorEnv(envs), steps, outdir)


def offline(agent: DQN, chain: Chain, outdir: Path, steps: int) -> None:
    collector = make_agent("DQN", replay_start_size=10_000)
    train_agent(collector, chain, 300, outdir)
    for _ in range(steps):
        agent.update(collector.replay_buffer.sample_batch(32, GAMMA))


WAYS: dict[str, Callable[..., None]] = {"online": online, "batch": batch, "offline": offline}
TASKS = {
    "terminated": Chain(SIZE),
    "truncated": Chain(SIZE, terminates=False, time_limit=4),
    "both": Chain(SIZE, time_limit=2),
}


def learnt_values(agent: DQN) -> Any:
    with torch.no_grad():
        return agent.model(torch.eye(SIZE + 1)[:SIZE]).q_values.numpy()


@pytest.mark.parametrize(
    ("agent", "task", "way"),
    [(agent, task, "online") for agent in AGENTS for task in TASKS]
    + [(agent, "truncated", way) for agent in AGENTS for way in ("batch", "offline")],
)
def test_agent_learns_the_values_of_the_chain(agent: str, task: str, way: str, tmp_path: Path) -> None:
    one, chain = make_agent(agent), TASKS[task]
    WAYS[way](one, chain, tmp_path, STEPS)
    tolerance = 0.1 if agent.startswith("Categorical") else 0.02
    learnt, true = learnt_values(one), chain.q_values(GAMMA)[:SIZE]
    best = true.max(1, keepdims=True)
    if agent == "DPP":  # what is not the best sinks without end
        np.testing.assert_allclose(learnt.max(1), true.max(1), atol=tolerance)
        assert (learnt[:, STAY] < true[:, STAY]).all()
        return
    if agent in GAP_INCREASING:  # x = true - alpha * (best - x); who stays finds the same gap again, for PAL
        true = (true - ALPHA * best) / (1 - ALPHA)
    np.testing.assert_allclose(learnt, true, atol=tolerance)


@pytest.mark.parametrize("buffer", ["prioritized", "episodic"])
def test_every_buffer_leads_to_the_same_values(buffer: str, tmp_path: Path) -> None:
    agent, chain = make_agent("DQN", buffer), TASKS["truncated"]
    train_agent(agent, chain, STEPS, tmp_path)
    np.testing.assert_allclose(learnt_values(agent), chain.q_values(GAMMA)[:SIZE], atol=0.02)


def test_three_steps_lead_to_the_values_of_what_was_done(tmp_path: Path) -> None:
    # n-step targets without correction are those of the behaviour: here it is always right, so that they are optimal.
    agent, chain = make_agent("DQN", "3-step"), TASKS["truncated"]
    agent.explorer = ConstantEpsilonGreedy(1.0, lambda: 1)
    train_agent(agent, chain, STEPS, tmp_path)
    np.testing.assert_allclose(learnt_values(agent)[:, 1], chain.q_values(GAMMA)[:SIZE, 1], atol=0.02)


def test_soft_updates_lead_to_the_same_values(tmp_path: Path) -> None:
    agent = make_agent("DQN", target_update_method="soft", soft_update_tau=0.1, target_update_interval=1)
    train_agent(agent, TASKS["truncated"], STEPS, tmp_path)
    np.testing.assert_allclose(learnt_values(agent), TASKS["truncated"].q_values(GAMMA)[:SIZE], atol=0.02)


@pytest.mark.parametrize("agent", AGENTS)
def test_agent_learns_the_values_of_abc(agent: str, tmp_path: Path) -> None:
    one = make_agent(agent)  # ABC of size 2 has observations of 4 numbers, like the chain
    train_agent(one, ABC(size=2), STEPS, tmp_path)
    # right and right: the return 1 after two steps, so gamma and 1; every wrong action ends the episode with nothing
    expected = np.array([[GAMMA, 0.0], [0.0, 1.0]])
    learnt = learnt_values(one)[:2]
    if agent == "DPP":
        learnt = np.maximum(learnt, 0.0)
    if agent == "AL":  # x = 0 - alpha * (best - x); for PAL there is no gap after the end
        expected -= ALPHA / (1 - ALPHA) * np.array([[0.0, GAMMA], [1.0, 0.0]])
    np.testing.assert_allclose(learnt, expected, atol=0.1 if agent.startswith("Categorical") else 0.02)


class DistributionalHead(nn.Module):
    """Rows of numbers as return distributions of two actions."""

    def forward(self, x: Any) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(x.view(-1, 2, len(ATOMS)).softmax(2), ATOMS)


@pytest.mark.parametrize(
    ("agent", "buffer"),
    [
        ("DQN", "episodic"),
        pytest.param("DoubleDQN", "prioritized episodic", marks=pytest.mark.slow),
        pytest.param("CategoricalDQN", "episodic", marks=pytest.mark.slow),
        pytest.param("CategoricalDoubleDQN", "episodic", marks=pytest.mark.slow),
    ],
)
def test_recurrent_agent_learns_what_only_a_memory_can_tell(agent: str, buffer: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    distributional = agent.startswith("Categorical")
    head = DistributionalHead() if distributional else DiscreteActionValueHead()
    q_function = RecurrentSequential(nn.GRU(4, 16), nn.Linear(16, 2 * len(ATOMS) if distributional else 2), head)
    one = AGENTS[agent](
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=0.01),
        MAKE_BUFFER[buffer](capacity=None),
        GAMMA,
        ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)),
        replay_start_size=50,
        minibatch_size=16,
        target_update_interval=40,
        update_interval=2,
        episodic_update_len=2,
        recurrent=True,
    )
    env = ABC(size=2, partially_observable=True, deterministic=True)
    train_agent(one, env, 900, tmp_path)
    assert play(one, env) == [1.0, 1.0]
    # The second observation of one kind of episode is the first of the other: the right action and its value are not
    # the same.
    for shift in (0, 1):
        first, second = np.eye(4, dtype=np.float32)[[shift, shift + 1]]
        with torch.no_grad():
            rows = nn.utils.rnn.pack_sequence([torch.from_numpy(np.stack([first, second]))])
            values = one.model(rows, None)[0].q_values
        np.testing.assert_allclose(values.numpy(), [[GAMMA, 0.0], [0.0, 1.0]], atol=0.15)


def play(agent: DQN, env: Any) -> list[float]:
    """Returns of two episodes in evaluation."""
    returns = []
    with agent.eval_mode():
        for _ in range(2):
            obs, done, total = env.reset(), False, 0.0
            while not done:
                obs, reward, done, _ = env.step(agent.act(obs))
                agent.observe(obs, reward, done, False)
                total += reward
            returns.append(total)
    return returns
