"""The replay buffers of a run, wherever its agent or its source holds them."""

import re
from typing import Any, NamedTuple

from pfrl_like.dataset import MDPDataset
from pfrl_like.random_streams.reachable import Reachable
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers.memory import Memory

_NOT_OF_FILES = re.compile(r"[^A-Za-z0-9_.-]+")


class Found(NamedTuple):
    """What can be reached from an agent or a source.

    Attributes:
        buffers: The replay buffers, by names that a folder may have. One that an owner holds itself has the name that
            it has there, another one that of the attributes on the way to it.
        unsaved: Why what has been stored cannot be saved: it is in something like a replay buffer, which is none.
    """

    buffers: dict[str, AbstractReplayBuffer]
    unsaved: list[str]


def find_buffers(*owners: Any) -> Found:
    """Look for everything that an agent or a source may have stored something in."""
    found = Found({}, [])
    for name, value in _reached(owners).items():
        if isinstance(value, AbstractReplayBuffer):
            found.buffers[name] = value
        else:
            found.unsaved.append(
                f"{name} is a {type(value).__name__}, which is no AbstractReplayBuffer, so that what it holds is not "
                "saved"
            )
    return found


def buffers_of(*owners: Any) -> dict[str, AbstractReplayBuffer]:
    """The replay buffers among it."""
    return find_buffers(*owners).buffers


def _reached(owners: tuple[Any, ...]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for owner in owners:  # first, so that no way round gives them another name
        for name, value in getattr(owner, "__dict__", {}).items():
            if _is_like_a_buffer(value) and all(value is not other for other in named.values()):
                named[_free(name, named)] = value
    known, reached = [*named.values()], Reachable(_is_like_a_buffer)
    for owner in owners:
        reached.visit(owner, "")
    for path, value in reached.found.items():
        if all(value is not other for other in known):
            named[_free(_NOT_OF_FILES.sub("-", path).strip(".-"), named)] = value
    return named


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, or one that tells it from those taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _is_like_a_buffer(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, AbstractReplayBuffer):
        return True
    return not isinstance(value, MDPDataset | Memory) and hasattr(kind, "append") and hasattr(kind, "sample")
