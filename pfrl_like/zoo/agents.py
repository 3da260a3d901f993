"""The table of agents that `make` knows, by name."""

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pfrl_like.utils.env_values import space_kind
from pfrl_like.zoo import actor_critics, offline, on_policy, value_based
from pfrl_like.zoo.names import resolve

_DISCRETE, _CONTINUOUS = ("discrete",), ("continuous",)
_ANY = (*_DISCRETE, *_CONTINUOUS, "multi-discrete", "multi-binary")


class Recipe(NamedTuple):
    """Description of how an agent is composed and trained.

    Attributes:
        class_name: Class in `pfrl_like.agents`.
        build: Builder, called as `build(class_name, spaces, **settings)`.
        runner: "online", "async" (several processes) or "offline" (from a dataset).
        actions: Kinds of actions that the agent takes, see `action_kind`.
        settings: Settings that make this agent different from the class's usual one.
    """

    class_name: str
    build: Callable[..., Any]
    runner: str = "online"
    actions: tuple[str, ...] = _CONTINUOUS
    settings: dict[str, Any] = {}

    def keywords(self) -> list[str]:
        """Return the names of all settings: those of the builder, then those of the agent's constructor."""
        own = [
            name
            for name, parameter in inspect.signature(self.build).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        return [*dict.fromkeys([*own, *inspect.signature(resolve(f"agents.{self.class_name}")).parameters])]


_Q, _ACTOR_CRITIC, _OFFLINE = value_based.q_learning, actor_critics.actor_critic, offline.offline
#: Keys are the names of agents in presets, on the command line and in file names.
AGENTS: dict[str, Recipe] = {
    "dqn": Recipe("DQN", _Q, "online", _DISCRETE),
    "double_dqn": Recipe("DoubleDQN", _Q, "online", _DISCRETE),
    "drqn": Recipe("DQN", _Q, "online", _DISCRETE, {"recurrent": True}),
    "rainbow": Recipe("CategoricalDoubleDQN", _Q, "online", _DISCRETE),
    "categorical_dqn": Recipe("CategoricalDQN", _Q, "online", _DISCRETE),
    "categorical_double_dqn": Recipe("CategoricalDoubleDQN", _Q, "online", _DISCRETE),
    "qrdqn": Recipe("QRDQN", _Q, "online", _DISCRETE),
    "iqn": Recipe("IQN", _Q, "online", _DISCRETE),
    "double_iqn": Recipe("DoubleIQN", _Q, "online", _DISCRETE),
    "fqf": Recipe("FQF", _Q, "online", _DISCRETE),
    "al": Recipe("AL", _Q, "online", _DISCRETE),
    "pal": Recipe("PAL", _Q, "online", _DISCRETE),
    "double_pal": Recipe("DoublePAL", _Q, "online", _DISCRETE),
    "dpp": Recipe("DPP", _Q, "online", _DISCRETE),
    "munchausen_dqn": Recipe("MunchausenDQN", _Q, "online", _DISCRETE),
    "sac": Recipe("SoftActorCritic", _ACTOR_CRITIC),
    "tqc": Recipe("TQC", _ACTOR_CRITIC),
    "redq": Recipe("REDQ", _ACTOR_CRITIC),
    "crossq": Recipe("CrossQ", _ACTOR_CRITIC),
    "discrete_sac": Recipe("DiscreteSAC", _ACTOR_CRITIC, "online", _DISCRETE),
    "ddpg": Recipe("DDPG", _ACTOR_CRITIC),
    "td3": Recipe("TD3", _ACTOR_CRITIC),
    "ppo": Recipe("PPO", on_policy.on_policy, "online", _ANY),
    "trpo": Recipe("TRPO", on_policy.on_policy, "online", _ANY),
    "a2c": Recipe("A2C", on_policy.on_policy, "online", _ANY),
    "impala": Recipe("IMPALA", on_policy.on_policy, "online", _ANY),
    "appo": Recipe("APPO", on_policy.on_policy, "online", _ANY),
    "reinforce": Recipe("REINFORCE", on_policy.on_policy, "online", _ANY),
    "a3c": Recipe("A3C", on_policy.on_policy, "async", _ANY),
    "acer": Recipe("ACER", on_policy.acer, "async", _DISCRETE + _CONTINUOUS),
    "bc": Recipe("BC", _OFFLINE, "offline"),
    "discrete_bc": Recipe("DiscreteBC", _OFFLINE, "offline", _DISCRETE),
    "bcq": Recipe("BCQ", _OFFLINE, "offline"),
    "discrete_bcq": Recipe("DiscreteBCQ", _OFFLINE, "offline", _DISCRETE),
    "bear": Recipe("BEAR", _OFFLINE, "offline"),
    "cql": Recipe("CQL", _OFFLINE, "offline"),
    "cal_ql": Recipe("CalQL", _OFFLINE, "offline"),
    "discrete_cql": Recipe("DiscreteCQL", _OFFLINE, "offline", _DISCRETE),
    "combo": Recipe("COMBO", _OFFLINE, "offline"),
    "iql": Recipe("IQL", _OFFLINE, "offline"),
    "discrete_iql": Recipe("DiscreteIQL", _OFFLINE, "offline", _DISCRETE),
    "awac": Recipe("AWAC", _OFFLINE, "offline"),
    "crr": Recipe("CRR", _OFFLINE, "offline"),
    "td3_plus_bc": Recipe("TD3PlusBC", _OFFLINE, "offline"),
    "rebrac": Recipe("ReBRAC", _OFFLINE, "offline"),
    "edac": Recipe("EDAC", _OFFLINE, "offline"),
    "plas": Recipe("PLAS", _OFFLINE, "offline"),
    "plas_with_perturbation": Recipe("PLASWithPerturbation", _OFFLINE, "offline"),
    "awr": Recipe("AWR", _OFFLINE, "offline"),
    "discrete_awr": Recipe("DiscreteAWR", _OFFLINE, "offline", _DISCRETE),
    "decision_transformer": Recipe("DecisionTransformer", _OFFLINE, "offline"),
    "discrete_decision_transformer": Recipe("DiscreteDecisionTransformer", _OFFLINE, "offline", _DISCRETE),
}


def action_kind(space: Any) -> str:
    """Return "discrete", "continuous" (a Box of one axis), "multi-discrete" or "multi-binary"; empty for other spaces.

    Args:
        space: Action space.
    """
    kind = space_kind(space)
    if kind == "box":
        return "continuous" if len(space.shape) == 1 else ""
    return {"discrete": kind, "multi_discrete": "multi-discrete", "multi_binary": "multi-binary"}.get(kind, "")


def check_actions(name: str, recipe: Recipe, space: Any) -> None:
    """Check that an agent takes the actions of an environment.

    Args:
        name: Name of the agent.
        recipe: Recipe of the agent.
        space: Action space. Spaces that no agent of the table takes are left to the builder.

    Raises:
        ValueError: If the agent takes other actions. The message names agents that fit and learn in the same way.
    """
    kind = action_kind(space)
    if not kind or kind in recipe.actions:
        return
    is_offline = recipe.runner == "offline"
    fitting = [key for key, each in AGENTS.items() if kind in each.actions and (each.runner == "offline") == is_offline]
    taken, text = f"{' or '.join(recipe.actions)} actions", " ".join(str(space).split())
    expected = f"an agent for {kind} actions: {', '.join(fitting)}" if fitting else f"an environment with {taken}"
    raise ValueError(f"agent is {name!r}, which takes {taken}, but the action space is {text}: expected {expected}")


def find_agent(name: str) -> tuple[str, Recipe]:
    """Return the name in the table and the recipe of an agent.

    Args:
        name: Name in the table, or name of the class, in any spelling: "sac", "SoftActorCritic", "td3+bc".

    Raises:
        ValueError: If there is no such agent. The message contains the most similar name.
        TypeError: If `name` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"agent is {name!r:.80} ({type(name).__name__}), expected a name such as 'dqn'")
    spellings = {_letters(key): key for key in AGENTS}
    spellings |= {_letters(recipe.class_name): key for key, recipe in reversed(AGENTS.items())} | spellings
    if _letters(name) in spellings:
        key = spellings[_letters(name)]
        return key, AGENTS[key]
    nearest = spellings[difflib.get_close_matches(_letters(name), spellings, n=1, cutoff=0.0)[0]]
    raise ValueError(f"agent is {name!r}, expected one of {', '.join(AGENTS)}; the nearest is {nearest!r}")


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower().replace("+", "plus"))
