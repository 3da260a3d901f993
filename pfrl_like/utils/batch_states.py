"""`batch_states`: one batch of the features of a list of observations."""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


class _CallableModule(ModuleType):
    """Lets `pfrl_like.utils.batch_states` be called, since PFRL's documents name the function by this path, too."""

    def __call__(self, states: Sequence[Any], device: torch.device | str, phi: Phi) -> Any:
        return batch_states(states, device, phi)


sys.modules[__name__].__class__ = _CallableModule
