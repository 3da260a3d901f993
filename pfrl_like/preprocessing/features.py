"""`FeatureExtractor`: the network's input, from lists of observations or from whole minibatches."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import first_leaf, map_nested
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.batch_states import Phi, batch_states


class FeatureExtractor:
    """Computes the network's input, from single observations and from whole minibatches.

    A `phi` is written for one observation. It is applied to a whole stack only after a trial has shown that this makes
    no difference. In the trial, `phi` is applied twice row by row and once to the whole stack, which has at least two
    different rows; values, dtype and shape have to be equal. The trial is repeated on more rows, made from these with
    different sizes and signs, so that functions of the whole stack are detected. It is made once, on a copy of `phi` if
    that is an object with state, and advances no random stream of the run.

    Args:
        phi: Feature extractor of one observation; None for the observation itself.
        batch_states_function: Called as (list of observations, device, phi). A function of the user's always gets the
            list, because nothing is known about it.
    """

    def __init__(self, phi: Phi | None = None, batch_states_function: Callable[..., Any] = batch_states) -> None:
        self.phi: Phi = identity if phi is None else phi
        self.batch_states = getattr(batch_states_function, "batch_states", batch_states_function)
        self._uses_stacks = self.batch_states is batch_states
        #: True if features are the observations themselves, so that minibatches need no work.
        self.is_identity = self._uses_stacks and _does_nothing(self.phi)
        self._on_stack: bool | None = self.is_identity if self.is_identity or not self._uses_stacks else None

    def __call__(self, obs: Any, device: torch.device | str) -> Any:
        """Return features of the observations that an agent has to act on.

        Args:
            obs: List or tuple of k observations, or their stack: an array or tensor [k, ...], or a dict of these.
            device: Device of the features.

        Returns:
            Tensors [k, ...], nested like one feature.
        """
        if isinstance(obs, list | tuple):
            return self.batch_states(obs, device, self.phi)
        return self._of_stack(_copy(obs), device)

    def on_batch(self, obs: Any, device: torch.device | str) -> Any:
        """Return features of a field of a `Batch`.

        Args:
            obs: Tensors [N, ...] (lists or arrays where they are objects), nested like one observation. Unless
                `is_identity`, leave them on the CPU, where `phi` is applied.
            device: Device of the features.
        """
        if self.is_identity:
            return map_nested(lambda leaf: leaf.to(device), obs)
        return self._of_stack(_as_arrays(obs), device)

    def _of_stack(self, stack: Any, device: torch.device | str) -> Any:
        if self._on_stack is None and not _holds_objects(stack) and _rows_differ(stack):
            self._on_stack = _agrees_on_stack(self.phi, stack)
        if self._on_stack:
            return map_nested(lambda leaf: torch.as_tensor(leaf).to(device), self.phi(stack))
        return self.batch_states(rows_of_stack(stack), device, self.phi)


def identity(obs: Any) -> Any:
    """Return the observation unchanged."""
    return obs


def _does_nothing(phi: Phi) -> bool:
    """Return True if `phi` has the code of `lambda x: x`, whatever its names."""
    code, own = getattr(phi, "__code__", None), identity.__code__
    return code is not None and (code.co_code, code.co_argcount) == (own.co_code, own.co_argcount)


def _agrees_on_stack(phi: Phi, stack: Any) -> bool:
    """Return True if `phi` gives the same for stacks as for each row; tried on copies, without side effects."""
    with isolated_rng(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):
            phi = copy.deepcopy(phi)  # an object may count its calls or have running means
            return _agrees(phi, stack) is True and all(
                _agrees(phi, other) is not False for other in varied_stacks(stack)
            )
        return False


def _agrees(phi: Phi, stack: Any) -> bool | None:
    """Make the comparison for one stack; return None if `phi` rejects one of its rows."""
    try:
        first, second = (
            fingerprint(batch_states(rows_of_stack(_copy(stack)), torch.device("cpu"), phi)) for _ in range(2)
        )
    except Exception:  # whatever a user's function does
        return None
    try:
        return bool(first == second == fingerprint(map_nested(torch.as_tensor, phi(_copy(stack)))))
    except Exception:
        return False


def varied_stacks(stack: Any) -> Iterator[Any]:
    """Yield stacks of more rows, in another order, with different scales and offsets.

    The numbers of the first stack lie within the range of the given ones, which a `phi` may require; those of the
    second do not.
    """

    def vary(function: Callable[[Any, Any], Any]) -> Any:
        def varied(leaf: Any) -> Any:
            leaf = np.asarray(leaf)
            n_rows = 2 * len(leaf) + 1
            rows = leaf[np.arange(n_rows)[::-1] % len(leaf)]
            i = np.arange(n_rows).reshape(-1, *[1] * (leaf.ndim - 1))
            return rows if leaf.dtype.kind not in "biuf" else function(rows, i).astype(leaf.dtype)

        return map_nested(varied, stack)

    yield vary(_shrunk)
    yield vary(_far_apart)


def _shrunk(rows: Any, i: Any) -> Any:
    """Move rows towards the least number, each by another fraction of the distance."""
    return rows & (i % 2 == 0) if rows.dtype == bool else rows.min() + (rows - rows.min()) * ((i + 1) / len(rows))


def _far_apart(rows: Any, i: Any) -> Any:
    """Scale rows to both signs and to sizes from 1e-3 to 1e3; integers wrap around, so that they stay in range."""
    if rows.dtype.kind == "f":
        return rows * (10.0 ** (i % 7 - 3) * (-1) ** i) + i
    return rows ^ (i % 2 == 0) if rows.dtype == bool else rows + i.astype(rows.dtype)


def _rows_differ(stack: Any) -> bool:
    first, *others = map(fingerprint, rows_of_stack(stack))
    return any(other != first for other in others)


def fingerprint(nested: Any) -> Any:
    """Return dtype, shape and bytes of each leaf in the same nesting, for comparisons."""

    def of_leaf(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.dtype.str, array.shape, array.tolist() if array.dtype == object else array.tobytes()

    return map_nested(of_leaf, nested)


def _copy(nested: Any) -> Any:
    return map_nested(lambda leaf: np.array(leaf.numpy(force=True) if isinstance(leaf, Tensor) else leaf), nested)


def rows_of_stack(stack: Any) -> list[Any]:
    """Return the single observations of a stack."""
    return [_row(stack, i) for i in range(len(first_leaf(stack)))]


def _row(stack: Any, i: int) -> Any:
    return map_nested(lambda leaf: leaf[i], stack)


def _as_arrays(stack: Any) -> Any:
    """Convert tensors to arrays, and lists, which hold objects, to object arrays."""
    if isinstance(stack, Mapping):
        return {key: _as_arrays(part) for key, part in stack.items()}
    if isinstance(stack, tuple):
        return tuple(_as_arrays(part) for part in stack)
    if isinstance(stack, list):
        objects = np.empty(len(stack), object)
        for i, value in enumerate(stack):
            objects[i] = value  # NumPy would convert the values' contents if all were assigned at once
        return objects
    return stack.detach().cpu().numpy() if isinstance(stack, Tensor) else np.asarray(stack)


def _holds_objects(stack: Any) -> bool:
    """Return True if a part is not a stack of numbers, so that `phi` can only be applied row by row."""
    if isinstance(stack, Mapping | tuple):
        return any(map(_holds_objects, stack.values() if isinstance(stack, Mapping) else stack))
    return bool(np.asarray(stack).dtype == object)
