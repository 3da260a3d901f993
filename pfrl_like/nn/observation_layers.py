"""First layers of networks: conversion and standardisation of numbers, and encoders of nested observations."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class ToFloat(nn.Module):
    """Converts numbers of any dtype to the default float dtype, and divides them.

    Replay buffers and batches then keep the dtype of the environment, for example uint8.

    Args:
        divisor: Number by which the inputs are divided, for example 255 for images.
        channels_last: True if the inputs are images [..., height, width, channels]. The outputs are then
            [..., channels, height, width].
    """

    def __init__(self, divisor: float = 1.0, channels_last: bool = False) -> None:
        super().__init__()
        self.divisor, self.channels_last = divisor, channels_last
        self.dtype = torch.get_default_dtype()

    def forward(self, x: Tensor) -> Tensor:
        """Return the numbers as floats."""
        x = x.movedim(-1, -3) if self.channels_last else x
        x = x.to(self.dtype)
        return x if self.divisor == 1 else x / self.divisor

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"divisor={self.divisor}, channels_last={self.channels_last}"


@ignores_training
class Standardize(nn.Module):
    """Subtracts a mean and divides by a standard deviation, for example those of the observations in a dataset.

    Networks may share this layer: it has no parameters that are learnt.

    Args:
        mean: Mean of each feature, [n].
        std: Standard deviation of each feature, [n], positive.

    Raises:
        ValueError: If the lengths differ, or if a standard deviation is not positive.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise ValueError(f"mean has {len(mean)} numbers, but std has {len(std)}: expected one of each per feature")
        if not all(number > 0 for number in std):
            raise ValueError(f"std is {std!r:.80}, expected positive numbers: add a small number, for example 1e-3")
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.get_default_dtype()))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the standardised features, [..., n]."""
        return (x - self.mean) / self.std


@ignores_training
class DictEncoder(nn.Module):
    """Encodes each part of a Dict observation by its own module, and concatenates the features.

    Args:
        encoders: Modules from a part of the observation to features [B, n], keyed by the part. Other parts of the
            observation are ignored.

    Raises:
        ValueError: If `encoders` is empty.
    """

    def __init__(self, encoders: Mapping[str, nn.Module]) -> None:
        super().__init__()
        if not encoders:
            raise ValueError("encoders is empty, expected a module for each part of the observation")
        self.keys = tuple(encoders)
        self.encoders = nn.ModuleList(encoders.values())  # ModuleDict accepts no keys with dots

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the features, [B, sum of n]."""
        pairs = zip(self.keys, self.encoders, strict=True)
        return torch.cat([fast_forward(encoder, obs[key]) for key, encoder in pairs], dim=-1)


@ignores_training
class ObsEncoder(nn.Module):
    """Encodes the observation of a pair (observation, action), for Q-functions Q(s, a) of images or Dicts.

    Args:
        encoder: Module from observations to features [B, n].
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, obs_and_action: tuple[Any, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the pair (features, action)."""
        obs, action = obs_and_action
        return fast_forward(self.encoder, obs), action
