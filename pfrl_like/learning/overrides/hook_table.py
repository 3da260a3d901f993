"""The table of the methods of PFRL 0.4's agents that a subclass may override, and what an override does here."""

from typing import Literal, NamedTuple

Outcome = Literal["called", "adapted", "refused"]


class Hook(NamedTuple):
    """A method of one of PFRL's agents.

    Attributes:
        owner: The agent class.
        name: The method.
        arguments: PFRL's arguments, beside `self`.
        outcome: "called": as PFRL calls it. "adapted": called with PFRL's arguments, in the place of a part of our
            step. "refused": an override is a TypeError.
        replacement: What to override instead, if it is refused.
    """

    owner: str
    name: str
    arguments: str
    outcome: Outcome
    replacement: str = ""

    def refusal(self, overrider: str) -> TypeError:
        """The error of an override that is refused.

        Args:
            overrider: Name of the class that overrides, or of the agent's class.
        """
        return TypeError(
            f"{overrider} overrides {self.name} of PFRL's {self.owner}, which is not called here: "
            f"override {self.replacement} instead"
        )


_ACT = "batch_act(batch_obs), or select_actions(obs, action_mask, active) for features,"
_OBSERVE = "batch_observe(batch_obs, batch_reward, batch_done, batch_reset)"
_ACT_ONE = "act(obs), or select_actions(obs, action_mask, active) for features,"
_OBSERVE_ONE = "observe(obs, reward, done, reset)"
_OBSERVED = "batch_obs, batch_reward, batch_done, batch_reset"
_LOSS = "loss(batch) for another loss, or learn(batch) for another update,"
_TARGETS = "target(value, next_value, bootstrap, batch) for other targets, or loss(batch)"
_EPISODES = "learn(episodes)"
_STEPS_OF_ACER = ", ".join(
    ("t_start", "t_stop", "R", "actions", "rewards", "values", "action_values")
    + ("action_distribs", "action_distribs_mu", "avg_action_distribs")
)
_STEP_OF_ACER = ", ".join(
    ("action", "advantage", "action_distrib", "action_distrib_mu", "action_value", "v", "avg_action_distrib")
)
_VALUES = "greedy_actions(obs, action_mask, active)"
_POLICY_STEP = "update_policy(batch), or learn(episodes)"


def _called(owner: str, **hooks: str) -> list[Hook]:
    return [Hook(owner, name, arguments, "called") for name, arguments in hooks.items()]


def _adapted(owner: str, **hooks: str) -> list[Hook]:
    return [Hook(owner, name, arguments, "adapted") for name, arguments in hooks.items()]


def _refused(owner: str, **hooks: tuple[str, str]) -> list[Hook]:
    return [Hook(owner, name, arguments, "refused", instead) for name, (arguments, instead) in hooks.items()]


def _acting_and_observing(owner: str) -> list[Hook]:
    return _refused(
        owner,
        _batch_act_train=("batch_obs", _ACT),
        _batch_act_eval=("batch_obs", _ACT),
        _batch_observe_train=(_OBSERVED, _OBSERVE),
        _batch_observe_eval=(_OBSERVED, _OBSERVE),
    )


def _acting_and_observing_alone(owner: str) -> list[Hook]:
    return _refused(
        owner,
        _act_train=("obs", _ACT_ONE),
        _act_eval=("obs", _ACT_ONE),
        _observe_train=("obs, reward, done, reset", _OBSERVE_ONE),
        _observe_eval=("obs, reward, done, reset", _OBSERVE_ONE),
    )


#: All of them.
HOOKS: tuple[Hook, ...] = (
    *_called("OffPolicyAgent", update="experiences, errors_out=None"),  # of DQN, DDPG, TD3 and SoftActorCritic
    *_called("DQN", update_from_episodes="episodes, errors_out=None"),
    *_adapted("DQN", _compute_target_values="exp_batch", _compute_loss="exp_batch, errors_out=None"),
    *_acting_and_observing("DQN"),
    *_refused(
        "DQN",
        _compute_y_and_t=("exp_batch", f"_compute_target_values(exp_batch), {_TARGETS}"),
        _evaluate_model_and_update_recurrent_states=("batch_obs", _VALUES),
        _can_start_replay=("", "batch_observe, and call update_from_replay()"),
        _setup_actor_learner_training=("shared_objects", "setup_actor_learner_training"),
        _poll_pipe=("actor_idx, pipe, ...", "setup_actor_learner_training"),
        _learner_loop=("pipes, ...", "update_from_replay()"),
        _poller_loop=("shared_objects, pipes, ...", "setup_actor_learner_training"),
    ),
    *_refused(
        "CategoricalDQN",
        _compute_target_values=("exp_batch", "next_action(q_function, batch), or loss(batch)"),
        _compute_loss=("exp_batch, errors_out=None", _LOSS),
    ),
    *_refused(
        "IQN",
        _compute_target_values=("exp_batch", "next_action(q_function, batch), or loss(batch)"),
        _compute_loss=("exp_batch, errors_out=None", _LOSS),
        _compute_y_and_taus=("exp_batch", _LOSS),
    ),
    *_refused("AbstractDPP", _l_operator=("qout", _TARGETS), _compute_target_values=("exp_batch", _TARGETS)),
    *_refused("AL", _compute_target_values=("exp_batch", _TARGETS)),
    *_refused("PAL", _compute_target_values=("exp_batch", _TARGETS)),
    *_refused("QRDQN", _compute_target_values=("exp_batch", "next_action(q_function, batch), or loss(batch)")),
    *_refused("FQF", _compute_target_values=("exp_batch", "next_action(q_function, batch), or loss(batch)")),
    *_refused(
        "DiscreteBCQ",
        _compute_target_values=("exp_batch", "loss(batch)"),
        _compute_loss=("exp_batch, errors_out=None", "loss(batch)"),
    ),
    *_called("DDPG", compute_critic_loss="batch", compute_actor_loss="batch"),
    *_acting_and_observing("DDPG"),
    *_refused(
        "DDPG",
        _batch_select_greedy_actions=("batch_obs", "select_actions(obs, action_mask, active)"),
        update_from_episodes=("episodes, errors_out=None", "learn(batch)"),
    ),
    *_called("TD3", update_q_func="batch", update_policy="batch", batch_select_onpolicy_action="batch_obs"),
    *_acting_and_observing("TD3"),
    *_called(
        "SoftActorCritic",
        update_q_func="batch",
        update_policy_and_temperature="batch",
        update_temperature="log_prob",
        batch_select_greedy_action="batch_obs, deterministic=False",
    ),
    *_acting_and_observing("SoftActorCritic"),
    *_refused(
        "StateQFunctionActor",
        _evaluate_model_and_update_recurrent_states=("batch_obs", "act(obs)"),
        _send_to_learner=("transition, stop_episode=False", _OBSERVE_ONE),
    ),
    *_called("REINFORCE", accumulate_grad="", batch_update="", update_with_accumulated_grad=""),
    *_acting_and_observing_alone("REINFORCE"),
    *_adapted("PPO", _lossfun="entropy, vs_pred, log_probs, vs_pred_old, log_probs_old, advs, vs_teacher"),
    *_acting_and_observing("PPO"),
    *_refused(
        "PPO",
        _initialize_batch_variables=("num_envs", "batch_act(batch_obs)"),
        _update_if_dataset_is_ready=("", "is_due() for another time, or update_from_rollout() for another update,"),
        _flush_last_episode=("", _EPISODES),
        _update_obs_normalizer=("dataset", "normalized_anew(episodes, steps)"),
        _update=("dataset", f"loss(batch) for another loss, or {_EPISODES}"),
        _update_recurrent=("dataset", f"loss(batch) for another loss, or {_EPISODES}"),
        _update_once_recurrent=("episodes, mean_advs, std_advs", f"loss(batch) for another loss, or {_EPISODES}"),
    ),
    *_acting_and_observing("TRPO"),
    *_refused(
        "TRPO",
        _initialize_batch_variables=("num_envs", "batch_act(batch_obs)"),
        _update_if_dataset_is_ready=("", "is_due() for another time, or update_from_rollout() for another update,"),
        _flush_last_episode=("", _EPISODES),
        _update_obs_normalizer=("dataset", "normalized_anew(episodes, steps)"),
        _update=("dataset", _EPISODES),
        _update_recurrent=("dataset", _EPISODES),
        _update_vf=("dataset", _EPISODES),
        _update_vf_recurrent=("dataset", _EPISODES),
        _update_vf_once_recurrent=("episodes", _EPISODES),
        _compute_gain=("log_prob, log_prob_old, entropy, advs", _POLICY_STEP),
        _update_policy=("dataset", _POLICY_STEP),
        _update_policy_recurrent=("dataset", _POLICY_STEP),
        _compute_kl_constrained_step=("action_distrib, action_distrib_old, gain", _POLICY_STEP),
        _line_search=("full_step, dataset, advs, action_distrib_old, gain", _POLICY_STEP),
    ),
    *_called("A2C", update=""),
    *_acting_and_observing("A2C"),
    *_adapted("A2C", _compute_returns="next_value"),
    *_refused("A2C", _flush_storage=("obs_shape, action", "update()")),
    *_called("A3C", update="statevar"),
    *_acting_and_observing_alone("A3C"),
    *_called(
        "ACER",
        update_on_policy="statevar",
        compute_loss=_STEPS_OF_ACER,
        update=_STEPS_OF_ACER,
        compute_one_step_pi_loss=_STEP_OF_ACER,
        init_history_data_for_online_update="",
    ),
    *_acting_and_observing_alone("ACER"),
    # Variants of ours whose update has more parts than the hooks of the agent that they extend.
    *_refused(
        "BEAR",
        update_q_func=("batch", "improve_critics(batch, step)"),
        update_policy_and_temperature=("batch", "improve_policy(batch, step)"),
        update_temperature=("log_prob", "improve_policy(batch, step)"),
    ),
)

#: Names of all of them.
NAMES = frozenset(hook.name for hook in HOOKS)
