"""What each argument of each agent changes; an entry serves all agents that have the argument, unless they differ."""

import dataclasses
from typing import Any

from agent_bases import (
    MAKERS,
    adadelta,
    of_actor_critic,
    of_actors,
    of_async,
    of_bcq,
    of_bear,
    of_cal_ql,
    of_discrete_bcq,
    of_imitators,
    of_on_policy,
    of_q_functions,
    of_regressing,
    of_transformers,
)
from argument_effects import Effect, Made
from effects_conservative import OF_CQL, OF_DISCRETE_CQL, OF_EDAC
from effects_constrained import OF_BCQ, OF_BEAR, OF_CAL_QL, OF_DISCRETE_BCQ
from effects_evaluation import OF_DISCRETE_FQE, OF_FQE
from effects_imitation import OF_AWR, OF_BC, OF_CRR, OF_IQL, OF_REBRAC, OF_TD3_PLUS_BC, OF_TRANSFORMERS, OF_WEIGHTED
from effects_off_policy import (
    COMPILED,
    OF_ACTOR_CRITICS,
    OF_CROSSQ,
    OF_Q_FUNCTIONS,
    OF_REDQ,
    OF_SAC,
    REPLAY,
    SPREAD,
    Table,
    no_effect,
)
from effects_on_policy import OF_A3C, OF_ACER, OF_ACTORS, OF_ON_POLICY, OF_REINFORCE

from pfrl_like import agents

BY_FAMILY: dict[Any, Table] = {
    of_q_functions: OF_Q_FUNCTIONS,
    of_actor_critic: OF_ACTOR_CRITICS,
    of_imitators: OF_BC,
    of_regressing: OF_AWR,
    of_bcq: OF_BCQ,
    of_bear: OF_BEAR,
    of_cal_ql: OF_CAL_QL,
    of_transformers: OF_TRANSFORMERS,
    of_discrete_bcq: OF_DISCRETE_BCQ,
    of_on_policy: OF_ON_POLICY,
    of_async: OF_ACER,
    of_actors: OF_ACTORS,
}
DISTRIBUTIONAL = (
    agents.CategoricalDQN,
    agents.CategoricalDoubleDQN,
    agents.QRDQN,
    agents.IQN,
    agents.DoubleIQN,
    agents.FQF,
)
OF_DISTRIBUTIONS: Table = {**OF_Q_FUNCTIONS, "clip_delta": no_effect(False)}
#: Agents whose small networks say much the same of all observations, unless their parameters are large.
FLAT = (agents.IQN, agents.DoubleIQN, agents.FQF)
STEEP = {name: dataclasses.replace(OF_Q_FUNCTIONS[name], given=SPREAD) for name in ("phi", "batch_states")}
OWN: dict[Any, Table] = {
    **dict.fromkeys(DISTRIBUTIONAL, OF_DISTRIBUTIONS),
    **dict.fromkeys(FLAT, {**OF_DISTRIBUTIONS, **STEEP}),
    agents.DDPG: {
        **OF_ACTOR_CRITICS,
        "soft_update_tau": REPLAY["soft_update_tau"],
        "compile": Effect(
            True, refused="Adadelta", given={"actor_optimizer": Made(lambda all: adadelta(all["policy"]))},
            held_by=COMPILED + "all_losses_and_the_noise_of_an_actor_critic_are_one_region",
        ),
    },
    **dict.fromkeys((agents.SoftActorCritic, agents.TQC), OF_SAC),
    agents.DiscreteSAC: {**OF_SAC, "burnin_action_func": Effect(lambda: 1, "actions parameters")},
    agents.REDQ: OF_REDQ,
    agents.CrossQ: OF_CROSSQ,
    agents.CQL: OF_CQL,
    agents.COMBO: OF_CQL,
    agents.DiscreteCQL: OF_DISCRETE_CQL,
    agents.EDAC: OF_EDAC,
    agents.TD3PlusBC: OF_TD3_PLUS_BC,
    agents.ReBRAC: OF_REBRAC,
    agents.AWAC: OF_WEIGHTED,
    agents.CRR: OF_CRR,
    agents.IQL: OF_IQL,
    agents.DiscreteDecisionTransformer: {
        **OF_TRANSFORMERS,
        **{name: dataclasses.replace(OF_TRANSFORMERS[name], shows="parameters")
           for name in ("target_return", "return_scale")},
    },
    agents.DiscreteAWR: {**OF_AWR, "burnin_action_func": Effect(lambda: 1, "actions parameters")},
    agents.FittedQEvaluation: OF_FQE,
    agents.DiscreteFittedQEvaluation: OF_DISCRETE_FQE,
    agents.REINFORCE: OF_REINFORCE,
    agents.A3C: OF_A3C,
}  # fmt: skip
#: The effects of every agent's arguments.
EFFECTS: dict[Any, Table] = {kind: OWN.get(kind, BY_FAMILY[maker]) for kind, maker in MAKERS.items()}
