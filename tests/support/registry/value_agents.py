"""DQN and its kin."""

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from argument_effects import Arguments, Effect
from gymnasium import spaces
from network_parts import BOX, N_ACTIONS, VALUES, make_critic, make_q_function
from pair_base import (
    BUFFERS,
    EXPLORERS,
    ONLY_CONTINUOUS,
    ONLY_DISCRETE,
    RECURRENT,
    Case,
    adam,
    draw,
    misfit_in_buffer,
    of_networks,
    of_replay,
    replay,
    sgd,
)

from pfrl_like import agents
from pfrl_like.agents.dpp import DPPL, DPPGreedy
from pfrl_like.explorers import ConstantEpsilonGreedy
from registry.effects import (
    AS_ORDINARY,
    CONSERVATIVE,
    DQN,
    LEARNING,
    QUANTILES,
    REPLAY,
    SEQUENCES,
    SPREAD,
    anew,
    learnt,
    no_effect,
    not_compiled,
    slower,
)
from registry.entry import Entry, Family, Table

# Pairs of parts

#: Critics in the place of a Q-function of the state.
STRANGERS = {"critic of numbers": "numbers", "critic of quantiles": "quantile"}


def make(entry: Entry, case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_function"], of_networks(case)
    stranger = STRANGERS.get(kind)
    q_function = make_critic(stranger, recurrent) if stranger else make_q_function(kind, recurrent)
    explorer = EXPLORERS[case["explorer"]](functools.partial(draw, space(case)))
    return entry.kind(q_function, adam(q_function), explorer=explorer, target_update_interval=4, **replay(case, folder))


def misfits(case: Case) -> Iterator[str]:
    if case["explorer"] in (ONLY_DISCRETE if case["q_function"] == "quadratic" else ONLY_CONTINUOUS):
        yield "explorer"
    if misfit_in_buffer(case):
        yield "replay_buffer"


def space(case: Case) -> spaces.Space[Any]:
    return BOX if case["q_function"] == "quadratic" else spaces.Discrete(N_ACTIONS)


# Arguments


def arguments(entry: Entry, recurrent: bool) -> Arguments:
    q_function = make_q_function(q_function_of(entry), recurrent)
    return {
        "q_function": q_function,
        "optimizer": sgd(q_function),
        "explorer": ConstantEpsilonGreedy(0.6, functools.partial(np.random.randint, 2)),
        "target_update_interval": 5,
        **of_replay(entry.kind, recurrent),
    }


def q_function_of(entry: Entry) -> str:
    """The first kind of Q-function that an agent learns."""
    return next(iter(entry.fits.get("q_function", VALUES)))


OF_Q_FUNCTIONS: Table = {
    **REPLAY,
    "q_function": anew("q_function"),
    "optimizer": slower("q_function"),
    "explorer": Effect(ConstantEpsilonGreedy(1.0, lambda: 1), "actions parameters",
        DQN + "explorer_chooses_in_training_only"),
    "clip_delta": learnt(False, DQN + "clip_delta_makes_large_errors_count_linearly"),
    "burn_in": learnt(2, DQN + "burn_in_brings_the_state_up_to_date", given=SEQUENCES),
    "compile": not_compiled("optimizer", "q_function", AS_ORDINARY),
    "alpha": learnt(0.1, LEARNING + "the_argument_changes_the_loss"),
    "eta": learnt(0.1, LEARNING + "the_argument_changes_the_loss"),
    "quantile_thresholds_N": learnt(2, QUANTILES + "arguments_say_how_many_fractions_are_drawn"),
    "quantile_thresholds_N_prime": learnt(2, QUANTILES + "arguments_say_how_many_fractions_are_drawn"),
    "quantile_thresholds_K": Effect(1, "evaluation parameters",
        QUANTILES + "arguments_say_how_many_fractions_are_drawn", given=SPREAD),
    "act_deterministically": Effect(
        True, "evaluation", given={**SPREAD, "quantile_thresholds_K": 1},
        held_by=QUANTILES + "acting_deterministically_takes_even_fractions_in_evaluation_only",
    ),
}  # fmt: skip

FAMILY = Family(arguments, OF_Q_FUNCTIONS, 5, make, misfits, space)

# Agents

PARTS = {"q_function": (*VALUES, *STRANGERS), "explorer": EXPLORERS, "recurrent": RECURRENT, "replay_buffer": BUFFERS}
ANY = {"q_function": tuple(VALUES)}
DISCRETE = {"q_function": tuple(kind for kind in VALUES if kind != "quadratic")}
ATOMS = {"q_function": ("distributional", "distributional dueling")}
#: Small networks of drawn fractions say much the same of all observations, unless their parameters are large.
FLAT: Table = {name: dataclasses.replace(OF_Q_FUNCTIONS[name], given=SPREAD) for name in ("phi", "batch_states")}
UNCLIPPED: Table = {"clip_delta": no_effect(False)}
MUNCHAUSEN: Table = {"entropy_temperature": learnt(2.0), "log_policy_min": learnt(-0.01)}
IMPLICIT: Any = {"fits": {"q_function": ("implicit", "proposed")}, "effects": {**UNCLIPPED, **FLAT}}

ENTRIES = (
    Entry(agents.DQN, FAMILY, PARTS, fits=ANY),
    Entry(agents.DoubleDQN, FAMILY, PARTS, fits=ANY),
    Entry(agents.CategoricalDQN, FAMILY, PARTS, fits=ATOMS, effects=UNCLIPPED),
    Entry(agents.CategoricalDoubleDQN, FAMILY, PARTS, fits=ATOMS, effects=UNCLIPPED),
    Entry(agents.AL, FAMILY, PARTS, fits=ANY),
    Entry(agents.PAL, FAMILY, PARTS, fits=ANY),
    Entry(agents.DoublePAL, FAMILY, PARTS, fits=ANY),
    Entry(agents.DPP, FAMILY, PARTS, fits=DISCRETE),
    Entry(agents.MunchausenDQN, FAMILY, PARTS, fits=DISCRETE, effects=MUNCHAUSEN),
    Entry(DPPL, FAMILY),
    Entry(DPPGreedy, FAMILY),
    Entry(agents.QRDQN, FAMILY, PARTS, fits={"q_function": ("quantile",)}, effects=UNCLIPPED),
    Entry(agents.IQN, FAMILY, PARTS, **IMPLICIT),
    Entry(agents.DoubleIQN, FAMILY, PARTS, **IMPLICIT),
    Entry(agents.FQF, FAMILY, PARTS, fits={"q_function": ("proposed",)}, effects={**UNCLIPPED, **FLAT}),
    Entry(
        agents.DiscreteCQL, FAMILY, PARTS, fits=DISCRETE,
        effects={
            "conservative_weight": learnt(3.0, CONSERVATIVE + "discrete_cql_is_double_dqn_and_the_gap"),
            "gap": learnt(lambda value, action: value.q_values.sum(1)),
        },
    ),
)  # fmt: skip
