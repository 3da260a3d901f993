"""Observations to export with: those that are given, drawn from a space, or seen by the agent; and more like them."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, first_leaf, map_nested
from pfrl_like.errors import ExportError
from pfrl_like.preprocessing.features import identity
from pfrl_like.utils.batch_states import batch_states

#: At most so many are looked at.
MOST = 256
#: With fewer, numbers are also moved a little.
_FEW = 8


def stack_of(example_obs: Any) -> Any:
    """Observations as tensors [k, ...], nested as one observation is.

    Args:
        example_obs: A space, a list or tuple of observations, or their stack: an array [k, ...] or a dict of such.

    Raises:
        ExportError: If there are none.
        ValueError: If their shapes differ.
        TypeError: If they are nothing that tensors can be made of.
    """
    if hasattr(example_obs, "sample") and not isinstance(example_obs, Tensor):
        space = copy.deepcopy(example_obs)  # so that its stream stays where it is
        example_obs = [space.sample() for _ in range(MOST)]
    if isinstance(example_obs, Mapping):
        return map_nested(lambda leaf: torch.as_tensor(np.asarray(leaf))[:MOST], example_obs)
    if len(example_obs) == 0:
        raise ExportError("example_obs is empty, expected at least one observation")
    return map_nested(lambda leaf: leaf.cpu(), batch_states(list(example_obs[:MOST]), "cpu", identity))


def more_of(stack: Any, n: int, generator: torch.Generator) -> Any:
    """As many observations, nested alike: those of a stack, and after them others between any two of these.

    Args:
        stack: Tensors [k, ...].
        n: How many.
        generator: Draws.
    """
    k = len(first_leaf(stack))
    one, other = (torch.randint(k, (n,), generator=generator) for _ in range(2))
    one[: min(k, n)] = torch.arange(min(k, n))
    is_own = torch.arange(n) < k

    def mix(leaf: Tensor) -> Tensor:
        a, b = leaf[one], leaf[other]
        first = is_own.reshape(-1, *[1] * (leaf.ndim - 1))
        if not leaf.is_floating_point():
            return torch.where(first | (torch.rand(a.shape, generator=generator) < 0.5), a, b)
        share = torch.rand((n, *[1] * (leaf.ndim - 1)), generator=generator)
        mixed = torch.lerp(a, b, share.to(leaf.dtype))
        if k < _FEW:
            mixed = mixed + 0.1 * (1 + mixed.abs()) * torch.randn(mixed.shape, generator=generator, dtype=leaf.dtype)
        return torch.where(first, a, mixed)

    mixed: Any = map_nested(mix, stack)
    if isinstance(stack, Mapping) and ACTION_MASK in stack:
        mixed[ACTION_MASK] = stack[ACTION_MASK][one]  # a mixture of masks might allow nothing
    return mixed
