"""Parts that users choose by name: each has a type, parameters, and a description that JSON can hold."""

import copy
import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np


class Described(ABC):
    """What is rebuilt from the name of its type and its constructor's arguments."""

    type_name: ClassVar[str]

    def get_type(self) -> str:
        """Name of the type, by which a user chooses it."""
        return self.type_name

    @abstractmethod
    def _params(self) -> dict[str, Any]:
        """The constructor's arguments that make an equal object."""

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The constructor's arguments that make an equal object, by name.

        Args:
            deep: Whether the values are copies.
        """
        params = self._params()
        return copy.deepcopy(params) if deep else params

    def describe(self) -> dict[str, Any]:
        """Type and parameters as values that JSON has, from which `build` makes an equal object."""
        return {"type": self.get_type(), "params": {name: _plain(value) for name, value in self.get_params().items()}}

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"


_Part = TypeVar("_Part", bound=Described)


def build(what: str, value: Any, types: Mapping[str, type[_Part]], base: type[Any]) -> _Part:
    """The part that a user has chosen.

    Args:
        what: What is chosen, for messages, for instance "scaler".
        value: The name of a type, for its defaults; what `describe` gave; or the part itself.
        types: The types by name.
        base: What every such part is an instance of, whoever wrote it.

    Raises:
        ValueError: On an unknown name, telling the nearest, or a description of another form.
        TypeError: If the value is none of these, or a parameter is unknown to the type.
    """
    if isinstance(value, str):
        return _look_up(what, value, types)()
    if isinstance(value, Mapping):
        if value.keys() != {"type", "params"} or not isinstance(value["type"], str):
            raise ValueError(f"{what} is {dict(value)!r:.200}, expected a dict of its 'type' and its 'params'")
        return _look_up(what, value["type"], types)(**value["params"])
    if not isinstance(value, base):
        expected = f"{_listed(types)}, or an object of type {base.__name__}"
        raise TypeError(f"{what} is {value!r:.200} ({type(value).__name__}), expected {expected}")
    part: _Part = value
    return part


def _look_up(what: str, name: str, types: Mapping[str, type[_Part]]) -> type[_Part]:
    if name not in types:
        nearest = difflib.get_close_matches(name, types, n=1, cutoff=0.0)[0]
        raise ValueError(f"{what} is {name!r}, expected {_listed(types)}; the nearest is {nearest!r}")
    return types[name]


def _listed(names: Iterable[str]) -> str:
    return "one of " + ", ".join(map(repr, names))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
