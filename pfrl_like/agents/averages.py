"""Means over the last values of a number that an agent reports."""

import collections
from typing import Any

import torch
from torch import Tensor

from pfrl_like.utils.tensors_as_json import from_plain, to_plain


class Window:
    """The last values of a number; they are not looked at before somebody asks for their mean.

    Args:
        size: How many values to keep.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._parts: collections.deque[Tensor] = collections.deque()
        self._count = 0

    def __len__(self) -> int:
        return min(self._count, self.size)

    def extend(self, values: Tensor) -> None:
        """Add values, a tensor of any shape, which is kept."""
        parts = self._parts
        parts.append(values)
        self._count += values.numel()
        while self._count - parts[0].numel() >= self.size:
            self._count -= parts.popleft().numel()

    append = extend

    @property
    def mean(self) -> float:
        """Mean of the last values, NaN before the first."""
        if not self._parts:
            return float("nan")
        return float(torch.cat([part.reshape(-1) for part in self._parts])[-self.size :].mean())

    def state_dict(self) -> Any:
        """The values, for JSON."""
        return to_plain(tuple(self._parts))

    @classmethod
    def of_state(cls, size: int, state: Any, device: torch.device | str) -> "Window":
        """The window that `state_dict` was asked of.

        Raises:
            ValueError: If it is something else.
        """
        parts = from_plain(state, device)
        if not isinstance(parts, tuple) or not all(map(torch.is_tensor, parts)):
            raise ValueError(f"the values are {state!r:.80}, expected a list of tensors")
        window = cls(size)
        for part in parts:
            window.extend(part)
        return window
