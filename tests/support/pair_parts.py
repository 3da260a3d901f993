"""Every agent with every combination of its parts: what there is, what fits, and how it is made.

A case names the parts that an agent is made of. Families of agents that are made alike have the same kinds of parts.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gymnasium import spaces
from network_parts import (
    BOX,
    CRITICS,
    HEADS,
    HIDDEN,
    N_ACTIONS,
    RECURRENT_CRITICS,
    VALUES,
    features,
    in_a_row,
    make_critic,
    make_policy,
    make_q_function,
    make_value,
    policy_layers,
)
from on_policy_parts import ON_POLICY, make_on_policy
from pair_base import (
    BUFFERS,
    DENSITIES,
    EPISODIC,
    EXPLORERS,
    ONLY_CONTINUOUS,
    ONLY_DISCRETE,
    RECURRENT,
    Case,
    Family,
    adam,
    draw,
    is_of_goals,
    misfit_in_buffer,
    of_networks,
    policy_space,
    replay,
)
from pair_offline import CONSTRAINED, IMITATORS, REGRESSING, TRANSFORMERS
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.acer import ACERContinuousActionHead, ACERDiscreteActionHead
from pfrl_like.nn import Branched, ConcatObsAndAction
from pfrl_like.utils.goals import concatenate_goal

# DQN and its kin

#: Which Q-functions an agent learns; all others learn any.
LEARNT = {
    **dict.fromkeys(("CategoricalDQN", "CategoricalDoubleDQN"), {"distributional", "distributional dueling"}),
    **dict.fromkeys(("IQN", "DoubleIQN"), {"implicit", "proposed"}),
    "QRDQN": {"quantile"},
    "FQF": {"proposed"},
    **dict.fromkeys(("DPP", "DiscreteCQL"), {*VALUES} - {"quadratic"}),
}
#: Critics in the place of a Q-function of the state.
STRANGERS = {"critic of numbers": "numbers", "critic of quantiles": "quantile"}


def make_value_agent(case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_function"], of_networks(case)
    stranger = STRANGERS.get(kind)
    q_function = make_critic(stranger, recurrent) if stranger else make_q_function(kind, recurrent)
    explorer = EXPLORERS[case["explorer"]](functools.partial(draw, value_space(case)))
    make = getattr(agents, case["agent"])
    return make(q_function, adam(q_function), explorer=explorer, target_update_interval=4, **replay(case, folder))


def value_misfits(case: Case) -> Iterator[str]:
    if case["q_function"] not in LEARNT.get(case["agent"], VALUES):
        yield "q_function"
    if case["explorer"] in (ONLY_DISCRETE if case["q_function"] == "quadratic" else ONLY_CONTINUOUS):
        yield "explorer"
    if misfit_in_buffer(case):
        yield "replay_buffer"


def value_space(case: Case) -> spaces.Space[Any]:
    return BOX if case["q_function"] == "quadratic" else spaces.Discrete(N_ACTIONS)


VALUE_AGENTS = Family(
    ("DQN", "DoubleDQN", "CategoricalDQN", "CategoricalDoubleDQN", "AL", "PAL", "DoublePAL", "DPP", "QRDQN", "IQN",
     "DoubleIQN", "FQF", "DiscreteCQL"),
    {"q_function": (*VALUES, *STRANGERS), "explorer": EXPLORERS, "recurrent": RECURRENT, "replay_buffer": BUFFERS},
    make_value_agent, value_misfits, value_space,
)  # fmt: skip

# Actor-critics with replay

#: Critics that are not one kind of Q-function of state and action.
ODD_CRITICS: dict[str, Callable[[bool, int], nn.Module]] = {
    "of the state": lambda recurrent, i: make_q_function("expected", recurrent),
    "of several kinds": lambda recurrent, i: make_critic(("numbers", "quantile")[i % 2], recurrent),
}
EXPLORING = ("DDPG", "TD3", "TD3PlusBC", "ReBRAC")
#: Whose policy learns by the likelihood of recorded actions.
WEIGHTED = ("AWAC", "CRR", "IQL")
#: Whose policy does not learn.
EVALUATING = ("FittedQEvaluation", "DiscreteFittedQEvaluation")
#: Further arguments of an agent.
OWN: dict[str, dict[str, Any]] = {
    "DDPG": {"target_update_interval": 4},
    "REDQ": {"n_times_update": 2},
    "CrossQ": {"policy_update_delay": 2},
    "CRR": {"n_action_samples": 2},
    **dict.fromkeys(EVALUATING, {"target_update_interval": 4}),
}


def make_actor_critic(case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_func"], of_networks(case)
    make = ODD_CRITICS.get(kind, lambda recurrent, i: make_critic(kind, recurrent))
    critics = [make(recurrent, i) for i in range(case["n_critics"])]
    return actor_critic(case, make_policy(case["policy"], recurrent), critics, folder)


def actor_critic(case: Case, policy: nn.Module, critics: list[nn.Module], folder: Path) -> Any:
    name, of_critics = case["agent"], [adam(critic) for critic in critics]
    options = {**OWN.get(name, {}), **replay(case, folder)}
    if name in EVALUATING:
        return getattr(agents, name)(policy, critics, of_critics, **options)
    if name in EXPLORING:
        options["explorer"] = EXPLORERS[case["explorer"]](functools.partial(draw, policy_space(case)))
    elif name == "IQL":
        value = make_value(of_networks(case))
        options |= {"v_func": value, "v_func_optimizer": adam(value)}
    elif name not in WEIGHTED:
        options["entropy_target"] = 0.1
    if name == "REDQ":
        return agents.REDQ(policy, critics, adam(policy), of_critics, **options)
    if len(critics) > 2:
        options |= {"further_q_funcs": critics[2:], "further_q_func_optimizers": of_critics[2:]}
    return getattr(agents, name)(policy, *critics[:2], adam(policy), *of_critics[:2], **options)


def actor_critic_misfits(case: Case) -> Iterator[str]:
    name, kind = case["agent"], case["q_func"]
    if case["policy"] not in (("deterministic", *DENSITIES) if name in (*EXPLORING, *EVALUATING) else DENSITIES):
        yield "policy"
    if (
        kind == "of the state"
        or (kind == "of several kinds" and case["n_critics"] > 1)
        or (name == "TQC" and kind not in ("quantile", "of several kinds"))
    ):
        yield "q_func"
    if case.get("explorer") in ONLY_DISCRETE:
        yield "explorer"
    if name == "CrossQ" and case["recurrent"] and kind in RECURRENT_CRITICS:
        yield "q_func"
    if misfit_in_buffer(case) or (name == "CalQL" and is_of_goals(case)):
        yield "replay_buffer"


OF_ACTOR_CRITICS = {
    "policy": HEADS, "q_func": (*RECURRENT_CRITICS, *ODD_CRITICS), "recurrent": RECURRENT, "replay_buffer": BUFFERS,
    "n_critics": (2,),
}  # fmt: skip
#: Classes of critics, and more of them, in few surroundings.
FURTHER = {
    "policy": ("squashed",), "q_func": CRITICS, "recurrent": RECURRENT, "replay_buffer": ("EpisodicReplayBuffer",),
}  # fmt: skip
ACTOR_CRITIC = functools.partial(Family, make=make_actor_critic, misfits=actor_critic_misfits, space=policy_space)
NOISE = {"explorer": ("AdditiveGaussian",)}
SOFT = ("SoftActorCritic", "TQC", "REDQ", "CrossQ", "CQL", "COMBO", "EDAC")
ACTOR_CRITICS = (
    ACTOR_CRITIC(("DDPG",), {**OF_ACTOR_CRITICS, "n_critics": (1,), "explorer": EXPLORERS}),
    ACTOR_CRITIC(("TD3",), {**OF_ACTOR_CRITICS, "explorer": EXPLORERS}),
    ACTOR_CRITIC(("TD3PlusBC", "ReBRAC"), {**OF_ACTOR_CRITICS, **NOISE}),
    ACTOR_CRITIC((*SOFT, *WEIGHTED, EVALUATING[0]), OF_ACTOR_CRITICS),
    ACTOR_CRITIC(("CalQL",), {**OF_ACTOR_CRITICS, "recurrent": (False,)}),
    ACTOR_CRITIC(("DDPG",), {**FURTHER, "n_critics": (1,), **NOISE}),
    ACTOR_CRITIC(("TD3",), {**FURTHER, "n_critics": (2, 3), **NOISE}),
    ACTOR_CRITIC((*SOFT, *WEIGHTED), {**FURTHER, "n_critics": (2, 3)}),
)


def make_discrete_sac(case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_func"], of_networks(case)
    make = make_critic if kind in CRITICS and kind not in VALUES else make_q_function
    critics = [make(kind, recurrent) for _ in range(case["n_critics"])]
    return actor_critic(case, make_policy(case["policy"], recurrent), critics, folder)


def discrete_sac_misfits(case: Case) -> Iterator[str]:
    if case["policy"] != "softmax":
        yield "policy"
    if case["q_func"] in ("quadratic", "numbers") or (case["q_func"] == "ensemble" and case["n_critics"] > 1):
        yield "q_func"
    if misfit_in_buffer(case):
        yield "replay_buffer"


DISCRETE_SAC = Family(
    ("DiscreteSAC", EVALUATING[1]), {**OF_ACTOR_CRITICS, "q_func": (*VALUES, "numbers")},
    make_discrete_sac, discrete_sac_misfits, policy_space,
)  # fmt: skip

# Agents that learn from what they have just done


def make_on_policy_agent(case: Case, folder: Path) -> Any:
    recurrent = of_networks(case)
    if case["agent"] == "A3C":
        head = Branched(nn.Sequential(*policy_layers(case["policy"])), make_value_head())
        model = in_a_row(recurrent, *features(recurrent), head)
        return agents.A3C(model, adam(model), t_max=4, gamma=0.9, recurrent=case["recurrent"])
    nets = make_policy(case["policy"], recurrent), make_value(recurrent)
    return make_on_policy(case["agent"], case["recurrent"], nets=nets)


def make_value_head() -> nn.Module:
    return nn.Linear(HIDDEN, 1)


def on_policy_misfits(case: Case) -> Iterator[str]:
    if case["policy"] == "deterministic":
        yield "policy" if case["agent"] == "TRPO" else "model"


ON_POLICY_AGENTS = Family(
    (*ON_POLICY, "A3C"), {"policy": HEADS, "recurrent": RECURRENT}, make_on_policy_agent, on_policy_misfits,
    policy_space,
)  # fmt: skip


def make_acer(case: Case, folder: Path) -> Any:
    recurrent, kind = of_networks(case), case["q_function"]
    pi = nn.Sequential(*policy_layers(case["policy"]))
    if kind == "advantage":
        advantage = nn.Sequential(ConcatObsAndAction(), nn.Linear(HIDDEN + N_ACTIONS, 1))
        head: nn.Module = ACERContinuousActionHead(pi, make_value_head(), advantage)
    else:
        head = ACERDiscreteActionHead(pi, nn.Sequential(*VALUES[kind](N_ACTIONS)))
    model = in_a_row(recurrent, *features(recurrent), head)
    name = case["replay_buffer"]
    buffer = None if name is None else BUFFERS[name](folder)
    phi = concatenate_goal if is_of_goals(case) else None
    options = {"replay_start_size": 8, "n_times_replay": 1, "recurrent": case["recurrent"], "phi": phi}
    return agents.ACER(model, adam(model), 4, 0.9, buffer, **options)


def acer_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in (DENSITIES if case["q_function"] == "advantage" else ("softmax",)):
        yield "pi"
    if case["q_function"] == "quadratic":
        yield "q"
    if case["replay_buffer"] not in (None, *EPISODIC):
        yield "replay_buffer"


ACER = Family(
    ("ACER",),
    {"policy": HEADS, "q_function": (*VALUES, "advantage"), "recurrent": RECURRENT, "replay_buffer": (None, *BUFFERS)},
    make_acer, acer_misfits, policy_space,
)  # fmt: skip

FAMILIES = (
    VALUE_AGENTS,
    *ACTOR_CRITICS,
    DISCRETE_SAC,
    IMITATORS,
    REGRESSING,
    *CONSTRAINED,
    TRANSFORMERS,
    ON_POLICY_AGENTS,
    ACER,
)
#: The first family of each agent has all its parts.
FAMILY = {agent: family for family in reversed(FAMILIES) for agent in family.kinds}
