"""`Device`: the number of a GPU, which tasks that run side by side take in turn."""

import numbers
import threading
from typing import Any, Union

import torch

from pfrl_like.context import in_parallel
from pfrl_like.utils.checks import check_counts

_moving = threading.Lock()


class Device:
    """The number of a GPU.

    A deep copy made within `pfrl_like.context.parallel` moves the device on to the next GPU, after the last one to the
    first, and is one of that number. Elsewhere, and where torch sees no GPU, a copy has the same number.

    Args:
        idx: The number, from 0 on.

    Raises:
        TypeError: If it is no integer.
        ValueError: If it is negative.
    """

    def __init__(self, idx: int = 0) -> None:
        check_counts(least=0, idx=idx)
        self._idx = int(idx)

    @classmethod
    def of(cls, use_gpu: Union["Device", int, bool, None]) -> "Device | None":
        """What `use_gpu` means: a Device is itself, True the first GPU, a number that one, False and None the CPU.

        Raises:
            TypeError: If it is none of these.
            ValueError: If it is negative.
        """
        if use_gpu is None or use_gpu is False:
            return None
        if isinstance(use_gpu, cls):
            return use_gpu
        if use_gpu is True:
            return cls(0)
        if not isinstance(use_gpu, numbers.Integral):
            raise TypeError(f"use_gpu is {use_gpu!r:.80}, expected True, False, the number of a GPU or a Device")
        return cls(int(use_gpu))

    def get_id(self) -> int:
        """The number."""
        return self._idx

    def __deepcopy__(self, memo: dict[int, Any]) -> "Device":
        n_gpus = torch.cuda.device_count()
        with _moving:
            if n_gpus and in_parallel():
                self._idx = (self._idx + 1) % n_gpus
            return type(self)(self._idx)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self._idx == other._idx

    __hash__ = None  # type: ignore[assignment]  # the number changes

    def __repr__(self) -> str:
        return f"Device({self._idx})"
