"""What every public agent is made of, each declared once.

A new agent gets one `Entry` beside its kin: its class, its family, and what differs from the family. From it come the
pairs of parts, the arguments' effects, the same-seed courses, and every other test that goes through all agents.
A new family is a file here with functions that make its agents, and with the effects of its arguments.
"""

from typing import Any

from argument_effects import Arguments
from pair_base import MAKE_BUFFER, sgd
from torch import nn

from pfrl_like.utils import set_random_seed
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


def made(kind: Any, buffer: str = "", recurrent: bool = False, **given: Any) -> Any:
    """An agent of the first seed that learns within a few steps; a network that is given has an optimiser of its own.

    Args:
        kind: Its class or name.
        buffer: A name of `MAKE_BUFFER` if it is not the usual one.
        recurrent: Whether its networks are.
        given: Other arguments.
    """
    set_random_seed(0)
    if buffer:
        given["replay_buffer"] = MAKE_BUFFER[buffer](1_000)
    entry = REGISTRY[kind if isinstance(kind, str) else kind.__name__]
    arguments = entry.arguments(recurrent, **given) | ({"recurrent": True} if recurrent else {})
    for name, part in given.items():
        optimizer = f"{name}_optimizer" if f"{name}_optimizer" in arguments else "optimizer"
        if isinstance(part, nn.Module) and optimizer in arguments.keys() - given.keys():
            arguments[optimizer] = sgd(part)
    return entry.kind(**arguments)


def obs_size(kind: Any) -> int:
    """Length of the observations of that agent."""
    return REGISTRY[kind.__name__].family.obs_size
