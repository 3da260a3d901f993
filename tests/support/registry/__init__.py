"""What every public agent is made of, each declared once.

A new agent gets one `Entry` beside its kin: its class, its family, and what differs from the family. From it come the
pairs of parts, the arguments' effects, the same-seed courses, and every other test that goes through all agents.
A new family is a file here with functions that make its agents, and with the effects of its arguments.
"""

from typing import Any

from argument_effects import Arguments

from registry import actor_critics, constrained, imitators, on_policy, value_agents
from registry.entry import Entry

#: The entries, by the name of the agent.
REGISTRY: dict[str, Entry] = {
    entry.name: entry
    for module in (value_agents, actor_critics, imitators, constrained, on_policy)
    for entry in module.ENTRIES
}
#: Those of agents that are tried with all their parts.
LEARNERS: dict[str, Entry] = {name: entry for name, entry in REGISTRY.items() if entry.parts}
#: The classes of all agents.
KINDS: tuple[Any, ...] = tuple(entry.kind for entry in REGISTRY.values())


def arguments_of(kind: Any, recurrent: bool = False, **given: Any) -> Arguments:
    """Arguments of an agent that learns within a few steps."""
    return REGISTRY[kind.__name__].arguments(recurrent, **given)


def obs_size(kind: Any) -> int:
    """Length of the observations of that agent."""
    return REGISTRY[kind.__name__].family.obs_size
