"""From observations to what a network takes in: `batch_states` for a list, `FeatureExtractor` for an agent."""

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import map_nested
from pfrl_like.utils.isolated_rng import isolated_rng

Phi = Callable[[Any], Any]


def batch_states(states: Sequence[Any], device: torch.device | str, phi: Phi) -> Any:
    """Apply a feature extractor to each observation and make one batch of the results.

    Args:
        states: Observations: numbers, arrays, tensors, or nested dicts and tuples of such, all of one form.
        device: Where the batch goes.
        phi: Feature extractor of one observation.

    Returns:
        Tensors [k, ...] of the features' own dtype, nested like one feature.

    Raises:
        ValueError: If there are no observations or their shapes differ.
        TypeError: If a feature is nothing that a tensor can be made of.
    """
    if len(states) == 0:
        raise ValueError("states is empty, expected at least one observation")
    return _collate([phi(state) for state in states], device)


def _collate(features: list[Any], device: torch.device | str) -> Any:
    first = features[0]
    if isinstance(first, Mapping):
        return {key: _collate([feature[key] for feature in features], device) for key in first}
    if isinstance(first, tuple):
        return tuple(_collate([feature[i] for feature in features], device) for i in range(len(first)))
    try:
        if isinstance(first, Tensor):
            return torch.stack(features).to(device)
        tensor = torch.from_numpy(np.array(features))
    except (ValueError, TypeError, RuntimeError) as error:
        raise _cannot_collate(features) from error
    return tensor if device == _CPU else tensor.to(device)


_CPU = torch.device("cpu")


def _cannot_collate(features: list[Any]) -> Exception:
    shapes = sorted({str(np.shape(feature)) for feature in features if isinstance(feature, np.ndarray | Tensor)})
    if len(shapes) > 1:
        return ValueError(f"states must have one shape, got {', '.join(shapes)}")
    return TypeError(
        f"states gave features of type {type(features[0]).__name__} that cannot be made into a tensor: "
        "expected numbers, arrays, tensors or nested dicts and tuples of such; `phi` can convert them"
    )


class FeatureExtractor:
    """Gives an agent the network's input, from single observations as from whole minibatches.

    A `phi` is written for one observation. It is applied to a whole stack at once only after a trial has shown that
    this makes no difference: on a stack with at least two different rows it gave the same values, dtype and shape
    twice row by row and once on the whole. The trial is made once, on a copy of `phi` if it is an object with a state,
    and draws no random number from the run.

    Args:
        phi: Feature extractor of one observation; None for the observation itself.
        batch_states_function: Called as (list of observations, device, phi). One of the user's own always gets the
            list, because nothing is known about it.
    """

    def __init__(self, phi: Phi | None = None, batch_states_function: Callable[..., Any] = batch_states) -> None:
        self.phi: Phi = identity if phi is None else phi
        self.batch_states = getattr(batch_states_function, "batch_states", batch_states_function)
        self._uses_stacks = self.batch_states is batch_states
        #: Whether features are the observations as they are, so that minibatches need no work.
        self.is_identity = self._uses_stacks and _does_nothing(self.phi)
        self._on_stack: bool | None = self.is_identity if self.is_identity or not self._uses_stacks else None

    def __call__(self, obs: Any, device: torch.device | str) -> Any:
        """Features of the observations that an agent has to act on.

        Args:
            obs: List or tuple of k observations, or their stack: an array or tensor [k, ...], or a dict of such.
            device: Where the features go.

        Returns:
            Tensors [k, ...], nested like one feature.
        """
        if isinstance(obs, list | tuple):
            return self.batch_states(obs, device, self.phi)
        return self._of_stack(map_nested(np.array, obs), device)

    def on_batch(self, obs: Any, device: torch.device | str) -> Any:
        """Features of a field of a `Batch`.

        Args:
            obs: Tensors (or arrays of objects) [N, ...], nested like one observation. Unless `is_identity`, they are
                best left on the host, which is where `phi` works.
            device: Where the features go.
        """
        if self.is_identity:
            return map_nested(lambda leaf: leaf.to(device), obs)
        return self._of_stack(map_nested(_as_array, obs), device)

    def _of_stack(self, stack: Any, device: torch.device | str) -> Any:
        if self._on_stack is None and _rows_differ(stack):
            self._on_stack = _agrees_on_stack(self.phi, stack)
        if self._on_stack:
            return map_nested(lambda leaf: torch.as_tensor(leaf).to(device), self.phi(stack))
        return self.batch_states(_rows(stack), device, self.phi)


def identity(obs: Any) -> Any:
    """The feature extractor that does nothing."""
    return obs


def _does_nothing(phi: Phi) -> bool:
    """Whether `phi` is written as `lambda x: x`, under whatever names."""
    code, own = getattr(phi, "__code__", None), identity.__code__
    return code is not None and (code.co_code, code.co_argcount) == (own.co_code, own.co_argcount)


def _agrees_on_stack(phi: Phi, stack: Any) -> bool:
    """Whether `phi` gives for a stack what it gives twice for each row; tried on copies, without a trace."""
    with isolated_rng():
        try:
            phi = copy.deepcopy(phi)  # an object may count its calls or keep running means
            at_once = _fingerprint(map_nested(torch.as_tensor, phi(_copy(stack))))
        except Exception:  # whatever a function of one observation does when given many
            return False
        first, second = (_fingerprint(_collate([phi(row) for row in _rows(_copy(stack))], _CPU)) for _ in range(2))
        return bool(first == second == at_once)


def _rows_differ(stack: Any) -> bool:
    first, *others = map(_fingerprint, _rows(stack))
    return any(other != first for other in others)


def _fingerprint(nested: Any) -> Any:
    """The same nesting with dtype, shape and bytes of each leaf, to be compared."""

    def of_leaf(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.dtype.str, array.shape, array.tolist() if array.dtype == object else array.tobytes()

    return map_nested(of_leaf, nested)


def _copy(nested: Any) -> Any:
    return map_nested(np.array, nested)


def _rows(stack: Any) -> list[Any]:
    return [_row(stack, i) for i in range(len(_first_leaf(stack)))]


def _row(stack: Any, i: int) -> Any:
    return map_nested(lambda leaf: leaf[i], stack)


def _as_array(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)


def _first_leaf(nested: Any) -> Any:
    while isinstance(nested, Mapping | tuple):
        nested = next(iter(nested.values())) if isinstance(nested, Mapping) else nested[0]
    return nested


class _CallableModule(ModuleType):
    """Lets `pfrl_like.utils.batch_states` be called, since PFRL's documents name the function by this path, too."""

    def __call__(self, states: Sequence[Any], device: torch.device | str, phi: Phi) -> Any:
        return batch_states(states, device, phi)


sys.modules[__name__].__class__ = _CallableModule
