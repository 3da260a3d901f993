"""`FeatureExtractor` computes the network's input from lists of observations or from whole minibatches."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from pfrl_like.batch import first_leaf, map_nested
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.batch_states import Phi, batch_states


class FeatureExtractor:
    """Computes the network's input from single observations and from whole minibatches.

    The user's `phi` takes one observation. A single call with a whole stack of observations is faster.
    `FeatureExtractor` makes this call if a test has shown that the results are the same. The test calls `phi` twice
    with each row of a stack, and once with the whole stack. Values, dtype and shape of the results must be equal. The
    test is repeated with more rows of different scales and signs, because the result of `phi` for a row may depend on
    the other rows. The test runs only once, with the first stack that has at least two different rows. It restores the
    random streams, and uses a copy of `phi`, because `phi` may be an object with state.

    Args:
        phi: Function that converts one observation to features. If None, the features are the observation.
        batch_states_function: Function that converts a list of observations to a batch, called as (list of
            observations, device, phi). If this is not `pfrl_like.utils.batch_states.batch_states`, `phi` is never
            called with a stack.
    """

    def __init__(self, phi: Phi | None = None, batch_states_function: Callable[..., Any] = batch_states) -> None:
        self.phi: Phi = identity if phi is None else phi
        self.batch_states = getattr(batch_states_function, "batch_states", batch_states_function)
        self._uses_stacks = self.batch_states is batch_states
        #: True if the features equal the observations, so that minibatches are only moved to the device.
        self.is_identity = self._uses_stacks and _is_identity_function(self.phi)
        self._on_stack: bool | None = self.is_identity if self.is_identity or not self._uses_stacks else None

    def __call__(self, obs: Any, device: torch.device | str) -> Any:
        """Return the features of observations, when an agent selects actions for them.

        Args:
            obs: List or tuple of k observations, or a stack of k observations: an array or tensor [k, ...], or a dict
                of arrays or tensors.
            device: Device of the features.

        Returns:
            Tensors [k, ...], nested like the result of `phi` for one observation.
        """
        if isinstance(obs, list | tuple):
            return self.batch_states(obs, device, self.phi)
        return self._of_stack(_copy(obs), device)

    def on_batch(self, obs: Any, device: torch.device | str) -> Any:
        """Return the features of the observations in a `Batch`.

        Args:
            obs: Tensors [N, ...], nested like one observation. If a leaf of an observation is an object, a list or
                object array takes the place of the tensor. If `is_identity` is False, the tensors should be on the CPU,
                because `phi` is called on the CPU.
            device: Device of the features.
        """
        if self.is_identity:
            return map_nested(lambda leaf: leaf.to(device), obs)
        return self._of_stack(_as_arrays(obs), device)

    def _of_stack(self, stack: Any, device: torch.device | str) -> Any:
        if self._on_stack is None and not any(map(_is_object, tree_leaves(stack))) and _rows_differ(stack):
            self._on_stack = _agrees_on_stack(self.phi, stack)
        if self._on_stack:
            return map_nested(lambda leaf: torch.as_tensor(leaf).to(device), self.phi(stack))
        return self.batch_states(rows_of_stack(stack), device, self.phi)


def identity(obs: Any) -> Any:
    """Return the observation unchanged."""
    return obs


def _is_identity_function(phi: Phi) -> bool:
    """Return True if `phi` has the bytecode of `lambda x: x`."""
    code, identity_code = getattr(phi, "__code__", None), identity.__code__
    return code is not None and (code.co_code, code.co_argcount) == (identity_code.co_code, identity_code.co_argcount)


def _agrees_on_stack(phi: Phi, stack: Any) -> bool:
    """Return True if a copy of `phi` returns equal results for the rows of a stack and for the whole stack.

    Variants of the stack are also tested.
    """
    with isolated_rng(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):
            phi = copy.deepcopy(phi)  # `phi` may be an object with state
            agrees = (_agrees(phi, other) is not False for other in varied_stacks(stack))
            return _agrees(phi, stack) is True and all(agrees)
        return False


def _agrees(phi: Phi, stack: Any) -> bool | None:
    """Return True if the results for the stack and for its rows are equal; None if `phi` raises an error for a row."""
    try:
        batches = (batch_states(rows_of_stack(_copy(stack)), torch.device("cpu"), phi) for _ in range(2))
        first, second = map(fingerprint, batches)
    except Exception:  # a user's function may raise any error
        return None
    try:
        return bool(first == second == fingerprint(map_nested(torch.as_tensor, phi(_copy(stack)))))
    except Exception:
        return False


def varied_stacks(stack: Any) -> Iterator[Any]:
    """Yield two variants of a stack, with more rows, in another order, with changed values.

    The first variant has values within the range of `stack`, because `phi` may require this range. The second variant
    has rows of different scales and signs.
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
    yield vary(_rescaled)


def _shrunk(rows: Any, i: Any) -> Any:
    """Reduce the differences between the rows and their common minimum, by a different factor for each row."""
    return rows & (i % 2 == 0) if rows.dtype == bool else rows.min() + (rows - rows.min()) * ((i + 1) / len(rows))


def _rescaled(rows: Any, i: Any) -> Any:
    """Multiply float rows by factors from 1e-3 to 1e3 with both signs. Add different integers to integer rows."""
    if rows.dtype.kind == "f":
        return rows * (10.0 ** (i % 7 - 3) * (-1) ** i) + i
    return rows ^ (i % 2 == 0) if rows.dtype == bool else rows + i.astype(rows.dtype)


def _rows_differ(stack: Any) -> bool:
    first, *others = map(fingerprint, rows_of_stack(stack))
    return any(other != first for other in others)


def fingerprint(nested: Any) -> Any:
    """Return a tuple of dtype, shape and bytes for each array or tensor in `nested`, nested in the same way."""

    def of_leaf(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.dtype.str, array.shape, array.tolist() if array.dtype == object else array.tobytes()

    return map_nested(of_leaf, nested)


def _copy(nested: Any) -> Any:
    """Return copies of nested arrays and tensors as arrays."""
    return map_nested(lambda leaf: np.array(leaf.numpy(force=True) if isinstance(leaf, Tensor) else leaf), nested)


def rows_of_stack(stack: Any) -> list[Any]:
    """Return a list of the observations in a stack."""
    return [_row(stack, i) for i in range(len(first_leaf(stack)))]


def _row(stack: Any, i: int) -> Any:
    return map_nested(lambda leaf: leaf[i], stack)


def _as_arrays(stack: Any) -> Any:
    """Convert tensors to arrays, and lists of objects to object arrays."""
    if isinstance(stack, Mapping):
        return {key: _as_arrays(part) for key, part in stack.items()}
    if isinstance(stack, tuple):
        return tuple(_as_arrays(part) for part in stack)
    if isinstance(stack, list):
        objects = np.empty(len(stack), object)
        for i, value in enumerate(stack):
            objects[i] = value  # np.array(stack) would convert the values
        return objects
    return stack.detach().cpu().numpy() if isinstance(stack, Tensor) else np.asarray(stack)


def _is_object(leaf: Any) -> bool:
    """Return True if a leaf of a stack does not contain numbers. `phi` must then be called with single rows."""
    return bool(np.asarray(leaf).dtype == object)
