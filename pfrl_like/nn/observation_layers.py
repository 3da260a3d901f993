"""First layers of networks: conversion of integers and images to floats, and encoders of nested observations."""

from collections.abc import Mapping
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
