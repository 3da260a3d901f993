"""Running moments of networks, which a forward pass on bad numbers spoils before anybody has seen the loss."""

from collections.abc import Iterable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.utils.contexts import reads_training


class Moments:
    """The buffers of those modules whose forward passes in training change them.

    Args:
        modules: The modules.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._networks = modules
        self._kept: list[tuple[Tensor, Tensor]] = []

    @classmethod
    def of(cls, modules: Iterable[nn.Module]) -> Self | None:
        """Those of the modules that have some; None if none has."""
        found = [module for module in modules if _has_moments(module)]
        return cls(found) if found else None

    def keep(self) -> None:
        """Remember them as they are now."""
        self._kept = [(buffer, buffer.clone()) for module in self._networks for buffer in module.buffers()]

    def put_back(self) -> None:
        """Let them be as they were."""
        for buffer, moment in self._kept:
            buffer.copy_(moment)

    def put_back_if(self, refused: Tensor) -> None:
        """Let them be so where a scalar on their device is 1, not 0."""
        for buffer, moment in self._kept:
            buffer.copy_(torch.where(refused > 0, moment, buffer))


def _has_moments(module: nn.Module) -> bool:
    return reads_training(module) or any(isinstance(part, EmpiricalNormalization) for part in module.modules())
