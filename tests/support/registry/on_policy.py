"""Agents that learn from what they have just done, alone or in several processes, and actors of learners elsewhere."""

import dataclasses
import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import network_parts
import numpy as np
import pair_base
from argument_effects import Arguments, Effect, Made
from async_parts import a3c_model, acer_model
from on_policy_parts import make_nets, make_on_policy
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.acer import ACERContinuousActionHead, ACERDiscreteActionHead
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import Branched, ConcatObsAndAction, EmpiricalNormalization, RecurrentBranched
from pfrl_like.replay_buffers import EpisodicReplayBuffer
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.goals import concatenate_goal
from registry.effects import (
    ACER,
    ACTORS,
    ASYNC,
    COMMON,
    ON_POLICY,
    SEQUENCES,
    VTRACE,
    anew,
    begun_anew,
    learnt,
    not_compiled,
    of_other_features,
    slower,
    small,
)
from registry.entry import Entry, Family, Table

# PPO and its kin


def make(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    recurrent = pair_base.of_networks(case)
    if case["agent"] == "A3C":
        head = Branched(nn.Sequential(*network_parts.policy_layers(case["policy"])), make_value_head())
        model = network_parts.in_a_row(recurrent, *network_parts.features(recurrent), head)
        return agents.A3C(model, pair_base.adam(model), t_max=4, gamma=0.9, recurrent=case["recurrent"])
    nets = network_parts.make_policy(case["policy"], recurrent), network_parts.make_value(recurrent)
    return make_on_policy(case["agent"], case["recurrent"], nets=nets)


def make_value_head() -> nn.Module:
    return nn.Linear(network_parts.HIDDEN, 1)


def misfits(case: pair_base.Case) -> Iterator[str]:
    if case["policy"] == "deterministic":
        yield "policy" if case["agent"] == "TRPO" else "model"


def arguments(entry: Entry, recurrent: bool) -> Arguments:
    policy, vf = make_nets(recurrent)
    if entry.kind is agents.TRPO:
        return {"policy": policy, "vf": vf, "vf_optimizer": pair_base.sgd(vf), "gamma": 0.9, "update_interval": 10,
                "vf_batch_size": 4, "recurrent": recurrent}  # fmt: skip
    if entry.kind is agents.REINFORCE:
        return {"model": policy, "optimizer": pair_base.sgd(policy), "recurrent": recurrent}
    model = (RecurrentBranched if recurrent else Branched)(policy, vf)
    parts = {"model": model, "optimizer": pair_base.sgd(model), "gamma": 0.9, "recurrent": recurrent}
    if entry.kind is agents.A2C:
        return {**parts, "num_processes": 2}
    if entry.kind is agents.IMPALA:
        return {**parts, "update_interval": 10}
    return {**parts, "update_interval": 10, "minibatch_size": 4, "epochs": 2}


OF_ON_POLICY: Table = {
    **COMMON,
    "model": anew("model"),
    "optimizer": slower("model"),
    "policy": anew("policy"),
    "vf": anew("vf"),
    "vf_optimizer": slower("vf"),
    "gamma": Effect(0.3, "parameters"),
    "lambd": Effect(0.2, "parameters"),
    "phi": Effect(lambda obs: -3 * obs, "parameters evaluation", held_by=ON_POLICY + "phi_and_batch_states"),
    "batch_states": Effect(of_other_features, "parameters evaluation", held_by=ON_POLICY + "phi_and_batch_states"),
    "logger": Effect(logging.getLogger("of.a.user"), "log"),
    "max_grad_norm": learnt(0.01, ON_POLICY + "max_grad_norm"),
    "act_deterministically": Effect(True, "evaluation", ON_POLICY + "act_deterministically_is_for_evaluation"),
    "obs_normalizer": learnt(Made(lambda _: EmpiricalNormalization(5)),
        ON_POLICY + "obs_normalizer_learns_between_targets_and_update"),
    "update_interval": Effect(15, "updates parameters", held_by=ON_POLICY + "update_interval"),
    "minibatch_size": Effect(10, "updates parameters", held_by=ON_POLICY + "minibatch_size_and_epochs"),
    "epochs": Effect(1, "updates parameters", held_by=ON_POLICY + "minibatch_size_and_epochs"),
    "value_func_coef": learnt(5.0, ON_POLICY + "arguments_are_those_of_the_function"),
    "entropy_coef": Effect(1.0, "parameters"),
    "clip_eps": learnt(1e-3, ON_POLICY + "arguments_are_those_of_the_function"),
    "clip_eps_vf": learnt(1e-3, ON_POLICY + "arguments_are_those_of_the_function"),
    "standardize_advantages": learnt(False, ON_POLICY + "standardize_advantages"),
    "max_recurrent_sequence_len": learnt(2, ON_POLICY + "max_recurrent_sequence_len", given=SEQUENCES),
    "target_kl": Effect(1e-9, "updates parameters", held_by=ON_POLICY + "target_kl_ends_an_update"),
    **{
        f"{name}_stats_window": Effect(1, "statistics")
        for name in ("value", "entropy", "value_loss", "policy_loss", "kl")
    },
    "policy_step_size_stats_window": Effect(held_by=ON_POLICY + "windows_of_statistics"),
    **{
        f"average_{name}_decay": Effect(0.5, "statistics", held_by=ON_POLICY + "decays_of_a2cs_statistics")
        for name in ("actor_loss", "entropy", "value")
    },
    "compile": not_compiled("optimizer", "model", ON_POLICY + "ppo_compiles_what_it_does_with_a_minibatch"),
    "max_kl": learnt(0.1, ON_POLICY + "max_kl"),
    "vf_epochs": learnt(1, ON_POLICY + "vf_epochs_and_vf_batch_size"),
    "vf_batch_size": learnt(10, ON_POLICY + "vf_epochs_and_vf_batch_size"),
    "line_search_max_backtrack": Effect(held_by=ON_POLICY + "line_search_max_backtrack"),
    "conjugate_gradient_max_iter": learnt(1, ON_POLICY + "arguments_are_those_of_the_function"),
    "conjugate_gradient_damping": learnt(5.0, ON_POLICY + "arguments_are_those_of_the_function"),
    "num_processes": Effect(3, "updates parameters", held_by=ON_POLICY + "num_processes_and_update_steps"),
    "update_steps": Effect(3, "updates parameters", held_by=ON_POLICY + "num_processes_and_update_steps"),
    "pi_loss_coef": learnt(0.1, ON_POLICY + "arguments_are_those_of_the_function"),
    "v_loss_coef": learnt(5.0, ON_POLICY + "arguments_are_those_of_the_function"),
    "entropy_coeff": learnt(1.0, ON_POLICY + "arguments_are_those_of_the_function"),
    "use_gae": Effect(True, "parameters"),
    "tau": Effect(0.2, "parameters", given={"use_gae": True}),
    "rho_clip": learnt(0.5, VTRACE + "clips_limit_errors_and_traces"),
    "c_clip": learnt(0.5, VTRACE + "clips_limit_errors_and_traces"),
    "vtrace_lambda": learnt(0.2, VTRACE + "vtrace_lambda_weighs_later_errors"),
    "value_coeff": learnt(5.0, ON_POLICY + "arguments_are_those_of_the_function"),
    "beta": Effect(1.0, "parameters"),
    "batchsize": Effect(3, "updates parameters", held_by=ON_POLICY + "batchsize_counts_episodes"),
    "backward_separately": Effect(True, "passes", given={"batchsize": 2}),
    "learn_from_truncated": Effect(True, "updates parameters", held_by=ON_POLICY + "learn_from_truncated"),
}  # fmt: skip

# A3C and ACER


def make_acer(entry: Entry, case: pair_base.Case, folder: Path) -> Any:
    recurrent, kind = pair_base.of_networks(case), case["q_function"]
    pi = nn.Sequential(*network_parts.policy_layers(case["policy"]))
    if kind == "advantage":
        advantage = nn.Sequential(ConcatObsAndAction(), nn.Linear(network_parts.HIDDEN + network_parts.N_ACTIONS, 1))
        head: nn.Module = ACERContinuousActionHead(pi, make_value_head(), advantage)
    else:
        head = ACERDiscreteActionHead(pi, nn.Sequential(*network_parts.VALUES[kind](network_parts.N_ACTIONS)))
    model = network_parts.in_a_row(recurrent, *network_parts.features(recurrent), head)
    name = case["replay_buffer"]
    buffer = None if name is None else pair_base.BUFFERS[name](folder)
    phi = concatenate_goal if pair_base.is_of_goals(case) else None
    options = {"replay_start_size": 8, "n_times_replay": 1, "recurrent": case["recurrent"], "phi": phi}
    return agents.ACER(model, pair_base.adam(model), 4, 0.9, buffer, **options)


def acer_misfits(case: pair_base.Case) -> Iterator[str]:
    if case["policy"] not in (pair_base.DENSITIES if case["q_function"] == "advantage" else ("softmax",)):
        yield from ("pi", "model")
    if case["q_function"] == "quadratic":
        yield "q"
    if case["replay_buffer"] not in (None, *pair_base.EPISODIC):
        yield "replay_buffer"


def of_async(entry: Entry, recurrent: bool) -> Arguments:
    model = (a3c_model if entry.kind is agents.A3C else acer_model)(recurrent)
    parts = {"model": model, "optimizer": pair_base.sgd(model), "t_max": 4, "gamma": 0.9, "recurrent": recurrent}
    if entry.kind is agents.A3C:
        return parts
    parts["optimizer"] = pair_base.sgd(model, lr=0.5)  # so that the policy leaves the average one
    return {**parts, "replay_buffer": pair_base.a_buffer(True), "replay_start_size": 10, "n_times_replay": 2,
            "trust_region_delta": 1e-3}  # fmt: skip


OF_A3C: Table = {
    **COMMON,
    "model": anew("model"),
    "optimizer": slower("model"),
    "t_max": Effect(3, "updates parameters", held_by=ASYNC + "updates_come_after_t_max_steps_and_at_ends"),
    "beta": learnt(1.0, "golden/test_a3c_loss.py::test_loss_of_two_steps"),
    "process_idx": Effect(3, "process"),
    "phi": Effect(lambda obs: -3 * obs, "parameters evaluation", ASYNC + "batch_states_and_phi_make_the_features"),
    "batch_states": Effect(of_other_features, "parameters evaluation",
        ASYNC + "batch_states_and_phi_make_the_features"),
    "pi_loss_coef": learnt(0.1, "golden/test_a3c_loss.py::test_loss_of_two_steps"),
    "v_loss_coef": learnt(5.0, "golden/test_a3c_loss.py::test_loss_of_two_steps"),
    "keep_loss_scale_same": learnt(True, ASYNC + "keep_loss_scale_same_weighs_short_rollouts_up"),
    "normalize_grad_by_t_max": learnt(True, ASYNC + "normalize_grad_by_t_max_divides_by_the_number_of_steps"),
    "use_average_reward": learnt(True,
        "golden/test_a3c_loss.py::test_average_reward_is_taken_off_and_follows_the_advantages"),
    "average_reward_tau": learnt(
        0.5, "golden/test_a3c_loss.py::test_average_reward_is_taken_off_and_follows_the_advantages",
        given={"use_average_reward": True},
    ),
    "act_deterministically": Effect(True, "evaluation"),
    "max_grad_norm": learnt(0.01, ASYNC + "max_grad_norm_bounds_the_gradient"),
    "average_entropy_decay": Effect(0.5, "statistics"),
    "average_value_decay": Effect(0.5, "statistics"),
}  # fmt: skip

OF_ACER: Table = {
    **OF_A3C,
    "replay_buffer": small(EpisodicReplayBuffer),
    "beta": learnt(1.0),
    "pi_loss_coef": learnt(0.1),
    "Q_loss_coef": learnt(5.0),
    "use_trust_region": learnt(False, ACER + "without_trust_region_there_is_no_divergence"),
    "trust_region_alpha": Effect(0.5, "targets parameters", ACER + "the_average_model_follows_at_the_rate_told"),
    "trust_region_delta": learnt(1e-6),
    "truncation_threshold": learnt(0.5),
    "disable_online_update": Effect(True, "updates parameters",
        ACER + "disable_online_update_learns_from_replay_alone"),
    "n_times_replay": Effect(4, "updates parameters",
        ACER + "replay_follows_each_rollout_once_the_buffer_holds_enough"),
    "replay_start_size": Effect(20, "updates parameters",
        ACER + "replay_follows_each_rollout_once_the_buffer_holds_enough"),
    "normalize_loss_by_steps": learnt(False),
    "use_Q_opc": learnt(True),
    "average_value_decay": Effect(0.5, "statistics", held_by=ACER + "running_means_decay_as_told"),
    "average_entropy_decay": Effect(0.5, "statistics", held_by=ACER + "running_means_decay_as_told"),
    "average_kl_decay": Effect(0.5, "statistics", held_by=ACER + "running_means_decay_as_told"),
}  # fmt: skip

# Actors


class Sent:
    """The end of a pipe that keeps what is sent."""

    def __init__(self, name: str) -> None:
        self.name, self.sent = name, []

    def send(self, message: Any) -> None:
        """Keep it."""
        self.sent.append(message)

    def messages(self, actor: Any) -> tuple[str, int, int]:
        """The name, the number of steps that came, and of recurrent states that came with them."""
        actor.stop_episode()  # sends what is left
        further = [each for kind, columns in self.sent if kind == "rows" for each in columns[-1]]
        return self.name, len(further), sum(each.get("recurrent_state") is not None for each in further)


def of_actors(entry: Entry, recurrent: bool) -> Arguments:
    """What acts for a learner elsewhere."""
    explorer = ConstantEpsilonGreedy(0.6, functools.partial(np.random.randint, 2))
    return {"pipe": Sent("one"), "model": network_parts.make_q_function("expected", recurrent), "explorer": explorer,
            "recurrent": recurrent}  # fmt: skip


OF_ACTORS: Table = {
    "pipe": Effect(Made(lambda _: Sent("another")), "sent"),
    "model": Effect(Made(lambda all: begun_anew(all["model"])), "actions evaluation"),
    "explorer": Effect(ConstantEpsilonGreedy(1.0, lambda: 1), "actions"),
    "phi": Effect(lambda obs: -obs, "evaluation", held_by=ACTORS + "a_state_q_function_actor_acts_as_the_agent_does"),
    "recurrent": Effect(False, refused="recurrent is False", given=SEQUENCES),
    "logger": Effect(held_by=ACTORS + "a_state_q_function_actor_tells_its_logger_that_nobody_listens"),
    "batch_states": Effect(lambda states, device, phi: -batch_states(states, device, phi), "evaluation",
        ACTORS + "a_state_q_function_actor_makes_batches_as_it_is_told"),
    "episodic_update_len": Effect(2, "sent", ACTORS + "a_state_q_function_actor_sends_states_every_so_many_steps",
        given=SEQUENCES),
}  # fmt: skip

# Agents

FAMILY = Family(arguments, OF_ON_POLICY, 5, make, misfits, pair_base.policy_space)
ASYNCHRONOUS = dataclasses.replace(FAMILY, arguments=of_async, effects=OF_A3C)
PARTS = {"policy": network_parts.HEADS, "recurrent": pair_base.RECURRENT}
OF_ACER_ALONE = {
    "policy": network_parts.HEADS, "q_function": (*network_parts.VALUES, "advantage"),
    "recurrent": pair_base.RECURRENT, "replay_buffer": (None, *pair_base.BUFFERS),
}  # fmt: skip

ENTRIES = (
    Entry(agents.PPO, FAMILY, PARTS),
    Entry(agents.A2C, FAMILY, PARTS),
    Entry(agents.IMPALA, FAMILY, PARTS),
    Entry(agents.APPO, FAMILY, PARTS),
    Entry(
        agents.REINFORCE, FAMILY, PARTS,
        effects={"average_entropy_decay": Effect(0.5, "statistics", ON_POLICY + "decay_of_reinforces_entropy")},
    ),
    Entry(agents.TRPO, FAMILY, PARTS),
    Entry(agents.A3C, ASYNCHRONOUS, PARTS),
    Entry(agents.ACER, Family(of_async, OF_ACER, 5, make_acer, acer_misfits, pair_base.policy_space), OF_ACER_ALONE),
    Entry(agents.StateQFunctionActor, Family(of_actors, OF_ACTORS, 5)),
)  # fmt: skip
