"""What each argument changes of CQL, its discrete form, and EDAC."""

from argument_effects import Effect
from effects_off_policy import OF_Q_FUNCTIONS, OF_SAC, Table

GOLDEN = "golden/test_conservative_losses.py::test_"

OF_CQL: Table = {
    **OF_SAC,
    "conservative_weight": Effect(
        3.0, "parameters", held_by=GOLDEN + "the_conservative_term_counts_beside_the_critics_losses"
    ),
    "initial_alpha": Effect(
        1.0, "parameters", held_by=GOLDEN + "the_conservative_term_counts_beside_the_critics_losses"
    ),
    "alpha_threshold": Effect(
        -100.0, "parameters", held_by=GOLDEN + "alpha_grows_where_the_gap_is_above_its_threshold"
    ),
    "alpha_optimizer_lr": Effect(
        0.1, "parameters", held_by=GOLDEN + "alpha_grows_where_the_gap_is_above_its_threshold"
    ),
    "n_action_samples": Effect(
        2, "parameters", held_by=GOLDEN + "values_of_actions_drawn_are_those_of_one_call_for_each"
    ),
    "soft_q_backup": Effect(False, "parameters", held_by=GOLDEN + "targets_do_without_the_entropy_if_they_are_told_to"),
}
OF_DISCRETE_CQL: Table = {
    **OF_Q_FUNCTIONS,
    "conservative_weight": Effect(3.0, "parameters", held_by=GOLDEN + "discrete_cql_is_double_dqn_and_the_gap"),
}
OF_EDAC: Table = {
    **OF_SAC,
    "eta": Effect(5.0, "parameters", held_by=GOLDEN + "eta_weighs_the_diversity_and_sac_n_has_none"),
}
