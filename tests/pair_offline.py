"""Agents of offline algorithms that are made of other parts than policy and critics: what fits, how they are made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from network_parts import HEADS, make_policy, make_value
from pair_base import (
    BUFFERS,
    DENSITIES,
    RECURRENT,
    Case,
    Family,
    adam,
    is_of_goals,
    misfit_in_buffer,
    of_networks,
    policy_space,
    replay,
)

from pfrl_like import agents

# Imitation


def make_imitator(case: Case, folder: Path) -> Any:
    policy = make_policy(case["policy"], of_networks(case))
    options = {name: value for name, value in replay(case, folder).items() if name != "gamma"}
    return getattr(agents, case["agent"])(policy, adam(policy), **options)


def imitator_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in (("softmax",) if case["agent"] == "DiscreteBC" else ("deterministic", *DENSITIES)):
        yield "policy"
    if misfit_in_buffer(case):
        yield "replay_buffer"


IMITATORS = Family(
    ("BC", "DiscreteBC"), {"policy": HEADS, "recurrent": RECURRENT, "replay_buffer": BUFFERS},
    make_imitator, imitator_misfits, policy_space,
)  # fmt: skip

# Regression

#: Some steps of an iteration of AWR.
ITERATION = {"n_critic_updates": 2, "n_actor_updates": 2, "batch_size_per_update": 3}


def make_regressing(case: Case, folder: Path) -> Any:
    policy, value = make_policy(case["policy"], of_networks(case)), make_value(of_networks(case))
    options = {**ITERATION, **replay(case, folder)}
    return getattr(agents, case["agent"])(policy, value, adam(policy), adam(value), **options)


def regressing_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in (("softmax",) if case["agent"] == "DiscreteAWR" else DENSITIES):
        yield "policy"
    if misfit_in_buffer(case) or is_of_goals(case):
        yield "replay_buffer"


REGRESSING = Family(
    ("AWR", "DiscreteAWR"), {"policy": HEADS, "recurrent": RECURRENT, "replay_buffer": BUFFERS},
    make_regressing, regressing_misfits, policy_space,
)  # fmt: skip
