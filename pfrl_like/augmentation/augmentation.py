"""The interface of augmentations, and their functions for random numbers, dtypes and checks."""

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.plain_values import Configurable

#: Source of random numbers: a generator on any device, or None for torch's global generator of the batch's device.
RandomNumbers = torch.Generator | None


class Augmentation(Configurable):
    """Random change of observations after which the same actions are optimal; called as a function of (batch, rng).

    Subclasses are dataclasses, whose fields are the parameters of the augmentation.
    """

    @abstractmethod
    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        """Apply an independent random change to each observation of a batch.

        Args:
            x: Observations, [N, ...]; images are [N, C, H, W], uint8 or floating point.
            rng: Generator of the random numbers. If None, torch's global generator is used.

        Returns:
            Observations with the shape and dtype of `x`.

        Raises:
            ValueError: If x has the wrong number of axes.
            TypeError: If the dtype of x is not supported.
        """

    def __call__(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        return self.transform(x, rng)

    def _params(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


def uniform(x: Tensor, low: float, high: float, rng: RandomNumbers, shape: tuple[int, ...] = ()) -> Tensor:
    """Return uniform random numbers between two bounds, [N, *shape] for a batch `x` of N rows, on its device."""
    return low + (high - low) * _draw(torch.rand, x, rng, shape)


def normal(x: Tensor, rng: RandomNumbers) -> Tensor:
    """Return standard normal random numbers, [N] for a batch `x` of N rows, on its device."""
    return _draw(torch.randn, x, rng)


def _draw(draw: Callable[..., Tensor], x: Tensor, rng: RandomNumbers, shape: tuple[int, ...] = ()) -> Tensor:
    device = x.device if rng is None else rng.device
    return draw(len(x), *shape, generator=rng, device=device, dtype=_computing_dtype(x)).to(x.device)


def per_row(values: Tensor, x: Tensor) -> Tensor:
    """Reshape values, one for each row of the batch `x`, from [N] to [N, 1, ...]."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def in_floating_point(compute: Callable[[Tensor], Tensor], x: Tensor, white: float = 255.0) -> Tensor:
    """Apply a function of floating-point images to images of any supported dtype.

    Half-precision images are converted to float32 and back. uint8 images are converted to float32 numbers from 0 to
    `white`. The result is converted back to integers, rounded and clipped.
    """
    if x.dtype != torch.uint8:
        return compute(x.to(_computing_dtype(x))).to(x.dtype)
    scale = white / 255
    return (compute(x.float() * scale) / scale).round().clamp(0, 255).to(torch.uint8)


def _computing_dtype(x: Tensor) -> torch.dtype:
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def check_images(x: Tensor) -> None:
    """Raise an error if a tensor does not contain images [N, C, H, W] of uint8 or floating-point numbers.

    Raises:
        ValueError: If the tensor does not have four axes.
        TypeError: If the dtype is neither uint8 nor floating point.
    """
    if x.ndim != 4:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected images [N, C, H, W]")
    if x.dtype != torch.uint8:
        check_floats(x, "uint8 or floating point")


def check_floats(x: Tensor, expected: str = "floating point") -> None:
    """Raise an error if a tensor does not have a floating-point dtype.

    Raises:
        TypeError: If the dtype is not floating point.
    """
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}, expected {expected}")


def check_range(name: str, value: Any, least: float = -math.inf) -> None:
    """Raise an error if a value is not a pair (low, high) of finite numbers.

    Raises:
        TypeError: If the value is not a pair of numbers.
        ValueError: If a number is not finite or is below `least`, or if the first number is larger than the second.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} is {value!r}, expected a pair (low, high)")
    for number in value:
        check_numbers(least, **{name: number})
    if value[1] < value[0]:
        raise ValueError(f"{name} is {value!r}, expected low <= high")
