"""The table of agents that `make` knows, by name."""

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pfrl_like.utils.env_values import space_kind
from pfrl_like.zoo import actor_critics, offline, on_policy, value_based
from pfrl_like.zoo.names import resolve
from pfrl_like.zoo.presets import GROUPS

#: Functions that compose the agents of a group, and runners that train them; "online" if the group is missing.
_BUILDERS: dict[str, Callable[..., Any]] = {
    "value_based": value_based.q_learning, "actor_critics": actor_critics.actor_critic,
    "on_policy": on_policy.on_policy, "asynchronous": on_policy.on_policy, "offline": offline.offline,
}  # fmt: skip
_RUNNERS = {"asynchronous": "async", "offline": "offline"}


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
    runner: str
    actions: tuple[str, ...]
    settings: dict[str, Any]

    def keywords(self) -> list[str]:
        """Return the names of all settings: those of the builder, then those of the agent's constructor."""
        own = [
            name
            for name, parameter in inspect.signature(self.build).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        return [*dict.fromkeys([*own, *inspect.signature(resolve(f"agents.{self.class_name}")).parameters])]


def _recipe(group: str, table: dict[str, Any]) -> Recipe:
    build = on_policy.acer if table["class"] == "ACER" else _BUILDERS[group]
    actions = tuple(table.get("actions", "continuous").split())
    return Recipe(table["class"], build, _RUNNERS.get(group, "online"), actions, table.get("settings", {}))


#: Keys are the names of agents in presets, on the command line and in file names.
AGENTS = {name: _recipe(group, table) for group, tables in GROUPS.items() for name, table in tables.items()}


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
