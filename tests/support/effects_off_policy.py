"""What each argument changes of agents that learn from replay."""

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from agent_bases import adadelta, sgd
from argument_effects import Effect, Made
from torch import nn

from pfrl_like.explorers import AdditiveGaussian, ConstantEpsilonGreedy
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.batch_states import batch_states

DQN = "unit/agents/test_dqn_arguments.py::test_"
ACTOR_CRITIC = "unit/agents/test_actor_critics.py::test_"
ON_POLICY = "unit/learning/compatibility/test_on_policy_arguments.py::test_"
ASYNC = "unit/learning/test_async_actor_critic.py::test_"
ACER = "unit/agents/test_acer.py::test_"
KIN = "unit/agents/test_sac_kin.py::test_"
QUANTILES = "unit/agents/test_quantile_agents.py::test_"
ACTORS = "unit/learning/test_actor_learner.py::test_"
LEARNING = "golden/test_advantage_learning.py::test_"
COMPILED = "unit/optimizers/test_compiled_step.py::test_"

SEQUENCES = {"recurrent": True}
Table = Mapping[str, Effect]


def of_other_features(states: Any, device: Any, phi: Any) -> Any:
    """`batch_states` of other features."""
    return -3 * batch_states(states, device, phi)


def begun_anew(network: nn.Module) -> nn.Module:
    """The network with other parameters."""
    for parameter in network.parameters():
        parameter.data.add_(0.5)
    return network


def multiplied(network: nn.Module, factor: float) -> nn.Module:
    """The network with larger parameters."""
    for parameter in network.parameters():
        parameter.data.mul_(factor)
    return network


def anew(name: str) -> Effect:
    """Another network."""
    return Effect(Made(lambda all: begun_anew(all[name])), "parameters")


def slower(name: str) -> Effect:
    """An optimiser that takes shorter steps."""
    return Effect(Made(lambda all: sgd(all[name], lr=1e-3)), "parameters")


def window(name: str) -> Effect:
    """A statistic over fewer values."""
    return Effect(1, "statistics", held_by=ON_POLICY + name)


def small(kind: Callable[[int], Any]) -> Effect:
    """A buffer of twelve transitions."""
    return Effect(Made(lambda _: kind(12)), "parameters stored")


def no_effect(value: Any) -> Effect:
    """As it is documented."""
    return Effect(value, "nothing")


def of_critics(make: Callable[[Any], Any], **options: Any) -> Made:
    """What is made of the further critics."""
    return Made(lambda all: [make(critic, **options) for critic in all["further_q_funcs"]])


#: Quantiles that lie far apart.
SPREAD = {"q_function": Made(lambda all: multiplied(all["q_function"], 4.0))}
THIRD = Made(lambda all: [begun_anew(copy.deepcopy(all["q_func1"]))])
REPEATED = Effect(None, refused="multiple values for")
REPLAYED = {"given": SEQUENCES, "held_by": DQN + "episodic_update_len_limits_the_sequences"}

COMMON: Table = {
    "gpu": Effect(99, refused="cuda:99", held_by=DQN + "gpu_none_or_negative_is_the_cpu"),
    "device": Effect("cuda:99", refused="cuda:99", held_by=DQN + "gpu_none_or_negative_is_the_cpu"),
    "gamma": Effect(0.3, "parameters", held_by=DQN + "gamma_discounts_the_next_value"),
    "phi": Effect(
        lambda obs: -3 * obs, "parameters evaluation",
        held_by=DQN + "phi_is_applied_in_acting_and_in_learning_but_not_in_storing",
    ),
    "batch_states": Effect(
        of_other_features, "parameters evaluation",
        held_by=DQN + "batch_states_of_the_users_own_gets_the_list_of_observations_the_device_and_phi",
    ),
    "logger": Effect(logging.getLogger("of.a.user"), "log", held_by=DQN + "logger_hears_of_a_refused_update"),
    "recurrent": Effect(
        False, refused="recurrent is False", given=SEQUENCES, held_by=DQN + "recurrent_learns_from_sequences"
    ),
    "max_grad_norm": Effect(0.01, "parameters", held_by=DQN + "max_grad_norm_limits_the_whole_gradient"),
}  # fmt: skip

REPLAY: Table = {
    **COMMON,
    "replay_buffer": small(ReplayBuffer),
    "replay_start_size": Effect(20, "updates parameters", held_by=DQN + "replay_start_size_is_when_learning_begins"),
    "minibatch_size": Effect(7, "parameters", held_by=DQN + "minibatch_size_is_the_number_of_transitions"),
    "update_interval": Effect(5, "updates parameters", held_by=DQN + "update_interval_is_the_steps_between_updates"),
    "n_times_update": Effect(3, "updates parameters", held_by=DQN + "n_times_update_is_the_updates_at_each_of_them"),
    "target_update_interval": Effect(
        10, "targets parameters", held_by=DQN + "target_update_interval_is_the_steps_between_moves_of_the_target"
    ),
    "target_update_method": Effect("soft", "targets parameters", held_by=DQN + "soft_updates_move_by_soft_update_tau"),
    "soft_update_tau": Effect(
        0.5, "targets parameters", given={"target_update_method": "soft"},
        held_by=DQN + "soft_updates_move_by_soft_update_tau",
    ),
    "batch_accumulator": Effect(
        "sum", "parameters", held_by=DQN + "batch_accumulator_sum_is_the_mean_times_the_rows"
    ),
    "episodic_update_len": Effect(2, "parameters", **REPLAYED),
    "num_steps": Effect(
        3, "parameters", given=SEQUENCES,
        held_by="golden/test_returns.py::test_an_agent_learns_from_the_value_after_n_steps",
    ),
}  # fmt: skip

OF_Q_FUNCTIONS: Table = {
    **REPLAY,
    "q_function": anew("q_function"),
    "optimizer": slower("q_function"),
    "explorer": Effect(
        ConstantEpsilonGreedy(1.0, lambda: 1), "actions parameters", held_by=DQN + "explorer_chooses_in_training_only"
    ),
    "clip_delta": Effect(False, "parameters", held_by=DQN + "clip_delta_makes_large_errors_count_linearly"),
    "burn_in": Effect(2, "parameters", given=SEQUENCES, held_by=DQN + "burn_in_brings_the_state_up_to_date"),
    "compile": Effect(
        True, refused="Adadelta", given={"optimizer": Made(lambda all: adadelta(all["q_function"]))},
        held_by=LEARNING + "a_compiled_update_gives_the_same_numbers",
    ),
    "alpha": Effect(0.1, "parameters", held_by=LEARNING + "the_argument_changes_the_loss"),
    "eta": Effect(0.1, "parameters", held_by=LEARNING + "the_argument_changes_the_loss"),
    "quantile_thresholds_N": Effect(
        2, "parameters", held_by=QUANTILES + "arguments_say_how_many_fractions_are_drawn"
    ),
    "quantile_thresholds_N_prime": Effect(
        2, "parameters", held_by=QUANTILES + "arguments_say_how_many_fractions_are_drawn"
    ),
    "quantile_thresholds_K": Effect(
        1, "evaluation parameters", given=SPREAD, held_by=QUANTILES + "arguments_say_how_many_fractions_are_drawn"
    ),
    "act_deterministically": Effect(
        True, "evaluation", given={**SPREAD, "quantile_thresholds_K": 1},
        held_by=QUANTILES + "acting_deterministically_takes_even_fractions_in_evaluation_only",
    ),
}  # fmt: skip

OF_ACTOR_CRITICS: Table = {
    **REPLAY,
    "policy": anew("policy"),
    **{name: anew(name) for name in ("q_func", "q_func1", "q_func2")},
    "actor_optimizer": slower("policy"),
    "critic_optimizer": slower("q_func"),
    "policy_optimizer": slower("policy"),
    "q_func1_optimizer": slower("q_func1"),
    "q_func2_optimizer": slower("q_func2"),
    "explorer": Effect(
        AdditiveGaussian(0.5), "actions parameters", held_by=DQN + "explorer_chooses_in_training_only"
    ),
    "max_grad_norm": Effect(0.01, "parameters", held_by=ACTOR_CRITIC + "each_networks_gradient_is_clipped"),
    "batch_accumulator": Effect(
        "sum", "parameters", held_by=ACTOR_CRITIC + "weights_and_accumulator_count_in_every_loss"
    ),
    "burnin_action_func": Effect(
        lambda: np.full(2, 0.25, np.float32), "actions parameters",
        held_by=ACTOR_CRITIC + "burn_in_actions_come_until_the_policy_has_learnt",
    ),
    "act_deterministically": Effect(
        True, "evaluation", held_by=ACTOR_CRITIC + "svg0_samples_unless_told_otherwise"
    ),
    "compile": Effect(
        True, refused="Adadelta", given={"policy_optimizer": Made(lambda all: adadelta(all["policy"]))},
        held_by=COMPILED + "all_losses_and_the_noise_of_an_actor_critic_are_one_region",
    ),
    "policy_update_delay": Effect(
        4, "parameters", held_by=ACTOR_CRITIC + "td3s_policy_and_targets_move_once_every_delay"
    ),
    "soft_update_tau": Effect(
        0.5, "targets parameters", held_by=ACTOR_CRITIC + "td3s_policy_and_targets_move_once_every_delay"
    ),
    "target_policy_smoothing_func": Effect(
        lambda action: -action, "parameters",
        held_by=ACTOR_CRITIC + "the_smoothing_function_disturbs_the_targets_action",
    ),
    "further_q_funcs": Effect(
        THIRD, "parameters statistics", also={"further_q_func_optimizers": of_critics(sgd)},
        held_by=ACTOR_CRITIC + "more_critics_make_targets_lower_and_are_saved",
    ),
    "further_q_func_optimizers": Effect(
        of_critics(sgd, lr=1e-3), "parameters",
        given={"further_q_funcs": THIRD, "further_q_func_optimizers": of_critics(sgd)},
    ),
}  # fmt: skip

OF_SAC: Table = {
    **OF_ACTOR_CRITICS,
    "act_deterministically": Effect(
        False, "evaluation", held_by=ACTOR_CRITIC + "sac_acts_by_the_mode_only_in_evaluation_and_only_if_told"
    ),
    "soft_update_tau": Effect(
        0.5, "targets parameters", held_by=ACTOR_CRITIC + "sacs_targets_move_after_every_update"
    ),
    "initial_temperature": Effect(
        0.9, "parameters", held_by=ACTOR_CRITIC + "the_temperature_weighs_the_entropy_in_target_and_policy"
    ),
    "entropy_target": Effect(5.0, "parameters", held_by=ACTOR_CRITIC + "the_temperature_follows_the_entropy"),
    "temperature_optimizer_lr": Effect(
        0.5, "parameters", held_by=ACTOR_CRITIC + "the_temperature_follows_the_entropy"
    ),
    "n_dropped": Effect(0, "parameters", held_by=KIN + "tqcs_target_is_the_mixture_and_its_policy_follows_the_mean"),
}  # fmt: skip

OF_REDQ: Table = {
    **OF_SAC,
    "q_funcs": Effect(Made(lambda all: [*map(begun_anew, all["q_funcs"])]), "parameters"),
    "q_func_optimizers": Effect(Made(lambda all: [sgd(each, lr=1e-3) for each in all["q_funcs"]]), "parameters"),
    "subset_size": Effect(
        1, "parameters", held_by=KIN + "redqs_targets_come_from_a_few_critics_drawn_anew"
    ),
    "policy_update_delay": Effect(1, "parameters", held_by=KIN + "redqs_policy_learns_once_a_step"),
    "compile": Effect(True, refused="every update of REDQ", held_by=KIN + "redq_refuses_what_it_cannot_do"),
    **dict.fromkeys(
        ("q_func1", "q_func2", "further_q_funcs", "q_func1_optimizer", "q_func2_optimizer",
         "further_q_func_optimizers"),
        REPEATED,
    ),
}  # fmt: skip

OF_CROSSQ: Table = {
    **OF_SAC,
    "policy_update_delay": Effect(
        1, "parameters", held_by=KIN + "crossqs_policy_learns_in_every_third_update_and_leaves_the_moments_alone"
    ),
    "soft_update_tau": Effect(0.5, refused="no target networks that could move"),
}
