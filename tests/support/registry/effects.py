"""What an argument changes that many agents have, and how such an effect is written down."""

import copy
import logging
from collections.abc import Callable
from typing import Any

from argument_effects import Effect, Made
from pair_base import adadelta, sgd
from torch import nn

from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.batch_states import batch_states
from registry.entry import Table

DQN = "unit/agents/test_dqn_arguments.py::test_"
MOMENTS = "unit/agents/test_batch_normalisation.py::test_the_target_gets_the_moments_with_the_parameters"
ACTOR_CRITIC = "unit/agents/test_actor_critics.py::test_"
ON_POLICY = "unit/learning/compatibility/test_on_policy_arguments.py::test_"
VTRACE = "golden/test_vtrace_agents.py::test_"
ASYNC = "unit/learning/test_async_actor_critic.py::test_"
ACER = "unit/agents/test_acer.py::test_"
KIN = "unit/agents/test_sac_kin.py::test_"
QUANTILES = "unit/agents/test_quantile_agents.py::test_"
ACTORS = "unit/learning/test_acting_copy.py::test_"
LEARNING = "golden/test_advantage_learning.py::test_"
CONSERVATIVE = "golden/test_conservative_losses.py::test_"
COMPILED = "unit/optimizers/test_compiled_step.py::test_"
AS_ORDINARY = "conformance/test_agents.py::test_a_compiled_update_has_the_errors_of_an_ordinary_one"
ONE_REGION = COMPILED + "all_losses_and_the_noise_of_an_actor_critic_are_one_region"

SEQUENCES = {"recurrent": True}


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


def learnt(value: Any, held_by: str = "", **options: Any) -> Effect:
    """Another value, which changes what is learnt."""
    return Effect(value, "parameters", held_by, **options)


def anew(name: str) -> Effect:
    """Another network."""
    return learnt(Made(lambda all: begun_anew(all[name])))


def slower(name: str) -> Effect:
    """An optimiser that takes shorter steps."""
    return learnt(Made(lambda all: sgd(all[name], lr=1e-3)))


def not_compiled(optimizer: str, network: str, held_by: str) -> Effect:
    """`compile`, which the optimiser of a network does not allow."""
    given = {optimizer: Made(lambda all: adadelta(all[network]))}
    return Effect(True, refused="Adadelta", given=given, held_by=held_by)


def not_recurrent() -> Table:
    """The arguments of sequences, for an agent that has no recurrent form."""
    no_form = "but .* does not support recurrent networks"
    return {
        "recurrent": Effect(True, refused=f"recurrent is True, {no_form}"),
        "episodic_update_len": Effect(3, refused=f"episodic_update_len is 3, {no_form}"),
        "num_steps": Effect(3, refused="num_steps is 3"),
        "burn_in": Effect(2, refused="burn_in is 2"),
    }


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
REPLAYED = {"given": SEQUENCES, "held_by": DQN + "burn_in_lengthens_the_sequences_and_takes_its_steps_off"}

COMMON: Table = {
    "gpu": Effect(99, refused="cuda:99"),
    "device": Effect("cuda:99", refused="cuda:99"),
    "gamma": learnt(0.3),
    "phi": Effect(lambda obs: -3 * obs, "parameters evaluation",
        DQN + "phi_is_applied_in_acting_and_in_learning_but_not_in_storing"),
    "batch_states": Effect(of_other_features, "parameters evaluation",
        DQN + "batch_states_of_the_users_own_gets_the_list_of_observations_the_device_and_phi"),
    "logger": Effect(logging.getLogger("of.a.user"), "log", held_by=DQN + "logger_hears_of_a_refused_update"),
    "recurrent": Effect(False, refused="recurrent is False", given=SEQUENCES),
    "max_grad_norm": learnt(0.01, DQN + "max_grad_norm_limits_the_whole_gradient"),
}  # fmt: skip

REPLAY: Table = {
    **COMMON,
    "replay_buffer": small(ReplayBuffer),
    "replay_start_size": Effect(20, "updates parameters", held_by=DQN + "replay_start_size_is_when_learning_begins"),
    "minibatch_size": learnt(7, DQN + "minibatch_size_is_the_number_of_transitions"),
    "update_interval": Effect(5, "updates parameters", held_by=DQN + "update_interval_is_the_steps_between_updates"),
    "n_times_update": Effect(3, "updates parameters", held_by=DQN + "n_times_update_is_the_updates_at_each_of_them"),
    "target_update_interval": Effect(10, "targets parameters",
        DQN + "target_update_interval_is_the_steps_between_moves_of_the_target"),
    "target_update_method": Effect("soft", "targets parameters", held_by=MOMENTS),
    "soft_update_tau": Effect(0.5, "targets parameters", given={"target_update_method": "soft"}, held_by=MOMENTS),
    "batch_accumulator": learnt("sum", DQN + "batch_accumulator_sum_is_the_mean_times_the_rows"),
    "episodic_update_len": learnt(2, **REPLAYED),
    "num_steps": learnt(3, "golden/test_returns.py::test_an_agent_learns_from_the_value_after_n_steps",
        given=SEQUENCES),
}  # fmt: skip
