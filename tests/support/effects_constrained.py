"""What each argument changes of agents that keep to actions like the recorded ones."""

from agent_bases import sgd
from argument_effects import Effect, Made
from effects_conservative import OF_CQL
from effects_off_policy import OF_ACTOR_CRITICS, OF_Q_FUNCTIONS, OF_SAC, Table, anew, no_effect

BCQ = "golden/test_bcq.py::test_"
BEAR = "golden/test_bear.py::test_"
#: There is no recurrent form.
NOT_RECURRENT: Table = {
    "recurrent": Effect(True, refused="recurrent is True, but .* has no recurrent form"),
    "episodic_update_len": Effect(3, refused="episodic_update_len is 3, but .* has no recurrent form"),
    "num_steps": Effect(3, refused="num_steps is 3"),
    "burn_in": Effect(2, refused="burn_in is 2"),
}

OF_BCQ: Table = {
    **OF_ACTOR_CRITICS,
    **NOT_RECURRENT,
    "act_deterministically": no_effect(False),
    "soft_update_tau": Effect(0.5, "targets parameters"),
    "imitator": anew("imitator"),
    "imitator_optimizer": Effect(Made(lambda all: sgd(all["imitator"], lr=1e-3)), "parameters"),
    "lam": Effect(0.1, "parameters", held_by=BCQ + "the_target_is_the_soft_least_value_of_the_best_candidate"),
    "n_action_samples": Effect(9, "parameters", held_by=BCQ + "the_choice_is_the_candidate_of_most_value"),
    "action_flexibility": Effect(0.5, "parameters", held_by=BCQ + "perturbed_actions_stay_near_and_in_bounds"),
    "beta": Effect(5.0, "parameters", held_by=BCQ + "the_imitator_makes_actions_anew_near_the_prior"),
    "rl_start_step": Effect(3, "parameters", held_by=BCQ + "only_the_imitator_learns_before_rl_start_step"),
}

OF_DISCRETE_BCQ: Table = {
    **OF_Q_FUNCTIONS,
    **NOT_RECURRENT,
    "optimizer": Effect(Made(lambda all: sgd(all["q_function"], all["imitator"], lr=1e-3)), "parameters"),
    "imitator": anew("imitator"),
    "action_flexibility": Effect(
        0.0, "parameters", held_by=BCQ + "discrete_bcq_bootstraps_from_the_best_likely_action"
    ),
    "beta": Effect(5.0, "parameters", held_by=BCQ + "the_losses_of_discrete_bcq_are_added"),
}

OF_BEAR: Table = {
    **OF_SAC,
    **NOT_RECURRENT,
    "imitator": anew("imitator"),
    "imitator_optimizer": Effect(Made(lambda all: sgd(all["imitator"], lr=1e-3)), "parameters"),
    "lam": Effect(0.1, "parameters", held_by=BEAR + "the_target_is_the_best_of_some_actions_under_the_soft_minimum"),
    "n_action_samples": Effect(
        9, "parameters", held_by=BEAR + "the_target_is_the_best_of_some_actions_under_the_soft_minimum"
    ),
    "n_mmd_action_samples": Effect(9, "parameters", held_by=BEAR + "the_discrepancy_is_that_of_policy_and_imitator"),
    "mmd_kernel": Effect("laplacian", "parameters", held_by=BEAR + "the_discrepancy_is_that_of_policy_and_imitator"),
    "mmd_sigma": Effect(5.0, "parameters", held_by=BEAR + "the_discrepancy_is_that_of_policy_and_imitator"),
    "initial_alpha": Effect(50.0, "parameters", held_by=BEAR + "the_discrepancy_counts_in_the_policys_loss"),
    "alpha_threshold": Effect(
        50.0, "parameters", held_by=BEAR + "alpha_grows_where_the_discrepancy_is_above_its_threshold"
    ),
    "alpha_optimizer_lr": Effect(
        0.5, "parameters", held_by=BEAR + "alpha_grows_where_the_discrepancy_is_above_its_threshold"
    ),
    "beta": Effect(5.0, "parameters", held_by=BCQ + "the_imitator_makes_actions_anew_near_the_prior"),
    "rl_start_step": Effect(3, "parameters", held_by=BEAR + "only_the_imitator_learns_before_rl_start_step"),
}

OF_CAL_QL: Table = {
    **OF_CQL,
    **NOT_RECURRENT,
    "horizon": Effect(1, "parameters", held_by="golden/test_cal_ql.py::test_a_horizon_cuts_returns_short"),
}
