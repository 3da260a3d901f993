"""The interface of augmentations, their random draws, and their dtypes."""

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.plain_values import Configurable

#: Source of random numbers: a generator on any device; None is torch's global stream of the batch's device.
RandomNumbers = torch.Generator | None


class Augmentation(Configurable):
    """A random change of observations that preserves their meaning: a function of (batch, rng).

    Subclasses are dataclasses, whose fields are the parameters.
    """

    @abstractmethod
    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        """Change each observation of a batch in a random way of its own.

        Args:
            x: Observations, [N, ...]; images are [N, C, H, W], uint8 or floating point.
            rng: Source of the random numbers; None is torch's global stream.

        Returns:
            Changed observations of the same shape and dtype.

        Raises:
            ValueError: If x has another number of axes.
            TypeError: If x has a dtype that is not supported.
        """

    def __call__(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        return self.transform(x, rng)

    def _params(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


def uniform(x: Tensor, low: float, high: float, rng: RandomNumbers, shape: tuple[int, ...] = ()) -> Tensor:
    """Draw numbers between two bounds, [N, *shape] for a batch of N rows, on its device, in floating point."""
    return low + (high - low) * _draw(torch.rand, x, rng, shape)


def normal(x: Tensor, rng: RandomNumbers) -> Tensor:
    """Draw numbers with mean 0 and standard deviation 1, [N] for a batch of N rows, as `uniform` does."""
    return _draw(torch.randn, x, rng)


def _draw(draw: Callable[..., Tensor], x: Tensor, rng: RandomNumbers, shape: tuple[int, ...] = ()) -> Tensor:
    device = x.device if rng is None else rng.device
    return draw(len(x), *shape, generator=rng, device=device, dtype=_computing_dtype(x)).to(x.device)


def each(values: Tensor, x: Tensor) -> Tensor:
    """Reshape one value for each row of a batch, [N], so that it broadcasts to the batch, [N, 1, ...]."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def in_floating_point(compute: Callable[[Tensor], Tensor], x: Tensor, white: float = 255.0) -> Tensor:
    """Apply a function of floating-point images to images of any allowed dtype.

    Half-precision images are computed in float32. So are bytes, as numbers from 0 to `white`; their result is rounded
    and clipped.
    """
    if x.dtype != torch.uint8:
        return compute(x.to(_computing_dtype(x))).to(x.dtype)
    scale = white / 255
    return (compute(x.float() * scale) / scale).round().clamp(0, 255).to(torch.uint8)


def _computing_dtype(x: Tensor) -> torch.dtype:
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def check_images(x: Tensor) -> None:
    """Check that a tensor is a batch of images.

    Raises:
        ValueError: If there are not four axes.
        TypeError: If the dtype is neither uint8 nor floating point.
    """
    if x.ndim != 4:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected images [N, C, H, W]")
    if x.dtype != torch.uint8:
        check_floats(x, "uint8 or floating point")


def check_floats(x: Tensor, expected: str = "floating point") -> None:
    """Check that a tensor has a floating-point dtype.

    Raises:
        TypeError: If the dtype is not floating point.
    """
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}, expected {expected}")


def check_range(name: str, value: Any, least: float = -math.inf) -> None:
    """Check that a value is a pair of finite numbers, the smaller one first.

    Raises:
        TypeError: If it is not a pair of numbers.
        ValueError: If they are not finite, in the wrong order, or below `least`.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} is {value!r}, expected a pair (low, high)")
    for number in value:
        check_numbers(least, **{name: number})
    if value[1] < value[0]:
        raise ValueError(f"{name} is {value!r}, expected the smaller number first")
