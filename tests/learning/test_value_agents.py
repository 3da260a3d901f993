"""Agents learn the known values of tiny tasks: online in one environment and in several, and from a fixed buffer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, MAKE_BUFFER, sparing
from on_policy_parts import Table
from torch import nn

from pfrl_like import q_functions
from pfrl_like.action_value import DistributionalDiscreteActionValue, QuantileDiscreteActionValue
from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.testing import Chain
from pfrl_like.testing.play import STAY
from pfrl_like.utils import set_random_seed

GAMMA = 0.5
SIZE = 3
STEPS = 400
ALPHA = 0.5
IMPLICIT = ("IQN", "DoubleIQN", "FQF")
GAP_INCREASING = ("AL", "PAL", "DoublePAL")
ATOMS = torch.linspace(0.0, 6.0, 13)  # the largest value is 3 + 0.5 * 22 / 7 = 4.57


def table() -> nn.Module:
    return nn.Sequential(Table(np.zeros((SIZE + 1, 2), np.float32)), q_functions.DiscreteActionValueHead())


class DistributionTable(nn.Module):
    """A return distribution for every state and action."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(SIZE + 1, 2, len(ATOMS)))

    def forward(self, obs: Any) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(self.logits[obs.argmax(1)].softmax(2), ATOMS)


class QuantileTable(nn.Module):
    """Quantiles of the return for every state and action."""

    def __init__(self) -> None:
        super().__init__()
        self.quantiles = nn.Parameter(torch.linspace(-0.1, 0.1, 8).repeat(SIZE + 1, 2, 1).mT.contiguous())

    def forward(self, obs: Any) -> QuantileDiscreteActionValue:
        return QuantileDiscreteActionValue(self.quantiles[obs.argmax(1)])


def implicit_table(agent: str) -> nn.Module:
    """A quantile function for every state and action: one linear in the cosines, of a hidden unit for each of them."""
    size = (SIZE + 1) * 2
    features = nn.Linear(SIZE + 1, size, bias=False)
    features.weight.data = torch.eye(SIZE + 1).repeat_interleave(2, 0)
    features.requires_grad_(False)
    outputs = nn.Linear(size, 2, bias=False)
    outputs.weight.data = torch.eye(2).repeat(1, SIZE + 1)
    outputs.requires_grad_(False)
    embedding = q_functions.CosineBasisLinear(3, size)
    nn.init.zeros_(embedding.linear.weight)
    nn.init.zeros_(embedding.linear.bias)
    if agent == "FQF":
        return q_functions.FullyParametrizedQFunction(features, embedding, outputs, nn.Linear(size, 8))
    counts = {"quantile_thresholds_N": 8, "quantile_thresholds_N_prime": 8, "quantile_thresholds_K": 8}
    return q_functions.ImplicitQuantileQFunction(features, embedding, outputs, **counts)


def make_table(agent: str) -> nn.Module:
    """A Q-function that can say everything of the chain, in the form that an agent needs."""
    if agent.startswith("Categorical"):
        return DistributionTable()
    if agent == "QRDQN":
        return QuantileTable()
    return implicit_table(agent) if agent in IMPLICIT else table()


def make_agent(agent: str, buffer: str = "uniform", **options: Any) -> DQN:
    """An agent that acts at random and learns fast."""
    distributional = agent.startswith("Categorical")
    q_function = make_table(agent)
    params: Any = q_functions.fqf_parameter_groups(q_function, lr=1e-3) if agent == "FQF" else q_function.parameters()
    if agent in GAP_INCREASING:
        options["alpha"] = ALPHA
    return AGENTS[agent](
        q_function,
        torch.optim.Adam(params, lr=0.2 if distributional else 0.1),
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


@pytest.mark.representatives(3)
@pytest.mark.parametrize(
    ("agent", "task", "way"),
    sparing(
        [(agent, task, "online") for agent in AGENTS for task in TASKS]
        + [(agent, "truncated", way) for agent in AGENTS for way in ("batch", "offline")],
        ("truncated", "online"),
    ),
)
def test_agent_learns_the_values_of_the_chain(agent: str, task: str, way: str, tmp_path: Path) -> None:
    one, chain = make_agent(agent), TASKS[task]
    WAYS[way](one, chain, tmp_path, STEPS)
    tolerance = 0.1 if agent.startswith("Categorical") or agent in IMPLICIT else 0.02
    learnt, true = learnt_values(one), chain.q_values(GAMMA)[:SIZE]
    best = true.max(1, keepdims=True)
    if agent == "DPP":  # what is not the best sinks without end
        np.testing.assert_allclose(learnt.max(1), true.max(1), atol=tolerance)
        assert (learnt[:, STAY] < true[:, STAY]).all()
        return
    if agent in GAP_INCREASING:  # x = true - alpha * (best - x); who stays finds the same gap again, for PAL
        true = (true - ALPHA * best) / (1 - ALPHA)
    if agent == "MunchausenDQN":  # the same, of a gap of at most 1
        true = np.maximum((true - 0.9 * best) / (1 - 0.9), true - 0.9 * (true < best))
    np.testing.assert_allclose(learnt, true, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("buffer", ["prioritized", "episodic"])
def test_every_buffer_leads_to_the_same_values(buffer: str, tmp_path: Path) -> None:
    agent, chain = make_agent("DQN", buffer), TASKS["truncated"]
    train_agent(agent, chain, STEPS, tmp_path)
    np.testing.assert_allclose(learnt_values(agent), chain.q_values(GAMMA)[:SIZE], atol=0.02)


@pytest.mark.slow
def test_three_steps_lead_to_the_values_of_what_was_done(tmp_path: Path) -> None:
    # n-step targets without correction are those of the behaviour: here it is always right, so that they are optimal.
    agent, chain = make_agent("DQN", "3-step"), TASKS["truncated"]
    agent.explorer = ConstantEpsilonGreedy(1.0, lambda: 1)
    train_agent(agent, chain, STEPS, tmp_path)
    np.testing.assert_allclose(learnt_values(agent)[:, 1], chain.q_values(GAMMA)[:SIZE, 1], atol=0.02)


@pytest.mark.slow
def test_soft_updates_lead_to_the_same_values(tmp_path: Path) -> None:
    set_random_seed(0)  # they are slower, so that few visits to a state would tell
    TASKS["truncated"].reset(seed=0)
    agent = make_agent("DQN", target_update_method="soft", soft_update_tau=0.1, target_update_interval=1)
    train_agent(agent, TASKS["truncated"], STEPS, tmp_path)
    np.testing.assert_allclose(learnt_values(agent), TASKS["truncated"].q_values(GAMMA)[:SIZE], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("agent", sparing((agent,) for agent in AGENTS))
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
    if agent == "MunchausenDQN":
        expected -= 0.9 * np.array([[0.0, 1.0], [1.0, 0.0]])
    error = 0.1 if agent.startswith("Categorical") or agent in IMPLICIT else 0.02
    np.testing.assert_allclose(learnt, expected, atol=error)


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
    head = DistributionalHead() if distributional else q_functions.DiscreteActionValueHead()
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


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["IQN", *(pytest.param(name, marks=pytest.mark.slow) for name in ("QRDQN", "FQF"))])
def test_quantiles_of_a_random_return_are_learnt(agent: str) -> None:
    # State 1 earns a reward uniform on [0, 40] and ends: its quantile at tau is 40 tau. State 0 earns nothing and leads
    # there: 20 tau. The range is wide because the Huber loss bends quantiles that are less than about 1 apart.
    torch.manual_seed(0)
    one = make_agent(agent)
    states = torch.eye(SIZE + 1)
    for step in range(1_500):
        one.optimizer.param_groups[0]["lr"] = 0.3 * (1 - step / 1_500)
        last, row = torch.rand(64) < 0.5, torch.arange(64)
        reward, discount = torch.where(last, 40 * torch.rand(64), 0.0), torch.where(last, 0.0, GAMMA)
        obs, next_obs = states[torch.where(last, 1, 0)], states[torch.where(last, SIZE, 1)]
        one.update(Batch(obs, row % 2, reward, next_obs, discount))
    with torch.no_grad():
        value = one.model(states[:2])
        if agent != "QRDQN":
            assert (value.at_even_fractions().q_values[1] - 20.0).abs().max() < 3.0
            value = value(torch.linspace(0.1, 0.9, 5).expand(2, -1))
    n = value.quantiles.shape[1]
    taus = torch.linspace(0.1, 0.9, 5) if agent != "QRDQN" else (torch.arange(n) + 0.5) / n
    true = torch.stack([20 * taus, 40 * taus]).unsqueeze(2).expand_as(value.quantiles)
    torch.testing.assert_close(value.quantiles, true, rtol=0, atol=3.0)
    assert (value.quantiles.diff(dim=1) > 0).all()
