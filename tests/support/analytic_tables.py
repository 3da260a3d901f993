"""Tables of policies and critics, for agents that learn nothing, and how each row of their updates is checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from analytic_parts import Table, Trial, label_of, state_of, value_of_action
from pair_base import MAKE_BUFFER
from torch import nn

from pfrl_like.testing.play import Step

#: Tables of the policy (action, log-probability) and of critics (value, slope), and their targets'.
POLICY = ((0.5, -0.25), (-0.75, 1.5), (0.25, 0.5), (-0.5, -1.0))
TARGET_POLICY = ((-0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (-1.0, 0.0))
CRITICS = (((1.0, 0.5), (2.0, -1.0), (0.0, 2.0), (-1.0, 1.0)), ((0.5, 1.5), (2.5, 1.0), (1.0, -2.0), (-1.5, 0.5)))
TARGET_CRITICS = (((2.0, 1.0), (0.0, 3.0), (1.5, -1.0), (2.0, 2.0)), ((1.0, -1.0), (1.0, 1.0), (2.5, 1.0), (0.5, -2.0)))
TEMPERATURE = 0.6


def critic_value(rows: Any, obs: Any, action: Any) -> float:
    """What a `QuadraticCritic` of a table says of one observation and action."""
    return float(value_of_action(np.array(rows[state_of(obs)]), np.asarray(action, np.float64)))


def least(obs: Any, policy: Any, n_critics: int, critics: Any = TARGET_CRITICS) -> float:
    """The least of the first critics' values of the policy's action."""
    return min(critic_value(rows, obs, policy[state_of(obs)][:1]) for rows in critics[:n_critics])


def soft(obs: Any, next_value: Callable[[Any], float] = lambda obs: least(obs, POLICY, 2)) -> float:
    """A value of the policy's action and the entropy that counts beside it."""
    return next_value(obs) - TEMPERATURE * POLICY[state_of(obs)][1]


def buffer_of(n: int, kind: str = "uniform") -> Any:
    """A replay buffer of n-step returns."""
    return MAKE_BUFFER[kind](capacity=1_000, **({} if n == 1 else {"num_steps": n}))


SCHEDULE: dict[str, Any] = {"replay_start_size": 6, "minibatch_size": 5}


def put(module: nn.Module, rows: Any) -> None:
    """Other numbers into the table of a network."""
    (table,) = (part for part in module.modules() if isinstance(part, Table))
    table.rows.data.copy_(torch.tensor(rows))


def check_rows(trial: Trial, expected: Callable[[list[Step]], float], n: int) -> None:
    """Run, and compare the TD error of every row; there have to be some of each kind."""
    seen: list[tuple[list[Step], float]] = []

    def see(batch: Any, result: Any) -> None:
        for obs, next_obs, error in zip(batch.obs, batch.next_obs, result[0].tolist(), strict=True):
            steps = trial.steps(obs, n)
            assert label_of(next_obs) == label_of(steps[-1].next_obs)  # n steps, or to the end of the episode
            assert len(steps) == n or steps[-1].terminated or steps[-1].truncated
            seen.append((steps, error))

    trial.watch("update", see)
    trial.run()
    assert len(seen) > 100
    for steps, error in seen:
        assert error == pytest.approx(expected(steps), rel=0, abs=1e-6), steps
    possible = {(False, False)} | {step[4:] for env in trial.envs for episode in env.episodes[:-1] for step in episode}
    assert {steps[-1][4:] for steps, _ in seen} == possible
