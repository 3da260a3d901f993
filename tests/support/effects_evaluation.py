"""What each argument changes of agents that evaluate a policy."""

from agent_bases import adadelta, sgd
from argument_effects import Effect, Made
from effects_off_policy import ACTOR_CRITIC, COMPILED, OF_ACTOR_CRITICS, REPLAY, Table, begun_anew

from pfrl_like.explorers import ConstantEpsilonGreedy

FQE = "unit/agents/test_fitted_q_evaluation.py::test_"

OF_FQE: Table = {
    **OF_ACTOR_CRITICS,
    **{name: REPLAY[name] for name in ("target_update_interval", "target_update_method", "soft_update_tau")},
    "q_funcs": Effect(Made(lambda all: [*map(begun_anew, all["q_funcs"])]), "parameters"),
    "q_func_optimizers": Effect(Made(lambda all: [sgd(each, lr=1e-3) for each in all["q_funcs"]]), "parameters"),
    "act_deterministically": Effect(
        False, "evaluation parameters", held_by=FQE + "modes_or_samples_are_evaluated_as_act_deterministically_says"
    ),
    "max_grad_norm": Effect(0.01, "parameters", held_by=ACTOR_CRITIC + "each_networks_gradient_is_clipped"),
    "compile": Effect(
        True, refused="Adadelta",
        given={"q_func_optimizers": Made(lambda all: [adadelta(each) for each in all["q_funcs"]])},
        held_by=COMPILED + "all_losses_and_the_noise_of_an_actor_critic_are_one_region",
    ),
}  # fmt: skip
OF_DISCRETE_FQE: Table = {**OF_FQE, "explorer": Effect(ConstantEpsilonGreedy(1.0, lambda: 1), "actions parameters")}
