"""Table of the functions in `legacy`."""

from collections.abc import Mapping

_MEAN = {"_mean_or_nan": "legacy.statistics"}
_PPO = {
    **_MEAN,
    **dict.fromkeys(
        (
            *("_elementwise_clip", "_compute_explained_variance", "_limit_sequence_length", "_yield_minibatches"),
            *("_add_advantage_and_value_target_to_episode", "_add_advantage_and_value_target_to_episodes"),
            *("_add_log_prob_and_value_to_episodes", "_add_log_prob_and_value_to_episodes_recurrent"),
            *("_make_dataset", "_make_dataset_recurrent"),
            "_yield_subset_of_sequences_with_fixed_number_of_items",
        ),
        "legacy.ppo",
    ),
}

#: Path of PFRL's module -> name -> module that contains the function, both below the package. A module in this table
#: ends with the line `__getattr__ = old_names(__name__)`.
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "agents.acer": dict.fromkeys(
        (
            *("compute_importance", "compute_full_importance", "compute_policy_gradient_loss"),
            *("compute_policy_gradient_full_correction", "compute_policy_gradient_sample_correction"),
            *("get_params_of_distribution", "deepcopy_distribution", "compute_loss_with_kl_constraint"),
        ),
        "legacy.acer",
    ),
    "agents.ddpg": _MEAN,
    "agents.dqn": {
        **_MEAN,
        "_batch_reset_recurrent_states_when_episodes_end": "legacy.dqn",
        "make_target_model_as_copy": "legacy.dqn",
    },
    "agents.iqn": {"_evaluate_psi_x_with_quantile_thresholds": "legacy.iqn"},
    "agents.ppo": _PPO,
    "agents.soft_actor_critic": _MEAN,
    "agents.td3": _MEAN,
    "agents.trpo": {
        **_PPO,
        **dict.fromkeys(
            (
                *("_flatten_and_concat_variables", "_as_ndarray", "_split_and_reshape_to_ndarrays"),
                *("_replace_params_data", "_hessian_vector_product"),
                *("_collect_first_recurrent_states_of_policy", "_collect_first_recurrent_states_of_vf"),
            ),
            "legacy.trpo",
        ),
    },
}
