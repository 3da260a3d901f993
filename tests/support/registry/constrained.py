"""Agents that keep to actions like the recorded ones: BCQ, its discrete form, BEAR, PLAS."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pair_base
import torch
from actor_critic_parts import make_critic as critic_of_pairs
from actor_critic_parts import make_policy as policy_of_pairs
from argument_effects import Arguments, Effect, Made
from gymnasium import spaces
from network_parts import (
    BOX,
    CRITICS,
    HEADS,
    HIDDEN,
    N_ACTIONS,
    OBS,
    VALUES,
    features,
    in_a_row,
    make_critic,
    make_policy,
    make_q_function,
)
from torch import nn

from pfrl_like import agents
from pfrl_like.nn import ConcatObsAndAction, ConditionalVAE
from pfrl_like.policies import SoftmaxCategoricalHead
from registry import value_agents
from registry.actor_critics import DENSE, FORMULAS, OF_EXPLORING, OF_SAC
from registry.effects import ONE_REGION, anew, learnt, no_effect, not_recurrent, slower
from registry.entry import Entry, Family, Table

BCQ = "golden/test_bcq.py::test_"
BEAR = "golden/test_bear.py::test_"
LATENT = 3


def make_vae(obs_size: int = 4) -> ConditionalVAE:
    """A model of actions of two numbers."""
    encoder = of_pairs(obs_size + N_ACTIONS, 2 * LATENT)
    return ConditionalVAE(encoder, nn.Sequential(of_pairs(obs_size + LATENT, N_ACTIONS), nn.Tanh()), LATENT)


def of_pairs(n_inputs: int, n_outputs: int, recurrent: bool = False) -> nn.Module:
    """A network of pairs."""
    return in_a_row(recurrent, ConcatObsAndAction(), *features(recurrent, n_inputs), nn.Linear(HIDDEN, n_outputs))


def make_critics(case: pair_base.Case, options: Arguments) -> tuple[list[nn.Module], list[Any]]:
    """Two critics and their optimisers; those beyond go to the options."""
    critics = [make_critic(case["q_func"]) for _ in range(case["n_critics"])]
    of_critics = [pair_base.adam(critic) for critic in critics]
    if len(critics) > 2:
        options |= {"further_q_funcs": critics[2:], "further_q_func_optimizers": of_critics[2:]}
    return critics[:2], of_critics[:2]


def misfits(case: pair_base.Case) -> Iterator[str]:
    if case.get("explorer") in pair_base.ONLY_CONTINUOUS:
        yield "explorer"
    if pair_base.misfit_in_buffer(case):
        yield "replay_buffer"


# BCQ


def make_bcq(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    policy = of_pairs(OBS + N_ACTIONS, N_ACTIONS, pair_base.of_networks(case))
    options: Arguments = {"n_action_samples": 4}
    critics, of_critics = make_critics(case, options)
    vae = make_vae(OBS)
    options |= {"imitator": vae, "imitator_optimizer": pair_base.adam(vae), **pair_base.replay(case, folder)}
    return entry.kind(policy, *critics, pair_base.adam(policy), *of_critics, **options)


def of_bcq(entry: Entry, recurrent: bool) -> Arguments:
    policy, vae, common = of_pairs(4 + 2, 2), make_vae(), pair_base.of_replay(entry.kind, False)
    critics = {f"q_func{i}": critic_of_pairs("numbers") for i in (1, 2)}
    parts = {"policy": policy, **critics, "imitator": vae}
    optimizers = {f"{name}_optimizer": pair_base.sgd(part) for name, part in parts.items()}
    return {**parts, **optimizers, "n_action_samples": 5, **common}


OF_BCQ: Table = {
    **OF_EXPLORING,
    **not_recurrent(),
    "act_deterministically": no_effect(False),
    "soft_update_tau": Effect(0.5, "targets parameters"),
    "imitator": anew("imitator"),
    "imitator_optimizer": slower("imitator"),
    "lam": learnt(0.1, BCQ + "the_target_is_the_soft_least_value_of_the_best_candidate"),
    "n_action_samples": learnt(9, BCQ + "the_choice_is_the_candidate_of_most_value"),
    "action_flexibility": learnt(0.5, BCQ + "perturbed_actions_stay_near_and_in_bounds"),
    "beta": learnt(5.0, BCQ + "the_imitator_makes_actions_anew_near_the_prior"),
    "rl_start_step": learnt(3, BCQ + "only_the_imitator_learns_before_rl_start_step"),
    "imitates_first": learnt(True, FORMULAS + "the_imitator_may_learn_first"),
}

# Discrete BCQ


def make_discrete_bcq(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    q_function, imitator = make_q_function(case["q_function"], pair_base.of_networks(case)), make_policy("softmax")
    explorer = pair_base.EXPLORERS[case["explorer"]](functools.partial(pair_base.draw, discrete_bcq_space(case)))
    options = dict(explorer=explorer, imitator=imitator, target_update_interval=4, **pair_base.replay(case, folder))
    return entry.kind(q_function, pair_base.adam(q_function, imitator), **options)


def discrete_bcq_space(case: pair_base.Case) -> spaces.Space[Any]:
    return spaces.Discrete(N_ACTIONS)


def of_discrete_bcq(entry: Entry, recurrent: bool) -> Arguments:
    common = value_agents.arguments(entry, False)  # its imitator learns by the Q-function's optimiser
    imitator = nn.Sequential(nn.Linear(5, 2), SoftmaxCategoricalHead())
    return {**common, "imitator": imitator, "optimizer": pair_base.sgd(common["q_function"], imitator)}


OF_DISCRETE_BCQ: Table = {
    **value_agents.OF_Q_FUNCTIONS,
    **not_recurrent(),
    "optimizer": learnt(Made(lambda all: pair_base.sgd(all["q_function"], all["imitator"], lr=1e-3))),
    "imitator": anew("imitator"),
    "action_flexibility": learnt(0.0, BCQ + "discrete_bcq_bootstraps_from_the_best_likely_action"),
    "beta": learnt(5.0, BCQ + "the_losses_of_discrete_bcq_are_added"),
}

# BEAR


def make_bear(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    policy = make_policy(case["policy"], pair_base.of_networks(case))
    imitator = make_vae(OBS) if case["imitator"] == "autoencoder" else make_policy(case["imitator"])
    options: Arguments = {"imitator": imitator, "imitator_optimizer": pair_base.adam(imitator), "n_action_samples": 2}
    critics, of_critics = make_critics(case, options)
    options |= {"entropy_target": 0.1, "mmd_sigma": 1.0, **pair_base.replay(case, folder)}
    return entry.kind(policy, *critics, pair_base.adam(policy), *of_critics, **options)


def bear_misfits(case: pair_base.Case) -> Iterator[str]:
    if case["imitator"] == "softmax":
        yield "imitator"
    yield from misfits(case)


def of_bear(entry: Entry, recurrent: bool) -> Arguments:
    policy, vae, common = policy_of_pairs("squashed"), make_vae(), pair_base.of_replay(entry.kind, False)
    parts = {"policy": policy, **{f"q_func{i}": critic_of_pairs("numbers") for i in (1, 2)}, "imitator": vae}
    optimizers = {f"{name}_optimizer": pair_base.sgd(part) for name, part in parts.items()}
    constraint = {"n_action_samples": 3, "mmd_sigma": 1.0, "entropy_target": -2.0, "initial_temperature": 0.2}
    return {**parts, **optimizers, **constraint, **common}


OF_BEAR: Table = {
    **OF_SAC,
    **not_recurrent(),
    "imitator": anew("imitator"),
    "imitator_optimizer": slower("imitator"),
    "lam": learnt(0.1, BEAR + "the_target_is_the_best_of_some_actions_under_the_soft_minimum"),
    "n_action_samples": learnt(9, BEAR + "the_target_is_the_best_of_some_actions_under_the_soft_minimum"),
    "n_mmd_action_samples": learnt(9, BEAR + "the_discrepancy_is_that_of_policy_and_imitator"),
    "mmd_kernel": learnt("laplacian", BEAR + "the_discrepancy_is_that_of_policy_and_imitator"),
    "mmd_sigma": learnt(5.0, BEAR + "the_discrepancy_is_that_of_policy_and_imitator"),
    "initial_alpha": learnt(50.0, BEAR + "the_discrepancy_counts_in_the_policys_loss"),
    "alpha_threshold": learnt(50.0, BEAR + "alpha_grows_where_the_discrepancy_is_above_its_threshold"),
    "alpha_optimizer_lr": learnt(0.5, BEAR + "alpha_grows_where_the_discrepancy_is_above_its_threshold"),
    "beta": learnt(5.0, BCQ + "the_imitator_makes_actions_anew_near_the_prior"),
    "rl_start_step": learnt(3, BEAR + "only_the_imitator_learns_before_rl_start_step"),
    "imitates_first": learnt(True, FORMULAS + "the_imitator_may_learn_first"),
    "n_target_samples": learnt(9, FORMULAS + "bears_targets_have_a_number_of_samples_of_their_own"),
    "warmup_steps": learnt(3, FORMULAS + "bears_policy_learns_the_discrepancy_alone_in_the_warmup"),
    "unsquashed_mmd": learnt(True, FORMULAS + "bears_discrepancy_may_be_before_the_squashing"),
    "penalises_policy": learnt(False, FORMULAS + "bears_policy_may_learn_without_the_discrepancy"),
    "log_alpha_bounds": learnt((-1.0, -0.5), FORMULAS + "bears_alpha_stays_in_its_bounds"),
    "multipliers_first": learnt(True, given={"temperature_optimizer_lr": 0.5}),
    "multiplier_optimizers": learnt({"alpha": functools.partial(torch.optim.Adam, lr=0.1)}),
}

# PLAS


def parts_of_plas(kind: Any, obs_size: int, recurrent: bool = False) -> Arguments:
    """The networks of PLAS beside the critics."""
    policy = in_a_row(recurrent, *features(recurrent, obs_size), nn.Linear(HIDDEN, LATENT), nn.Tanh())
    perturbation = nn.Sequential(of_pairs(obs_size + N_ACTIONS, N_ACTIONS), nn.Tanh())
    own = {"perturbation": perturbation} if kind is agents.PLASWithPerturbation else {}
    return {"policy": policy, "imitator": make_vae(obs_size), **own}


def make_plas(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    parts = parts_of_plas(entry.kind, OBS, pair_base.of_networks(case))
    options: Arguments = {"rl_start_step": 2}
    critics, of_critics = make_critics(case, options)
    policy = parts.pop("policy")
    optimizer = pair_base.adam(policy, *[parts[name] for name in ("perturbation",) if name in parts])
    options |= {**parts, "imitator_optimizer": pair_base.adam(parts["imitator"]), **pair_base.replay(case, folder)}
    return entry.kind(policy, *critics, optimizer, *of_critics, **options)


def of_plas(entry: Entry, recurrent: bool) -> Arguments:
    parts, critics = parts_of_plas(entry.kind, 4), {f"q_func{i}": critic_of_pairs("numbers") for i in (1, 2)}
    optimizers = {f"{name}_optimizer": pair_base.sgd(part) for name, part in {**critics, **parts}.items()}
    if own := optimizers.pop("perturbation_optimizer", None):
        optimizers["policy_optimizer"].add_param_group({"params": own.param_groups[0]["params"]})
    return {**parts, **critics, **optimizers, "rl_start_step": 3, **pair_base.of_replay(entry.kind, False)}


PLAS = "golden/test_plas.py::test_"
OF_PLAS: Table = {
    **OF_EXPLORING,
    **not_recurrent(),
    "soft_update_tau": Effect(0.5, "targets parameters"),
    "imitator": anew("imitator"),
    "imitator_optimizer": slower("imitator"),
    "lam": learnt(0.1, PLAS + "the_target_is_the_soft_least_value_of_the_target_policys_action"),
    "latent_bound": Effect(0.5, "parameters evaluation", held_by=PLAS + "actions_are_decoded_from_latent_vectors"),
    "beta": learnt(5.0, BCQ + "the_imitator_makes_actions_anew_near_the_prior"),
    "rl_start_step": learnt(6, PLAS + "the_imitator_learns_first_and_then_stays_as_it_is"),
}
OF_PERTURBED_PLAS: Table = {
    **OF_PLAS,
    "perturbation": anew("perturbation"),
    "action_flexibility": learnt(0.5, PLAS + "decoded_actions_are_perturbed"),
    "policy_optimizer": learnt(Made(lambda all: pair_base.sgd(all["policy"], all["perturbation"], lr=1e-3))),
    "compile": Effect(
        True, refused="Adadelta", held_by=ONE_REGION,
        given={"policy_optimizer": Made(lambda all: pair_base.adadelta(all["policy"], all["perturbation"]))},
    ),
}  # fmt: skip

# Agents

SURROUNDINGS: dict[str, Any] = {"recurrent": (False,), "replay_buffer": pair_base.BUFFERS}
IMITATORS = ("autoencoder", "Gaussian", "softmax")

ENTRIES = (
    Entry(
        agents.BEAR, Family(of_bear, OF_BEAR, 4, make_bear, bear_misfits, pair_base.policy_space),
        {"policy": HEADS, "q_func": CRITICS, "imitator": IMITATORS, **SURROUNDINGS, "n_critics": (2, 3)}, fits=DENSE,
    ),
    Entry(
        agents.BCQ, Family(of_bcq, OF_BCQ, 4, make_bcq, misfits, lambda case: BOX),
        {"q_func": CRITICS, **SURROUNDINGS, "n_critics": (2, 3)},
    ),
    *(
        Entry(
            kind, Family(of_plas, effects, 4, make_plas, misfits, lambda case: BOX),
            {"q_func": CRITICS, **SURROUNDINGS, "n_critics": (2, 3)},
        )
        for kind, effects in ((agents.PLAS, OF_PLAS), (agents.PLASWithPerturbation, OF_PERTURBED_PLAS))
    ),
    Entry(
        agents.DiscreteBCQ,
        Family(of_discrete_bcq, OF_DISCRETE_BCQ, 5, make_discrete_bcq, misfits, discrete_bcq_space),
        {"q_function": VALUES, "explorer": pair_base.EXPLORERS, **SURROUNDINGS}, fits=value_agents.DISCRETE,
    ),
)  # fmt: skip
