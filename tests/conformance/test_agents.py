"""Every agent, with every buffer that fits it, keeps the contracts; its targets are the true values of a known task."""

import functools
from collections.abc import Callable
from typing import Any

import actor_critic_parts
import agent_parts
import numpy as np
import pytest
import torch
from agent_parts import AGENTS, COMBINATIONS, make_agent
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hand_parts import with_nothing_after
from registry import LEARNERS, REGISTRY, made, obs_size

from pfrl_like.agents import DQN, DecisionTransformer, DoubleDQN
from pfrl_like.batch import Batch
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.explorers import ConstantEpsilonGreedy, Greedy
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.testing import Chain, ChainQFunction, check_agent

GAMMA = 0.9
CHAINS = {
    "terminated": Chain(),
    "truncated": Chain(terminates=False, time_limit=5),
    "both": Chain(time_limit=3),  # from state 1 on, the third step is the end and the time limit
    "cut off by the runner": Chain(terminates=False),
}

#: Others with a replay buffer.
OTHERS = [name for name in LEARNERS if name not in AGENTS and "replay_buffer" in REGISTRY[name].arguments()]
#: In the default run one agent of each kind of values has the buffer that asks most of it, and DQN memory, too.
FIRST = {
    *((agent, "3-step prioritized", False) for agent in ("DQN", "CategoricalDoubleDQN", "PAL", "QRDQN", "IQN", "FQF")),
    ("DQN", "prioritized episodic", True),
}


@pytest.mark.representatives(2)
@pytest.mark.parametrize(
    ("agent", "buffer", "recurrent"),
    [pytest.param(*case, marks=[] if case in FIRST else pytest.mark.slow) for case in COMBINATIONS],
)
def test_agent_keeps_the_contracts(agent: str, buffer: str, recurrent: bool) -> None:
    check_agent(functools.partial(make_agent, agent, buffer, recurrent))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"target_update_method": "soft"}, {"max_grad_norm": 0.5}])
def test_options_keep_the_contracts(options: dict[str, Any]) -> None:
    check_agent(functools.partial(make_agent, **options))


@pytest.mark.slow
def test_compiled_agent_keeps_the_contracts() -> None:
    check_agent(functools.partial(make_agent, compile=True))


@pytest.mark.slow
@pytest.mark.parametrize("recurrent", [False, True])
def test_agent_keeps_the_contracts_in_an_environment_of_four_values(recurrent: bool) -> None:
    check_agent(functools.partial(make_agent, recurrent=recurrent, n_actions=3), ABC(size=3))


@pytest.mark.slow
@pytest.mark.parametrize("buffer", ["uniform", "3-step prioritized"])
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_agent_with_replay_keeps_the_contracts(name: str, buffer: str) -> None:
    kind = REGISTRY[name].kind
    if issubclass(kind, DecisionTransformer) or name == "ACER":
        buffer = "prioritized episodic" if "prioritized" in buffer else "episodic"
    env = ABC(size=2, discrete=name.startswith("Discrete")) if obs_size(kind) == 4 else None
    check_agent(functools.partial(made, kind, buffer), env)


COMPILED = [
    "AL", "PAL", "DoublePAL", "DPP", "AWR", "BCQ", "DiscreteBCQ", "BEAR", "CalQL", "CQL", "EDAC", "IQL", "DiscreteIQL",
    "TD3PlusBC", "ReBRAC", "CRR", "COMBO", "DiscreteSAC",
]  # fmt: skip


def with_discrete_actions(batch: Batch) -> Batch:
    return batch.replace(action=(batch.action[:, 0] > 0).long())


#: Functions that give a minibatch what an agent needs besides.
PREPARED: dict[str, Callable[[Batch], Batch]] = {
    **dict.fromkeys(("AWR", "CalQL"), with_nothing_after),
    **dict.fromkeys(("DiscreteIQL", "DiscreteSAC"), with_discrete_actions),
    "ReBRAC": lambda batch: batch.replace(next_action=batch.action),
}

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("EDAC", {"eta": 0.0}),
    *((name, {"rl_start_step": 1}) for name in ("PLAS", "PLASWithPerturbation")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in COMPILED), *OPTIONS])
def test_a_compiled_update_has_the_errors_of_an_ordinary_one(name: str, options: dict[str, Any]) -> None:
    kind = REGISTRY[name].kind
    make_batch = (agent_parts if obs_size(kind) == 5 else actor_critic_parts).make_batch
    twins = [made(kind, compile=compile, **options) for compile in (False, True)]
    for seed in range(4):
        errors = []
        for agent in twins:
            torch.manual_seed(seed)
            batch = make_batch(seed)
            errors.append(agent.update(PREPARED[name](batch) if name in PREPARED else batch)[0])
        torch.testing.assert_close(*errors, rtol=1e-3, atol=1e-4)


# What an agent bootstraps from, where the truth is known: its own Q-function is the true one, so that every TD error
# has to be zero. The table holds 1000 for the end: to bootstrap from it would show, and so would a step that joins two
# episodes, or a cut-off that counts as an end.


def vector_env(chain: Chain, n_envs: int, mode: AutoresetMode | None) -> Any:
    """Several chains like one, in a vector of the library's own, or of gymnasium's with an autoreset mode."""
    make = functools.partial(Chain, chain.size, chain.terminates, chain.time_limit)
    if mode is None:
        return SerialVectorEnv([make() for _ in range(n_envs)])
    return SyncVectorEnv([make] * n_envs, autoreset_mode=mode)


def make_knowing_agent(chain: Chain, buffer: Any, kind: type[DQN] = DQN, explores: bool = True) -> DQN:
    """An agent with the true Q-function, which never learns."""
    parts = {"q_function": ChainQFunction(chain, GAMMA), "replay_buffer": buffer, "gamma": GAMMA}
    explorer = ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)) if explores else Greedy()
    still = functools.partial(torch.optim.SGD, lr=0.0)
    return make_agent(kind, optimizer=still, explorer=explorer, replay_start_size=10_000, **parts)


def assert_no_error(agent: DQN, batch: Any) -> None:
    values = agent.model(batch.obs).evaluate_actions(batch.action).detach()
    td_error, _ = agent.update(batch)
    torch.testing.assert_close(td_error / values.max(), torch.zeros_like(values), rtol=0, atol=1e-6)


@pytest.mark.representatives(21)
@pytest.mark.parametrize("num_steps", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    "n_envs", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("mode", [None, *AutoresetMode], ids=str)
@pytest.mark.parametrize("ending", CHAINS)
def test_targets_are_the_true_values(
    ending: str, mode: AutoresetMode | None, n_envs: int, num_steps: int, tmp_path: Any
) -> None:
    chain = CHAINS[ending]
    # Only a window of best actions has the true value of its first one.
    agent = make_knowing_agent(chain, ReplayBuffer(10_000, num_steps=num_steps), explores=num_steps == 1)
    limit = 4 if ending == "cut off by the runner" else None
    train_agent_batch(agent, vector_env(chain, n_envs, mode), 60, tmp_path, max_episode_len=limit)
    batch = agent.replay_buffer.sample_batch(len(agent.replay_buffer), GAMMA)
    assert 60 - n_envs * num_steps < len(batch) <= agent.t
    assert (batch.discount == 0).any() == (chain.terminates)
    assert_no_error(agent, batch)


@pytest.mark.parametrize("kind", [DQN, DoubleDQN])
@pytest.mark.parametrize("ending", CHAINS)
def test_targets_of_sequences_are_the_true_values(ending: str, kind: type[DQN], tmp_path: Any) -> None:
    agent = make_knowing_agent(CHAINS[ending], EpisodicReplayBuffer(10_000), kind)
    limit = 4 if ending == "cut off by the runner" else None
    train_agent(agent, CHAINS[ending], 60, tmp_path, max_episode_len=limit)
    for max_len in (None, 2):
        assert_no_error_of_sequences(agent, max_len)


def assert_no_error_of_sequences(agent: DQN, max_len: int | None) -> None:
    buffer: Any = agent.replay_buffer
    batch = buffer.sample_sequences(buffer.n_episodes, max_len, GAMMA)
    td_error = agent.loss(batch)[1]
    torch.testing.assert_close(td_error / 30, torch.zeros_like(td_error), rtol=0, atol=1e-6)


@pytest.mark.parametrize("num_steps", [1, 3])
def test_prioritised_targets_are_the_true_values(num_steps: int, tmp_path: Any) -> None:
    chain = CHAINS["truncated"]
    agent = make_knowing_agent(chain, PrioritizedReplayBuffer(10_000, num_steps=num_steps), explores=num_steps == 1)
    train_agent(agent, chain, 60, tmp_path)
    assert_no_error(agent, agent.replay_buffer.sample_batch(len(agent.replay_buffer), GAMMA))


@pytest.mark.parametrize("terminates", [True, False])
def test_the_values_of_the_chain_solve_its_bellman_equations(terminates: bool) -> None:
    chain = Chain(size=3, terminates=terminates)
    q = chain.q_values(0.9)
    best = q.max(1)
    for s in range(3):
        following = 3 if terminates and s == 2 else (s + 1) % 3
        assert q[s].tolist() == pytest.approx([0.9 * best[s], s + 1 + 0.9 * best[following]])
    assert best[3] == 0
    # by hand for the ending chain: 3,   2 + 0.9 * 3 = 4.7,   1 + 0.9 * 4.7 = 5.23
    if terminates:
        assert best[:3].tolist() == pytest.approx([5.23, 4.7, 3.0])
