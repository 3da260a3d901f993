"""Actor-critics with replay: DDPG, TD3, SAC, their kin, and those of their algorithms that learn offline."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import network_parts
import numpy as np
import pair_base
import torch
from actor_critic_parts import make_critic as critic_of_pairs
from actor_critic_parts import make_policy as policy_of_pairs
from argument_effects import Arguments, Effect, Made
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.offline.cql import mode_next_value
from pfrl_like.explorers import AdditiveGaussian, ConstantEpsilonGreedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.policies import SoftmaxCategoricalHead
from registry.effects import (
    ACTOR_CRITIC,
    CONSERVATIVE,
    DQN,
    KIN,
    ONE_REGION,
    REPEATED,
    REPLAY,
    THIRD,
    anew,
    begun_anew,
    learnt,
    multiplied,
    not_compiled,
    not_recurrent,
    of_critics,
    slower,
)
from registry.entry import Entry, Family, Table

# Pairs of parts

#: Critics that are not one kind of Q-function of state and action.
ODD_CRITICS: dict[str, Callable[[bool, int], nn.Module]] = {
    "of the state": lambda recurrent, i: network_parts.make_q_function("expected", recurrent),
    "of several kinds": lambda recurrent, i: network_parts.make_critic(("numbers", "quantile")[i % 2], recurrent),
}


def make(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    kind, recurrent = case["q_func"], pair_base.of_networks(case)
    make_one = ODD_CRITICS.get(kind, lambda recurrent, i: network_parts.make_critic(kind, recurrent))
    critics = [make_one(recurrent, i) for i in range(case["n_critics"])]
    return actor_critic(entry, case, critics, folder)


def make_discrete(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    kind, recurrent = case["q_func"], pair_base.of_networks(case)
    make_one = (
        network_parts.make_critic
        if kind in network_parts.CRITICS and kind not in network_parts.VALUES
        else network_parts.make_q_function
    )
    critics = [make_one(kind, recurrent) for _ in range(case["n_critics"])]
    return actor_critic(entry, case, critics, folder)


def actor_critic(entry: Entry, case: pair_base.Case, critics: list[nn.Module], folder: Path) -> Any:
    policy = network_parts.make_policy(case["policy"], pair_base.of_networks(case))
    of_critics = [pair_base.adam(critic) for critic in critics]
    options = {**entry.options, **pair_base.replay(case, folder)}
    if issubclass(entry.kind, agents.FittedQEvaluation):
        return entry.kind(policy, critics, of_critics, **options)
    if "explorer" in case:
        options["explorer"] = pair_base.EXPLORERS[case["explorer"]](
            functools.partial(pair_base.draw, pair_base.policy_space(case))
        )
    if entry.kind in (agents.IQL, agents.DiscreteIQL):
        value = network_parts.make_value(pair_base.of_networks(case))
        options |= {"v_func": value, "v_func_optimizer": pair_base.adam(value)}
    if entry.kind is agents.REDQ:
        return agents.REDQ(policy, critics, pair_base.adam(policy), of_critics, **options)
    if len(critics) > 2:
        options |= {"further_q_funcs": critics[2:], "further_q_func_optimizers": of_critics[2:]}
    return entry.kind(policy, *critics[:2], pair_base.adam(policy), *of_critics[:2], **options)


def misfits(case: pair_base.Case) -> Iterator[str]:
    name, kind = case["agent"], case["q_func"]
    if kind == "of the state" or (kind == "of several kinds" and case["n_critics"] > 1):
        yield "q_func"
    if case.get("explorer") in pair_base.ONLY_DISCRETE:
        yield "explorer"
    if name == "CrossQ" and case["recurrent"] and kind in network_parts.RECURRENT_CRITICS:
        yield "q_func"
    if pair_base.misfit_in_buffer(case) or (name == "CalQL" and pair_base.is_of_goals(case)):
        yield "replay_buffer"


def discrete_misfits(case: pair_base.Case) -> Iterator[str]:
    if case["q_func"] in ("quadratic", "numbers") or (case["q_func"] == "ensemble" and case["n_critics"] > 1):
        yield "q_func"
    if pair_base.misfit_in_buffer(case):
        yield "replay_buffer"


# Arguments


def arguments(entry: Entry, recurrent: bool) -> Arguments:
    kind, recurrent = entry.kind, recurrent and entry.kind._may_be_recurrent
    soft = issubclass(kind, agents.SoftActorCritic)
    weighted = issubclass(kind, agents.AdvantageWeightedActorCritic | agents.IQL)
    policy = policy_of_pairs("squashed" if soft else "fixed gaussian" if weighted else "gaussian", recurrent)
    remembering = recurrent and kind is not agents.CrossQ
    critics = [critic_of_pairs("numbers", remembering) for _ in range(1 if kind is agents.DDPG else 2)]
    if kind is agents.TQC:
        critics = [critic_of_pairs("quantiles", recurrent) for _ in range(2)]
    if kind in (agents.DiscreteSAC, agents.DiscreteFittedQEvaluation, agents.DiscreteIQL):
        policy = discrete_policy(recurrent)
        critics = [network_parts.make_q_function("expected", recurrent, obs_size=4) for _ in range(2)]
    common = pair_base.of_replay(entry.kind, recurrent)
    if soft:
        common |= {"entropy_target": -2.0, "initial_temperature": 0.2}
    elif kind is agents.DiscreteFittedQEvaluation:
        common |= {"explorer": ConstantEpsilonGreedy(0.6, functools.partial(np.random.randint, 2))}
    elif not weighted:
        common |= {"explorer": AdditiveGaussian(0.1, low=-1.0, high=1.0)}
    if kind in (agents.IQL, agents.DiscreteIQL):
        v_func = value_of_states(recurrent)
        common |= {"v_func": v_func, "v_func_optimizer": pair_base.sgd(v_func)}
    if issubclass(kind, agents.FittedQEvaluation):
        optimizers = {"q_func_optimizers": [pair_base.sgd(critic, lr=0.01) for critic in critics]}
        return {"policy": policy, "q_funcs": critics, **optimizers, "target_update_interval": 5, **common}
    if kind is agents.REDQ:
        critics += [critic_of_pairs("numbers", recurrent)]
        optimizers = {
            "policy_optimizer": pair_base.sgd(policy),
            "q_func_optimizers": [pair_base.sgd(critic) for critic in critics],
        }
        return {"policy": policy, "q_funcs": critics, **optimizers, "n_times_update": 2, **common}
    if kind is agents.DDPG:
        named = {
            "q_func": critics[0],
            "actor_optimizer": pair_base.sgd(policy),
            "critic_optimizer": pair_base.sgd(critics[0]),
        }
        return {"policy": policy, **named, "target_update_interval": 5, **common}
    named = {f"q_func{i}": critic for i, critic in enumerate(critics, 1)}
    lr = 0.01 if kind is agents.DiscreteIQL else 0.05  # its error is not halved
    optimizers = {f"{name}_optimizer": pair_base.sgd(critic, lr=lr) for name, critic in named.items()}
    return {"policy": policy, **named, "policy_optimizer": pair_base.sgd(policy), **optimizers, **common}


def value_of_states(recurrent: bool) -> nn.Module:
    """A value function of four numbers."""
    first = nn.GRU(4, 8) if recurrent else nn.Linear(4, 8)
    return (RecurrentSequential if recurrent else nn.Sequential)(first, nn.Tanh(), nn.Linear(8, 1))


def discrete_policy(recurrent: bool) -> nn.Module:
    """A policy of two actions."""
    first = nn.GRU(4, 8) if recurrent else nn.Linear(4, 8)
    return (RecurrentSequential if recurrent else nn.Sequential)(first, nn.Linear(8, 2), SoftmaxCategoricalHead())


# What the arguments change

FQE = "unit/ope/test_fqe.py::test_the_value_of_a_state_under_a_random_policy_is_the_mean_over_its_actions"
IMITATING = "unit/agents/test_imitating_agents.py::test_"
IMITATION = "golden/test_imitation_losses.py::test_"
FORMULAS = "golden/test_d3rlpy_offline_formulas.py::test_"

OF_EXPLORING: Table = {
    **REPLAY,
    "policy": anew("policy"),
    **{name: anew(name) for name in ("q_func", "q_func1", "q_func2")},
    "actor_optimizer": slower("policy"),
    "critic_optimizer": slower("q_func"),
    "policy_optimizer": slower("policy"),
    "q_func1_optimizer": slower("q_func1"),
    "q_func2_optimizer": slower("q_func2"),
    "explorer": Effect(AdditiveGaussian(0.5), "actions parameters", held_by=DQN + "explorer_chooses_in_training_only"),
    "max_grad_norm": learnt(0.01, ACTOR_CRITIC + "each_networks_gradient_is_clipped"),
    "batch_accumulator": learnt("sum", ACTOR_CRITIC + "weights_and_accumulator_count_in_every_loss"),
    "burnin_action_func": Effect(lambda: np.full(2, 0.25, np.float32), "actions parameters",
        ACTOR_CRITIC + "burn_in_actions_come_until_the_policy_has_learnt"),
    "act_deterministically": Effect(True, "evaluation", held_by=ACTOR_CRITIC + "svg0_samples_unless_told_otherwise"),
    "compile": not_compiled("policy_optimizer", "policy", ONE_REGION),
    "policy_update_delay": learnt(4, ACTOR_CRITIC + "td3s_policy_and_targets_move_once_every_delay"),
    "soft_update_tau": Effect(0.5, "targets parameters",
        ACTOR_CRITIC + "td3s_policy_and_targets_move_once_every_delay"),
    "target_policy_smoothing_func": learnt(lambda action: -action,
        ACTOR_CRITIC + "the_smoothing_function_disturbs_the_targets_action"),
    "further_q_funcs": Effect(
        THIRD, "parameters statistics", also={"further_q_func_optimizers": of_critics(pair_base.sgd)},
        held_by=ACTOR_CRITIC + "more_critics_make_targets_lower_and_are_saved",
    ),
    "further_q_func_optimizers": learnt(of_critics(pair_base.sgd, lr=1e-3),
        given={"further_q_funcs": THIRD, "further_q_func_optimizers": of_critics(pair_base.sgd)}),
}  # fmt: skip

D3RLPY = "golden/test_d3rlpy_formulas.py::test_"
OF_SAC: Table = {
    **OF_EXPLORING,
    "act_deterministically": Effect(False, "evaluation",
        ACTOR_CRITIC + "sac_acts_by_the_mode_only_in_evaluation_and_only_if_told"),
    "soft_update_tau": Effect(0.5, "targets parameters", held_by=ACTOR_CRITIC + "sacs_targets_move_after_every_update"),
    "initial_temperature": learnt(0.9, ACTOR_CRITIC + "the_temperature_weighs_the_entropy_in_target_and_policy"),
    "entropy_target": learnt(5.0, ACTOR_CRITIC + "the_temperature_follows_the_entropy"),
    "temperature_optimizer_lr": learnt(0.5, ACTOR_CRITIC + "the_temperature_follows_the_entropy"),
    "elementwise": learnt(torch.abs, D3RLPY + "critics_of_sac_minimise_half_the_square_or_the_square"),
    "multipliers_first": learnt(True, given={"temperature_optimizer_lr": 0.5}),
    "multiplier_optimizers": learnt({"temperature": functools.partial(torch.optim.Adam, lr=0.1)}),
    "n_dropped": learnt(0, KIN + "tqcs_target_is_the_mixture_and_its_policy_follows_the_mean"),
}  # fmt: skip

SAMPLED = IMITATING + "weights_are_made_of_the_advantage_over_drawn_actions"
OF_WEIGHTED: Table = {
    **OF_EXPLORING,
    "act_deterministically": Effect(False, "evaluation"),
    "soft_update_tau": Effect(0.5, "targets parameters"),
    "lam": learnt(0.1, SAMPLED),
    "n_action_samples": learnt(8, SAMPLED),
    "max_weight": learnt(0.5, SAMPLED),
}

SEVERAL_CRITICS: Table = {
    "q_funcs": learnt(Made(lambda all: [*map(begun_anew, all["q_funcs"])])),
    "q_func_optimizers": learnt(Made(lambda all: [pair_base.sgd(each, lr=1e-3) for each in all["q_funcs"]])),
}
OF_FQE: Table = {
    **OF_EXPLORING,
    **{name: REPLAY[name] for name in ("target_update_interval", "target_update_method", "soft_update_tau")},
    **SEVERAL_CRITICS,
    "act_deterministically": Effect(False, "evaluation parameters", held_by=FQE),
    "max_grad_norm": learnt(0.01, ACTOR_CRITIC + "each_networks_gradient_is_clipped"),
    "compile": Effect(True, refused="Adadelta", held_by=ONE_REGION,
        given={"q_func_optimizers": Made(lambda all: [pair_base.adadelta(each) for each in all["q_funcs"]])}),
}  # fmt: skip

CQL: Table = {
    "conservative_weight": learnt(3.0, CONSERVATIVE + "the_conservative_term_counts_beside_the_critics_losses"),
    "initial_alpha": learnt(1.0, CONSERVATIVE + "the_conservative_term_counts_beside_the_critics_losses"),
    "alpha_threshold": learnt(-100.0, CONSERVATIVE + "alpha_grows_where_the_gap_is_above_its_threshold"),
    "alpha_optimizer_lr": learnt(0.1, CONSERVATIVE + "alpha_grows_where_the_gap_is_above_its_threshold"),
    "n_action_samples": learnt(2, CONSERVATIVE + "values_of_actions_drawn_are_those_of_one_call_for_each"),
    "soft_q_backup": learnt(False, CONSERVATIVE + "targets_do_without_the_entropy_if_they_are_told_to"),
    "next_value": learnt(mode_next_value, given={"soft_q_backup": False}),
    "max_alpha": learnt(0.01, D3RLPY + "alpha_does_not_exceed_its_maximum"),
}

#: What those of an agent change that its family lacks, or that are not as in the family.
REDQ: Table = {
    **SEVERAL_CRITICS,
    "subset_size": learnt(1, KIN + "redqs_targets_come_from_a_few_critics_drawn_anew"),
    "policy_update_delay": learnt(1, KIN + "redqs_policy_learns_once_a_step"),
    "compile": Effect(True, refused="REDQ samples other critics", held_by=KIN + "redq_refuses_what_it_cannot_do"),
    **dict.fromkeys(
        ("q_func1", "q_func2", "further_q_funcs", "q_func1_optimizer", "q_func2_optimizer",
         "further_q_func_optimizers"),
        REPEATED,
    ),
}  # fmt: skip
CROSSQ: Table = {
    "policy_update_delay": learnt(1, KIN + "crossqs_policy_learns_in_every_third_update_and_leaves_the_moments_alone"),
    "soft_update_tau": Effect(0.5, refused="CrossQ has no target networks"),
}  # fmt: skip
EDAC: Table = {
    "eta": learnt(5.0, CONSERVATIVE + "eta_weighs_the_diversity_and_sac_n_has_none"),
}  # fmt: skip
TD3BC: Table = {
    "alpha": learnt(0.1, IMITATION + "td3_plus_bc_weighs_the_critic_against_the_squared_error"),
}  # fmt: skip
REBRAC: Table = {
    "actor_beta": learnt(0.5, IMITATING + "rebracs_two_weights_are_those_of_its_two_losses"),
    "critic_beta": learnt(0.5, IMITATING + "rebracs_two_weights_are_those_of_its_two_losses"),
}  # fmt: skip
AWAC: Table = {
    "weight_type": learnt("softmax", FORMULAS + "softmax_weights_are_of_the_minibatch_and_the_loss_is_summed"),
    "next_policy": learnt(Made(lambda all: all["policy"]),
        FORMULAS + "awacs_targets_have_the_entropy_of_the_next_policy"),
}  # fmt: skip
CRR: Table = {
    "advantage_critics": learnt("mean"),
    "resample_actions": Effect(True, "evaluation",
        FORMULAS + "crr_acts_by_actions_drawn_with_the_softmax_of_the_mean_critic"),
    "advantage_type": learnt("max", SAMPLED),
    "weight_type": learnt("binary", SAMPLED),
    "beta": learnt(0.1, SAMPLED),
}  # fmt: skip
IQL: Table = {
    "v_func": anew("v_func"),
    "v_func_optimizer": slower("v_func"),
    "expectile": learnt(0.95, IMITATING + "iqls_weights_are_those_of_q_over_v"),
    "beta": learnt(0.1, IMITATING + "iqls_weights_are_those_of_q_over_v"),
    "max_weight": learnt(0.5, IMITATING + "iqls_weights_are_those_of_q_over_v"),
}  # fmt: skip

#: A third critic of other signs, which is often the least one.
LOWER = Made(lambda all: [multiplied(copy.deepcopy(all["q_func1"]), -1.0)])

# Families

EXPLORING = Family(arguments, OF_EXPLORING, 4, make, misfits, pair_base.policy_space)
SOFT = dataclasses.replace(EXPLORING, effects=OF_SAC)
WEIGHTED = dataclasses.replace(EXPLORING, effects=OF_WEIGHTED)
EVALUATING = dataclasses.replace(EXPLORING, effects=OF_FQE)
DISCRETE_SOFT = dataclasses.replace(SOFT, make=make_discrete, misfits=discrete_misfits)
DISCRETE_WEIGHTED = dataclasses.replace(DISCRETE_SOFT, effects=OF_WEIGHTED)
DISCRETE_EVALUATING = dataclasses.replace(DISCRETE_SOFT, effects=OF_FQE)

# Agents

PARTS = {
    "policy": network_parts.HEADS, "q_func": (*network_parts.RECURRENT_CRITICS, *ODD_CRITICS),
    "recurrent": pair_base.RECURRENT, "replay_buffer": pair_base.BUFFERS, "n_critics": (2,),
}  # fmt: skip
#: Classes of critics, and more of them, in few surroundings.
FURTHER = {
    "policy": ("squashed",), "q_func": network_parts.CRITICS, "recurrent": pair_base.RECURRENT,
    "replay_buffer": ("EpisodicReplayBuffer",), "n_critics": (2, 3),
}  # fmt: skip
NOISE = {"explorer": ("AdditiveGaussian",)}
DISCRETE_PARTS = {**PARTS, "q_func": (*network_parts.VALUES, "numbers")}
ANY_HEAD, DENSE, SOFTMAX = (
    {"policy": ("deterministic", *pair_base.DENSITIES)},
    {"policy": pair_base.DENSITIES},
    {"policy": ("softmax",)},
)
ENTROPY = {"entropy_target": 0.1}
BURN_IN: Table = {"burnin_action_func": Effect(lambda: 1, "actions parameters")}

ENTRIES = (
    Entry(
        agents.DDPG, EXPLORING, {**PARTS, "n_critics": (1,), "explorer": pair_base.EXPLORERS},
        {**FURTHER, "n_critics": (1,), **NOISE}, fits=ANY_HEAD, options={"target_update_interval": 4},
        effects={
            "soft_update_tau": REPLAY["soft_update_tau"],
            "compile": not_compiled("actor_optimizer", "policy", ONE_REGION),
        },
    ),
    Entry(agents.TD3, EXPLORING, {**PARTS, "explorer": pair_base.EXPLORERS}, {**FURTHER, **NOISE}, fits=ANY_HEAD),
    Entry(agents.TD3PlusBC, EXPLORING, {**PARTS, **NOISE}, fits=ANY_HEAD, effects=TD3BC),
    Entry(agents.ReBRAC, EXPLORING, {**PARTS, **NOISE}, fits=ANY_HEAD, effects=REBRAC),
    Entry(agents.SoftActorCritic, SOFT, PARTS, FURTHER, fits=DENSE, options=ENTROPY),
    Entry(
        agents.TQC, SOFT, PARTS, FURTHER, fits={**DENSE, "q_func": ("quantile", "of several kinds")}, options=ENTROPY
    ),
    Entry(
        agents.REDQ, SOFT, PARTS, FURTHER, fits=DENSE, options={**ENTROPY, "n_times_update": 2}, effects=REDQ,
    ),
    Entry(
        agents.CrossQ, SOFT, PARTS, FURTHER, fits=DENSE, options={**ENTROPY, "policy_update_delay": 2}, effects=CROSSQ,
    ),
    Entry(agents.CQL, SOFT, PARTS, FURTHER, fits=DENSE, options=ENTROPY, effects=CQL),
    Entry(agents.COMBO, SOFT, PARTS, FURTHER, fits=DENSE, options=ENTROPY, effects=CQL),
    Entry(
        agents.CalQL, SOFT, {**PARTS, "recurrent": (False,)}, fits=DENSE, options=ENTROPY,
        effects={
            **CQL,
            **not_recurrent(),
            "horizon": learnt(1, "golden/test_cal_ql.py::test_a_horizon_cuts_returns_short"),
        },
    ),
    Entry(agents.EDAC, SOFT, PARTS, FURTHER, fits=DENSE, options=ENTROPY, effects=EDAC),
    Entry(agents.AWAC, WEIGHTED, PARTS, FURTHER, fits=DENSE, effects=AWAC),
    Entry(agents.CRR, WEIGHTED, PARTS, FURTHER, fits=DENSE, options={"n_action_samples": 2}, effects=CRR),
    Entry(agents.IQL, WEIGHTED, PARTS, FURTHER, fits=DENSE, effects=IQL),
    Entry(
        agents.DiscreteIQL, DISCRETE_WEIGHTED, DISCRETE_PARTS, fits=SOFTMAX,
        effects={
            **IQL, **BURN_IN, "further_q_funcs": dataclasses.replace(OF_WEIGHTED["further_q_funcs"], value=LOWER)
        },
    ),
    Entry(agents.FittedQEvaluation, EVALUATING, PARTS, fits=ANY_HEAD, options={"target_update_interval": 4}),
    Entry(agents.DiscreteSAC, DISCRETE_SOFT, DISCRETE_PARTS, fits=SOFTMAX, options=ENTROPY, effects=BURN_IN),
    Entry(
        agents.DiscreteFittedQEvaluation, DISCRETE_EVALUATING, DISCRETE_PARTS, fits=SOFTMAX,
        options={"target_update_interval": 4},
        effects={"explorer": Effect(ConstantEpsilonGreedy(1.0, lambda: 1), "actions parameters")},
    ),
)  # fmt: skip
