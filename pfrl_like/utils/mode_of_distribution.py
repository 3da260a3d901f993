"""What a policy does when it does not draw lots."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, TransformedDistribution


def mode_of_distribution(distrib: Any) -> Tensor:
    """Likeliest value of a distribution; of a transformed one what the likeliest value before becomes.

    Args:
        distrib: A `torch.distributions.Distribution`, or whatever else has a `mode`.

    Returns:
        [*batch_shape, *event_shape].

    Raises:
        TypeError: If it is no distribution.
        RuntimeError: If its mode is not known.
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
        raise RuntimeError(f"{type(distrib).__name__} has no mode that is known; give it a property `mode`") from error
    except AttributeError as error:
        raise TypeError(f"distrib is a {type(distrib).__name__}, expected a distribution") from error
    if not torch.is_tensor(mode):
        raise TypeError(f"mode of {type(distrib).__name__} is a {type(mode).__name__}, expected a tensor")
    return mode
