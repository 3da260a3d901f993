"""What each argument changes of agents whose policy imitates recorded actions."""

from agent_bases import adadelta, sgd
from argument_effects import Effect, Made
from effects_off_policy import COMPILED, OF_ACTOR_CRITICS, REPLAY, Table, anew, begun_anew, slower, small

from pfrl_like.replay_buffers import EpisodicReplayBuffer

GOLDEN = "golden/test_imitation_losses.py::test_"
UNIT = "unit/agents/test_imitating_agents.py::test_"

OF_TD3_PLUS_BC: Table = {
    **OF_ACTOR_CRITICS,
    "alpha": Effect(0.1, "parameters", held_by=GOLDEN + "td3_plus_bc_weighs_the_critic_against_the_squared_error"),
}
OF_REBRAC: Table = {
    **OF_ACTOR_CRITICS,
    "actor_beta": Effect(0.5, "parameters", held_by=UNIT + "rebracs_two_weights_are_those_of_its_two_losses"),
    "critic_beta": Effect(0.5, "parameters", held_by=UNIT + "rebracs_two_weights_are_those_of_its_two_losses"),
}

SAMPLED = UNIT + "weights_are_made_of_the_advantage_over_drawn_actions"
OF_WEIGHTED: Table = {
    **OF_ACTOR_CRITICS,
    "act_deterministically": Effect(False, "evaluation"),
    "soft_update_tau": Effect(0.5, "targets parameters"),
    "lam": Effect(0.1, "parameters", held_by=SAMPLED),
    "n_action_samples": Effect(8, "parameters", held_by=SAMPLED),
    "max_weight": Effect(0.5, "parameters", held_by=SAMPLED),
}
OF_CRR: Table = {
    **OF_WEIGHTED,
    "advantage_type": Effect("max", "parameters", held_by=SAMPLED),
    "weight_type": Effect("binary", "parameters", held_by=SAMPLED),
    "beta": Effect(0.1, "parameters", held_by=SAMPLED),
}
OF_IQL: Table = {
    **OF_WEIGHTED,
    "v_func": Effect(Made(lambda all: begun_anew(all["v_func"])), "parameters"),
    "v_func_optimizer": Effect(Made(lambda all: sgd(all["v_func"], lr=1e-3)), "parameters"),
    "expectile": Effect(0.95, "parameters", held_by=UNIT + "iqls_weights_are_those_of_q_over_v"),
    "beta": Effect(0.1, "parameters", held_by=UNIT + "iqls_weights_are_those_of_q_over_v"),
    "max_weight": Effect(0.5, "parameters", held_by=UNIT + "iqls_weights_are_those_of_q_over_v"),
}

AWR = "golden/test_awr.py::test_"
OF_AWR: Table = {
    **OF_WEIGHTED,
    "v_func": Effect(Made(lambda all: begun_anew(all["v_func"])), "parameters"),
    "v_func_optimizer": Effect(Made(lambda all: sgd(all["v_func"], lr=1e-3)), "parameters"),
    "lam": Effect(0.1, "parameters", held_by=AWR + "returns_reach_to_the_end_of_the_episode"),
    "beta": Effect(0.1, "parameters", held_by=AWR + "weights_are_those_of_the_advantage_after_the_value_has_learnt"),
    "max_weight": Effect(
        0.5, "parameters", held_by=AWR + "weights_are_those_of_the_advantage_after_the_value_has_learnt"
    ),
    "standardize_advantages": Effect(
        False, "parameters", held_by=AWR + "weights_are_those_of_the_advantage_after_the_value_has_learnt"
    ),
    "n_critic_updates": Effect(5, "parameters", held_by=AWR + "an_update_takes_so_many_steps_on_so_many_rows"),
    "n_actor_updates": Effect(6, "parameters", held_by=AWR + "an_update_takes_so_many_steps_on_so_many_rows"),
    "batch_size_per_update": Effect(2, "parameters", held_by=AWR + "an_update_takes_so_many_steps_on_so_many_rows"),
    "horizon": Effect(1, "parameters", held_by=AWR + "a_horizon_cuts_returns_short"),
    "update_interval": Effect(4, "updates parameters"),
    "minibatch_size": Effect(8, "parameters"),
}

OF_BC: Table = {
    **REPLAY,
    "policy": anew("policy"),
    "optimizer": slower("policy"),
    "act_deterministically": Effect(False, "evaluation"),
    "logger": Effect(held_by=UNIT + "bcs_logger_hears_of_a_refused_update"),
    "compile": Effect(
        True, refused="Adadelta", given={"optimizer": Made(lambda all: adadelta(all["policy"]))},
        held_by=COMPILED + "all_losses_and_the_noise_of_an_actor_critic_are_one_region",
    ),
    "beta": Effect(5.0, "parameters", held_by=GOLDEN + "discrete_bc_is_cross_entropy_and_the_mean_of_squared_logits"),
}  # fmt: skip

TRANSFORMER = "golden/test_decision_transformer.py::test_"
OF_TRANSFORMERS: Table = {
    **OF_BC,
    "replay_buffer": small(EpisodicReplayBuffer),
    "recurrent": Effect(True, refused="recurrent is True, but .* has no recurrent form"),
    "episodic_update_len": Effect(3, refused="episodic_update_len is 3, but .* has no recurrent form"),
    "compile": Effect(True, refused="compile is True, which DecisionTransformer does not support"),
    "target_return": Effect(
        -90.0, "evaluation actions parameters", held_by=TRANSFORMER + "it_acts_by_the_return_that_is_left"
    ),
    "return_scale": Effect(0.1, "evaluation parameters", held_by=TRANSFORMER + "it_acts_by_the_return_that_is_left"),
    "context_size": Effect(2, "parameters", held_by=TRANSFORMER + "it_looks_back_at_so_many_steps"),
}
