"""What kind of space an object is, whichever library made it (gym, gymnasium or a user)."""

import sys
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

SpaceKind = Literal["box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple", "other"]

_KIND_OF_NAME: dict[str, SpaceKind] = {
    "Box": "box",
    "Discrete": "discrete",
    "MultiDiscrete": "multi_discrete",
    "MultiBinary": "multi_binary",
    "Dict": "dict",
    "Tuple": "tuple",
    "OneOf": "other",
}
_KIND_OF_TYPE: dict[type, SpaceKind] = {}


def space_kind(space: Any) -> SpaceKind:
    """Tell the kind of a space by the names of its classes, else by its attributes.

    A space of gym is no instance of gymnasium's class of the same name, so `isinstance` cannot tell.

    Args:
        space: A space of gym or gymnasium, or an object with the same attributes.

    Returns:
        "box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple", or "other", as of a mock, which has every
        attribute and none that says anything.
    """
    kind = _KIND_OF_TYPE.get(type(space))
    if kind is None:
        kind = _KIND_OF_TYPE[type(space)] = _find_kind(space)
    return kind


def _find_kind(space: Any) -> SpaceKind:
    for base in type(space).__mro__:
        if base.__name__ in _KIND_OF_NAME:
            return _KIND_OF_NAME[base.__name__]
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping | tuple | list):
        return "dict" if isinstance(parts, Mapping) else "tuple"
    if _has_numbers(space, "nvec"):
        return "multi_discrete"
    if _has_numbers(space, "low", "high"):
        return "box"
    if _has_numbers(space, "n"):
        return "multi_binary" if getattr(space, "shape", ()) else "discrete"
    return "other"


def _has_numbers(space: Any, *names: str) -> bool:
    return all(np.asarray(getattr(space, name, None)).dtype.kind in "biuf" for name in names)


def box_class(space: Any) -> Any:
    """The class `Box` of the library that made a space; gymnasium's for a space of neither library."""
    library = type(space).__module__.partition(".")[0]
    if library == "gym":
        return sys.modules["gym.spaces"].Box
    from gymnasium.spaces import Box

    return Box


def action_size_of(space: Any) -> int:
    """Numbers of an action or, if actions are discrete, how many there are.

    Raises:
        ValueError: If they are neither discrete nor vectors.
    """
    kind = space_kind(space)
    if kind == "discrete":
        return int(space.n)
    if kind != "box" or len(space.shape) != 1:
        raise ValueError(f"the action space is {space}, expected Discrete or a Box of one axis")
    return int(space.shape[0])
