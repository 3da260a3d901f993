"""Observations that cross from worker to parent through shared memory instead of a pipe."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.envs.vector_values import Rows
from pfrl_like.processes.shared_arrays import Layout, SharedArrays
from pfrl_like.utils.spaces import space_kind


class Slot(int):
    """Stands in a message for the array that lies in the shared array of this number."""


class SharedObservations:
    """A place in shared memory for the latest observation of each environment.

    An array whose shape and dtype are those of its space goes there and a `Slot` takes its place in the message; all
    else travels in the message itself, so that every observation arrives as it was.

    Args:
        space: Observation space of one environment, made of any nesting of dicts, tuples and array spaces.
        num_envs: Number of environments.
        name: Name of the memory to attach to; None makes it.

    Attributes:
        name: Name of the memory; empty if the space has no arrays, and there is none.

    Raises:
        OSError: If there is not enough shared memory.
    """

    def __init__(self, space: Any, num_envs: int, name: str | None = None) -> None:
        leaves: list[tuple[tuple[int, ...], str]] = []
        self._tree = _tree(space, leaves)
        layout: Layout = tuple(((num_envs, *shape), dtype) for shape, dtype in leaves)
        self._memory: SharedArrays | None = None
        if layout:
            self._memory = SharedArrays(layout) if name is None else SharedArrays.attach(name, layout)
        self.name = self._memory.name if self._memory else ""

    @property
    def arrays(self) -> Sequence[NDArray[Any]]:
        """The shared arrays, each of shape [num_envs, ...]."""
        return self._memory.arrays if self._memory else ()

    def put(self, index: int, obs: Any) -> Any:
        """Store the observation of environment `index`; returns the message that stands for it."""
        message = self._put(self._tree, index, obs)
        if self._tree == 0:  # one array, the usual case: no class in the message, which takes long to pickle
            return 0 if type(message) is Slot else (obs,)
        return message

    def message(self, obs: Any) -> Any:
        """The message that holds an observation itself."""
        return (obs,) if self._tree == 0 else obs

    def get(self, messages: Sequence[Any]) -> tuple[Any, ...]:
        """The observations of all environments, as fresh arrays, from the message of each."""
        if self._tree == 0:
            if all(type(message) is int for message in messages):
                return Rows.of(self.arrays[0].copy())
            messages = [Slot(0) if type(message) is int else message and message[0] for message in messages]
        return tuple(self._get(self._tree, index, message) for index, message in enumerate(messages))

    def unlink(self) -> None:
        """Remove the name of the memory, once all have attached."""
        if self._memory is not None:
            self._memory.unlink()

    def close(self) -> None:
        """Let go of the memory."""
        if self._memory is not None:
            self._memory.close()

    def _put(self, tree: Any, index: int, obs: Any) -> Any:
        if isinstance(tree, int):
            place = self.arrays[tree]
            if type(obs) is np.ndarray and obs.dtype == place.dtype and obs.shape == place.shape[1:]:
                place[index] = obs
                return Slot(tree)
        elif isinstance(tree, dict):
            if type(obs) in (dict, OrderedDict) and obs.keys() == tree.keys():
                return type(obs)((key, self._put(tree[key], index, item)) for key, item in obs.items())
        elif isinstance(tree, tuple) and type(obs) is tuple and len(obs) == len(tree):
            return tuple(self._put(part, index, item) for part, item in zip(tree, obs, strict=True))
        return obs

    def _get(self, tree: Any, index: int, message: Any) -> Any:
        if type(message) is Slot:
            return self.arrays[message][index].copy()
        if isinstance(tree, dict) and type(message) in (dict, OrderedDict) and message.keys() == tree.keys():
            return type(message)((key, self._get(tree[key], index, item)) for key, item in message.items())
        if isinstance(tree, tuple) and type(message) is tuple and len(message) == len(tree):
            return tuple(self._get(part, index, item) for part, item in zip(tree, message, strict=True))
        return message


def _tree(space: Any, leaves: list[tuple[tuple[int, ...], str]]) -> Any:
    """The space's nesting with the number of a shared array at each array space and None at others; adds to leaves."""
    kind = space_kind(space)
    if kind == "dict":
        return {key: _tree(part, leaves) for key, part in space.spaces.items()}
    if kind == "tuple":
        return tuple(_tree(part, leaves) for part in space.spaces)
    if kind in ("box", "multi_discrete", "multi_binary") and not np.dtype(space.dtype).hasobject:
        leaves.append((tuple(space.shape), np.dtype(space.dtype).str))
        return len(leaves) - 1
    return None
