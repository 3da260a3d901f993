"""The tensors within a state, which go into a file of their own beside its JSON."""

from collections.abc import Mapping
from typing import Any

import torch

from pfrl_like.errors import CheckpointError

#: Key of the file.
STATE_TENSORS = "state-tensors.pt"  # no attribute can have this name
#: One more level than JSON may have, which refuses what is nested more deeply.
_MAX_DEPTH = 33


def split_state(state: Any) -> tuple[Any, list[Any]]:
    """A state with None in place of its tensors, and [path, tensor] of each; a path is made of keys and positions."""
    tensors: list[Any] = []
    return _without(state, [], tensors), tensors


def _without(value: Any, path: list[Any], tensors: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append([path, value])
        return None
    if len(path) <= _MAX_DEPTH and isinstance(value, Mapping):
        return {key: _without(part, [*path, key], tensors) for key, part in value.items()}
    if len(path) <= _MAX_DEPTH and isinstance(value, list | tuple):
        return [_without(part, [*path, i], tensors) for i, part in enumerate(value)]
    return value


def join_state(state: dict[str, Any], tensors: Any, source: str) -> None:
    """Put the tensors that `split_state` gave where they were.

    Args:
        state: JSON; changed.
        tensors: What a file told of them.
        source: The file, for the error.

    Raises:
        CheckpointError: If one of them has no place there.
    """
    try:
        for path, tensor in tensors:
            *inner, last = path
            owner: Any = state
            for step in inner:
                owner = owner[step]
            if owner[last] is not None or not isinstance(tensor, torch.Tensor):
                raise ValueError(f"there is no tensor at {path}")
            owner[last] = tensor
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise CheckpointError(source, f"does not fit the state beside it: {error!r:.200}") from error
