"""Modes of distributions. Deterministic policies select them as actions."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, TransformedDistribution


def mode_of_distribution(distrib: Any) -> Tensor:
    """Return the mode of a distribution. For a transformed distribution, this is the transformed mode of its base.

    Args:
        distrib: A `torch.distributions.Distribution`, or another object with a `mode`.

    Returns:
        Mode, [*batch_shape, *event_shape].

    Raises:
        TypeError: If `distrib` is not a distribution.
        RuntimeError: If no mode is defined for the distribution.
    """
    if isinstance(distrib, Independent) and type(distrib).mode is Independent.mode:
        return mode_of_distribution(distrib.base_dist)
    if isinstance(distrib, TransformedDistribution):
        value = mode_of_distribution(distrib.base_dist)
        for transform in distrib.transforms:
            value = transform(value)
        return value
    try:
        mode = distrib.mode
    except NotImplementedError as error:
        raise RuntimeError(f"{type(distrib).__name__} has no known mode: define a property `mode`") from error
    except AttributeError as error:
        raise TypeError(f"distrib is {type(distrib).__name__}, expected a distribution") from error
    if not torch.is_tensor(mode):
        raise TypeError(f"mode of {type(distrib).__name__} is {type(mode).__name__}, expected a tensor")
    return mode
