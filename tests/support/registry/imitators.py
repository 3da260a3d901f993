"""Agents that imitate recorded actions: behavioural cloning, AWR, Decision Transformers."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pair_base
from actor_critic_parts import make_policy as policy_of_pairs
from argument_effects import Arguments, Effect
from gymnasium import spaces
from network_parts import BOX, HEADS, HIDDEN, N_ACTIONS, OBS, make_policy, make_value, policy_layers
from torch import nn

from pfrl_like import agents
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.policies import GaussianHeadWithFixedCovariance, SoftmaxCategoricalHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer
from registry import actor_critics
from registry.effects import ONE_REGION, REPLAY, anew, learnt, not_compiled, not_recurrent, slower, small
from registry.entry import Entry, Family, Table

# Behavioural cloning


def make_imitator(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    policy = make_policy(case["policy"], pair_base.of_networks(case))
    options = {name: value for name, value in pair_base.replay(case, folder).items() if name != "gamma"}
    return entry.kind(policy, pair_base.adam(policy), **options)


def misfits(case: pair_base.Case) -> Iterator[str]:
    if pair_base.misfit_in_buffer(case):
        yield "replay_buffer"


def of_imitators(entry: Entry, recurrent: bool) -> Arguments:
    discrete = entry.kind is agents.DiscreteBC
    policy = actor_critics.discrete_policy(recurrent) if discrete else policy_of_pairs("gaussian", recurrent)
    common = {name: value for name, value in pair_base.of_replay(entry.kind, recurrent).items() if name != "gamma"}
    return {"policy": policy, "optimizer": pair_base.sgd(policy), **common}


OF_BC: Table = {
    **REPLAY,
    "policy": anew("policy"),
    "optimizer": slower("policy"),
    "act_deterministically": Effect(False, "evaluation"),
    "logger": Effect(held_by=actor_critics.IMITATING + "bcs_logger_hears_of_a_refused_update"),
    "compile": not_compiled("optimizer", "policy", ONE_REGION),
    "squared_error": learnt(True, actor_critics.FORMULAS + "stochastic_cloning_has_the_squared_error_of_samples"),
    "beta": learnt(5.0, actor_critics.IMITATION + "discrete_bc_is_cross_entropy_and_the_mean_of_squared_logits"),
}  # fmt: skip

IMITATORS = Family(of_imitators, OF_BC, 4, make_imitator, misfits, pair_base.policy_space)

# Regression

#: Some steps of an iteration of AWR.
ITERATION = {"n_critic_updates": 2, "n_actor_updates": 2, "batch_size_per_update": 3}


def make_regressing(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    policy, value = make_policy(case["policy"], pair_base.of_networks(case)), make_value(pair_base.of_networks(case))
    options = {**ITERATION, **pair_base.replay(case, folder)}
    return entry.kind(policy, value, pair_base.adam(policy), pair_base.adam(value), **options)


def regressing_misfits(case: pair_base.Case) -> Iterator[str]:
    if pair_base.misfit_in_buffer(case) or pair_base.is_of_goals(case):
        yield "replay_buffer"


def of_regressing(entry: Entry, recurrent: bool) -> Arguments:
    discrete = entry.kind is agents.DiscreteAWR
    policy = actor_critics.discrete_policy(recurrent) if discrete else policy_of_pairs("fixed gaussian", recurrent)
    v_func = actor_critics.value_of_states(recurrent)
    iteration = {"n_critic_updates": 2, "n_actor_updates": 3, "batch_size_per_update": 3, "update_interval": 3}
    optimizers = {"policy_optimizer": pair_base.sgd(policy), "v_func_optimizer": pair_base.sgd(v_func)}
    common = {**pair_base.of_replay(entry.kind, recurrent), "minibatch_size": 6}
    return {"policy": policy, "v_func": v_func, **optimizers, **iteration, **common}


AWR = "golden/test_awr.py::test_"
OF_AWR: Table = {
    **actor_critics.OF_WEIGHTED,
    "v_func": anew("v_func"),
    "v_func_optimizer": slower("v_func"),
    "lam": learnt(0.1, AWR + "returns_reach_to_the_end_of_the_episode"),
    "beta": learnt(0.1, AWR + "weights_are_those_of_the_advantage_after_the_value_has_learnt"),
    "max_weight": learnt(0.5, AWR + "weights_are_those_of_the_advantage_after_the_value_has_learnt"),
    "standardize_advantages": learnt(False, AWR + "weights_are_those_of_the_advantage_after_the_value_has_learnt"),
    "n_critic_updates": learnt(5, AWR + "an_update_takes_so_many_steps_on_so_many_rows"),
    "n_actor_updates": learnt(6, AWR + "an_update_takes_so_many_steps_on_so_many_rows"),
    "batch_size_per_update": learnt(2, AWR + "an_update_takes_so_many_steps_on_so_many_rows"),
    "horizon": learnt(1, AWR + "a_horizon_cuts_returns_short"),
    "update_interval": Effect(4, "updates parameters"),
    "minibatch_size": learnt(8),
}

REGRESSING = Family(of_regressing, OF_AWR, 4, make_regressing, regressing_misfits, pair_base.policy_space)

# Sequences


def make_transformer(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    discrete = case["agent"].startswith("Discrete")
    last = policy_layers("softmax" if discrete else case["policy"])
    policy: nn.Module = ReturnConditionedTransformer(
        nn.Linear(OBS, HIDDEN), N_ACTIONS, nn.Sequential(*last), discrete=discrete, hidden_size=HIDDEN, context_size=3,
        n_layers=1,
    )  # fmt: skip
    policy = make_policy("softmax", True) if pair_base.of_networks(case) else policy
    options = {name: value for name, value in pair_base.replay(case, folder).items() if name != "gamma"}
    return entry.kind(policy, pair_base.adam(policy), target_return=1.0, **options)


def transformer_misfits(case: pair_base.Case) -> Iterator[str]:
    if case["replay_buffer"] not in pair_base.EPISODIC:
        yield "replay_buffer"


def transformer_space(case: pair_base.Case) -> spaces.Space[Any]:
    return spaces.Discrete(N_ACTIONS) if case["agent"].startswith("Discrete") else BOX


def of_transformers(entry: Entry, recurrent: bool) -> Arguments:
    discrete = entry.kind is agents.DiscreteDecisionTransformer
    last = nn.Linear(8, 2)
    if discrete:
        nn.init.normal_(last.weight, std=2.0)  # so that small changes are decisive
    head = nn.Sequential(last, SoftmaxCategoricalHead() if discrete else GaussianHeadWithFixedCovariance(0.3))
    sizes = {"hidden_size": 8, "context_size": 4, "n_layers": 1}
    policy = ReturnConditionedTransformer(nn.Linear(4, 8), 2, head, discrete=discrete, **sizes)
    parts = {"policy": policy, "optimizer": pair_base.sgd(policy, lr=3e-3), "replay_buffer": EpisodicReplayBuffer(1000)}
    return {**parts, "replay_start_size": 10, "minibatch_size": 2, "target_return": 3.0}


TRANSFORMER = "golden/test_decision_transformer.py::test_"
OF_TRANSFORMERS: Table = {
    **OF_BC,
    "replay_buffer": small(EpisodicReplayBuffer),
    **{name: not_recurrent()[name] for name in ("recurrent", "episodic_update_len")},
    "compile": Effect(True, refused="compile is True, which DecisionTransformer does not support"),
    "gamma": Effect(0.9, refused="has undiscounted returns: leave it out"),
    "target_return": Effect(-90.0, "evaluation actions parameters", TRANSFORMER + "it_acts_by_the_return_that_is_left"),
    "return_scale": Effect(0.1, "evaluation parameters", held_by=TRANSFORMER + "it_acts_by_the_return_that_is_left"),
    "context_size": learnt(2, TRANSFORMER + "it_looks_back_at_so_many_steps"),
}

TRANSFORMERS = Family(of_transformers, OF_TRANSFORMERS, 4, make_transformer, transformer_misfits, transformer_space)

# Agents

PARTS = {"policy": HEADS, "recurrent": pair_base.RECURRENT, "replay_buffer": pair_base.BUFFERS}
OF_SEQUENCES = {
    "policy": ("deterministic", *pair_base.DENSITIES),
    "recurrent": (False,),
    "replay_buffer": pair_base.BUFFERS,
}
#: Indices of actions show less in evaluation.
ONLY_LEARNT: Table = {
    name: dataclasses.replace(OF_TRANSFORMERS[name], shows="parameters") for name in ("target_return", "return_scale")
}

ENTRIES = (
    Entry(agents.BC, IMITATORS, PARTS, fits=actor_critics.ANY_HEAD),
    Entry(agents.DiscreteBC, IMITATORS, PARTS, fits=actor_critics.SOFTMAX),
    Entry(agents.AWR, REGRESSING, PARTS, fits=actor_critics.DENSE),
    Entry(agents.DiscreteAWR, REGRESSING, PARTS, fits=actor_critics.SOFTMAX, effects=actor_critics.BURN_IN),
    Entry(agents.DecisionTransformer, TRANSFORMERS, OF_SEQUENCES),
    Entry(agents.DiscreteDecisionTransformer, TRANSFORMERS, OF_SEQUENCES, effects=ONLY_LEARNT),
)
