"""Small agents and what they are made of, for tests that need one."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import network_parts
import numpy as np
import pytest
import torch
from pair_base import MAKE_BUFFER
from registry import REGISTRY, value_agents
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.explorers import ConstantEpsilonGreedy

#: Those that learn online, by name.
AGENTS: dict[str, type[DQN]] = {
    entry.name: entry.kind for entry in value_agents.ENTRIES if entry.parts and not entry.kind._is_offline
}
RECURRENT_BUFFERS = [name for name in MAKE_BUFFER if "episodic" in name]
BUFFERS = [name for name in MAKE_BUFFER if name not in RECURRENT_BUFFERS]
#: Every agent with every buffer that fits: (agent, buffer, recurrent).
COMBINATIONS = [(agent, buffer, False) for agent in AGENTS for buffer in (*BUFFERS, "episodic")] + [
    (agent, buffer, True) for agent in AGENTS for buffer in RECURRENT_BUFFERS
]

#: Agents of which the default run tries every case; of the others one each, and the slow run all.
EXEMPLARS = ("DQN",)


def sparing(cases: Iterable[tuple[Any, ...]], *others: tuple[Any, ...]) -> list[Any]:
    """Cases (agent, ...) as parameters of a test, slow if neither the agent is an exemplar nor the rest in `others`."""
    return [
        pytest.param(*case, marks=[] if case[0] in EXEMPLARS or case[1:] in others else pytest.mark.slow)
        for case in cases
    ]


def make_q_function(agent: str = "DQN", recurrent: bool = False, obs_size: int = 5, n_actions: int = 2) -> nn.Module:
    """A small Q-function of the kind that an agent needs."""
    kind = value_agents.q_function_of(REGISTRY[agent]) if agent in REGISTRY else "expected"  # of a test's own class
    return network_parts.make_q_function(kind, recurrent, obs_size, n_actions)


def make_agent(
    agent: str | type[DQN] = "DQN",
    buffer: str | None = None,
    recurrent: bool = False,
    *,
    capacity: int | None = 1_000,
    q_function: nn.Module | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] = functools.partial(torch.optim.Adam, lr=1e-2),  # noqa: B008
    n_actions: int = 2,
    **options: Any,
) -> DQN:
    """An agent for observations of 5 numbers that begins to learn after 10 steps; options go to its constructor."""
    kind = AGENTS[agent] if isinstance(agent, str) else agent
    model = make_q_function(kind.__name__, recurrent, n_actions=n_actions) if q_function is None else q_function
    arguments: dict[str, Any] = {
        "q_function": model,
        "optimizer": optimizer(model.parameters()),
        "replay_buffer": MAKE_BUFFER[buffer or ("episodic" if recurrent else "uniform")](capacity=capacity),
        "gamma": 0.9,
        "explorer": ConstantEpsilonGreedy(0.3, lambda: np.random.randint(n_actions)),
        "replay_start_size": 10,
        "minibatch_size": 4,
        "target_update_interval": 5,
        "recurrent": recurrent,
    }
    if recurrent:
        arguments["episodic_update_len"] = 4
    return kind(**{**arguments, **options})


def make_batch(seed: int, n: int = 8) -> Batch:
    """Random transitions for the agents of `make_agent`."""
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, n, 5, generator=g)
    return Batch(
        obs=obs,
        action=torch.randint(2, (n,), generator=g),
        reward=torch.randn(n, generator=g),
        next_obs=next_obs,
        discount=torch.full((n,), 0.9),
        weight=torch.rand(n, generator=g),
    )
