"""TQC, REDQ, CrossQ and discrete SAC learn towards what follows from known tables: every row of every update."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import analytic_tables as known
import pytest
import torch
from analytic_parts import KnownPolicy, QuadraticCritic, Table, Trial, forms_of_trials, n_step_return, softmax, state_of
from gymnasium.vector import AutoresetMode
from torch import nn

from pfrl_like import agents
from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing.play import Step
from pfrl_like.utils.contexts import ignores_training

#: The quantiles of each critic's value lie around it, the same way in every state.
SHIFTS = ((-1.5, 0.25, 2.0), (-3.0, -0.5, 0.75))
THIRD, TARGET_THIRD = (
    ((0.0, 1.0), (3.0, 0.5), (-1.0, -1.0), (0.5, 2.0)),
    ((0.5, 0.5), (0.5, -1.5), (0.0, 2.0), (0.0, 1)),
)
LOGITS = ((0.0, 1.0), (2.0, -1.0), (0.5, 0.5), (-3.0, 0.0))
VALUES = (((1.0, 2.0), (0.5, -1.0), (3.0, 2.5), (-2.0, 1.5)), ((0.0, 3.0), (1.5, -2.0), (2.0, 2.0), (0.0, 1.0)))
TARGET_VALUES = (((2.5, 1.0), (-1.5, 0.5), (2.0, 4.0), (1.0, -0.5)), ((1.0, 1.5), (0.0, 0.0), (3.0, 1.0), (-1.0, 2.0)))


@ignores_training
class Around(nn.Module):
    """Quantiles around numbers [B, 1]."""

    def __init__(self, shifts: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("shifts", torch.tensor(shifts, dtype=torch.float64))

    def forward(self, value: torch.Tensor) -> QuantileDiscreteActionValue:
        return QuantileDiscreteActionValue((value + self.shifts).unsqueeze(2))


def make(kind: Any, policy: nn.Module, critics: list[nn.Module], n: int, targets: Any, **options: Any) -> Any:
    """An agent that learns nothing, with other numbers in its targets."""
    policy_optimizer, *optimizers = [torch.optim.SGD(part.parameters(), lr=0.0) for part in (policy, *critics)]
    parts: tuple[Any, ...] = (policy, *critics, policy_optimizer, *optimizers)
    if kind is agents.REDQ:
        parts = policy, critics, policy_optimizer, optimizers
    still = {"soft_update_tau": 1e-30} if targets else {}
    agent = kind(
        *parts, known.buffer_of(n), 0.9, initial_temperature=known.TEMPERATURE, **{**known.SCHEDULE, **still, **options}
    )
    for target, rows in zip(agent.target_critics if targets else [], targets, strict=True):
        known.put(target, rows)
    return agent


def mean_error(target: float, values: list[float]) -> float:
    """By how much critics that say `values` miss the target."""
    return sum(abs(target - value) for value in values) / len(values)


# TQC


def of_kept_quantiles(obs: Any) -> float:
    """Mean of the quantiles of both targets without the two largest (arXiv:2005.04269, eq. 10 and 11)."""
    action = known.POLICY[state_of(obs)][:1]
    pairs = zip(known.TARGET_CRITICS, SHIFTS, strict=True)
    quantiles = sorted(known.critic_value(rows, obs, action) + shift for rows, shifts in pairs for shift in shifts)
    return sum(quantiles[:4]) / 4


def check_tqc(n: int, make_trial: Callable[[Any], Trial]) -> None:
    critics: list[nn.Module] = [
        nn.Sequential(QuadraticCritic(rows), Around(shifts)) for rows, shifts in zip(known.CRITICS, SHIFTS, strict=True)
    ]
    agent = make(agents.TQC, KnownPolicy(known.POLICY), critics, n, known.TARGET_CRITICS, n_dropped=1)

    def error(steps: list[Step]) -> float:
        target, first = n_step_return(steps, lambda obs: known.soft(obs, of_kept_quantiles)), steps[0]
        pairs = zip(known.CRITICS, SHIFTS, strict=True)
        return mean_error(
            target, [known.critic_value(rows, first.obs, first.action) + sum(shifts) / 3 for rows, shifts in pairs]
        )

    known.check_rows(make_trial(agent), error, n)


# CrossQ


def check_crossq(n: int, make_trial: Callable[[Any], Trial]) -> None:
    agent = make(agents.CrossQ, KnownPolicy(known.POLICY), [*map(QuadraticCritic, known.CRITICS)], n, ())

    def error(steps: list[Step]) -> float:
        own = n_step_return(  # there are no targets
            steps, lambda obs: known.soft(obs, lambda obs: known.least(obs, known.POLICY, 2, known.CRITICS))
        )
        return mean_error(own, [known.critic_value(rows, steps[0].obs, steps[0].action) for rows in known.CRITICS])

    known.check_rows(make_trial(agent), error, n)


# Discrete SAC


def soft_mean(obs: Any) -> float:
    """The mean of min Q' - temperature * log pi over the actions (arXiv:1910.07207, eq. 10)."""
    state = state_of(obs)
    values = [min(rows[state][action] for rows in TARGET_VALUES) for action in range(2)]
    return sum(p * (q - known.TEMPERATURE * math.log(p)) for p, q in zip(softmax(LOGITS[state]), values, strict=True))


def check_discrete(n: int, make_trial: Callable[[Any], Trial]) -> None:
    policy = nn.Sequential(Table(LOGITS), SoftmaxCategoricalHead())
    critics: list[nn.Module] = [nn.Sequential(Table(rows), DiscreteActionValueHead()) for rows in VALUES]
    agent = make(agents.DiscreteSAC, policy, critics, n, TARGET_VALUES)

    def error(steps: list[Step]) -> float:
        state, action = state_of(steps[0].obs), int(steps[0].action)
        return mean_error(n_step_return(steps, soft_mean), [rows[state][action] for rows in VALUES])

    known.check_rows(make_trial(agent), error, n)


# REDQ: every update has two of three critics in its targets, the same two in all rows


def check_redq(n: int, make_trial: Callable[[Any], Trial]) -> None:
    tables, targets = (*known.CRITICS, THIRD), (*known.TARGET_CRITICS, TARGET_THIRD)
    critics = [*map(QuadraticCritic, tables)]
    agent = make(agents.REDQ, KnownPolicy(known.POLICY), critics, n, targets, subset_size=2, n_times_update=2)
    trial = make_trial(agent)
    pairs = [*itertools.combinations(targets, 2)]
    drawn: list[int] = []

    def error(steps: list[Step], pair: Any) -> float:
        target = n_step_return(steps, lambda obs: known.soft(obs, lambda obs: known.least(obs, known.POLICY, 2, pair)))
        return mean_error(target, [known.critic_value(rows, steps[0].obs, steps[0].action) for rows in tables])

    def see(batch: Any, result: Any) -> None:
        rows = [trial.steps(obs, n) for obs in batch.obs]
        expected = [[error(steps, pair) for steps in rows] for pair in pairs]
        fitting = [i for i, row in enumerate(expected) if row == pytest.approx(result[0].tolist(), rel=0, abs=1e-6)]
        assert fitting, (result[0], expected)
        drawn.extend(fitting if len(fitting) == 1 else [])

    trial.watch("update", see)
    trial.run()
    assert {*drawn} == {0, 1, 2} and len(drawn) > 30


CHECKS = {"TQC": check_tqc, "REDQ": check_redq, "CrossQ": check_crossq, "DiscreteSAC": check_discrete}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "ending", "mode", "n_envs"), forms_of_trials(CHECKS, (), 1, 3))
def test_td_errors_follow_from_tables(name: str, n: int, ending: str, mode: AutoresetMode | None, n_envs: int) -> None:
    def make_trial(agent: Any) -> Trial:
        return Trial(agent, ending, mode, n_envs, continuous=name != "DiscreteSAC")

    CHECKS[name](n, make_trial)
