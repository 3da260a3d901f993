"""Table of the functions and classes in `legacy`."""

from collections.abc import Mapping


def _in(module: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), f"legacy.{module}")


_MEAN = _in("statistics", "_mean_or_nan")
_PPO = _MEAN | _in(
    "ppo",
    """_elementwise_clip _compute_explained_variance _limit_sequence_length _yield_minibatches
    _add_advantage_and_value_target_to_episode _add_advantage_and_value_target_to_episodes
    _add_log_prob_and_value_to_episodes _add_log_prob_and_value_to_episodes_recurrent _make_dataset
    _make_dataset_recurrent _yield_subset_of_sequences_with_fixed_number_of_items""",
)
_TRPO = _PPO | _in(
    "trpo",
    """_flatten_and_concat_variables _as_ndarray _split_and_reshape_to_ndarrays _replace_params_data
    _hessian_vector_product _collect_first_recurrent_states_of_policy _collect_first_recurrent_states_of_vf""",
)
_ACER = _in(
    "acer",
    """compute_importance compute_full_importance compute_policy_gradient_loss compute_policy_gradient_full_correction
    compute_policy_gradient_sample_correction get_params_of_distribution deepcopy_distribution
    compute_loss_with_kl_constraint""",
)
_EVALUATOR = "AsyncEvaluator create_tb_writer record_stats record_tb_stats record_tb_stats_loop write_header"

#: Path of PFRL's module -> name -> module that contains the function, both below the package. A module in this table
#: ends with the line `__getattr__ = old_names(__name__)`.
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "agents.acer": _ACER,
    "agents.ddpg": _MEAN,
    "agents.dqn": _MEAN | _in("dqn", "_batch_reset_recurrent_states_when_episodes_end make_target_model_as_copy"),
    "agents.iqn": _in("iqn", "_evaluate_psi_x_with_quantile_thresholds"),
    "agents.ppo": _PPO,
    "agents.soft_actor_critic": _MEAN,
    "agents.td3": _MEAN,
    "agents.trpo": _TRPO,
    "collections.prioritized": _in("tree_queues", "MinTreeQueue SumTreeQueue TreeQueue"),
    "experiments.evaluator": _in("evaluation", _EVALUATOR),
    "experiments.train_agent": _in("training", "ask_and_save_agent_replay_buffer save_agent_replay_buffer"),
    "experiments.train_agent_async": _in("training", "kill_all train_loop"),
    "explorers.epsilon_greedy": _in("parts", "select_action_epsilon_greedily"),
    "q_functions.state_q_functions": _in("parts", "scale_by_tanh"),
    "utils.batch_states": _in("parts", "_to_recursive"),
}
