"""Devices: `resolve_device` returns the device of an agent; `Device` distributes parallel tasks over GPUs."""

import numbers
import threading
from typing import Any, Union

import torch

from pfrl_like.context import in_parallel
from pfrl_like.utils.checks import check_counts

_lock = threading.Lock()


def get_gpu_count() -> int:
    """Return the number of GPUs that torch finds."""
    return torch.cuda.device_count()


class Device:
    """The index of a GPU.

    Inside `pfrl_like.context.parallel`, `copy.deepcopy(device)` increases the index of `device` by 1, modulo the number
    of GPUs. The copy has the same new index. Outside this context, or if torch finds no GPU, the index does not change.

    Args:
        idx: Index of the GPU, starting at 0.

    Raises:
        TypeError: If `idx` is not an integer.
        ValueError: If `idx` is negative.
    """

    def __init__(self, idx: int = 0) -> None:
        check_counts(least=0, idx=idx)
        self._idx = int(idx)

    @classmethod
    def of(cls, use_gpu: Union["Device", int, bool, None]) -> "Device | None":
        """Return the `Device` for the argument `use_gpu`; None for the CPU.

        Args:
            use_gpu: True for the first GPU, the index of a GPU, or a `Device`; False or None for the CPU.

        Raises:
            TypeError: If `use_gpu` is not a bool, an integer, a `Device` or None.
            ValueError: If `use_gpu` is a negative integer.
        """
        if use_gpu is None or use_gpu is False:
            return None
        if isinstance(use_gpu, cls):
            return use_gpu
        if use_gpu is True:
            return cls(0)
        if not isinstance(use_gpu, numbers.Integral):
            raise TypeError(f"use_gpu is {use_gpu!r:.80}, expected a bool, the index of a GPU, a Device or None")
        return cls(int(use_gpu))

    def get_id(self) -> int:
        """Return the index of the GPU."""
        return self._idx

    def __deepcopy__(self, memo: dict[int, Any]) -> "Device":
        n_gpus = get_gpu_count()
        with _lock:
            if n_gpus and in_parallel():
                self._idx = (self._idx + 1) % n_gpus
            return type(self)(self._idx)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self._idx == other._idx

    __hash__ = None  # type: ignore[assignment]  # the index is mutable

    def __repr__(self) -> str:
        return f"Device({self._idx})"


def resolve_device(gpu: int | None = None, device: torch.device | str | None = None) -> torch.device:
    """Return the device that `gpu` or `device` selects.

    Args:
        gpu: CUDA device index. None or a negative index means the CPU.
        device: Any device of torch, as a string ("cpu", "cuda:0", "mps") or `torch.device`, instead of `gpu`.

    Returns:
        The device; the CPU if both arguments are None. Like the device of a tensor, a CUDA device has an index and the
        CPU has no index.

    Raises:
        TypeError: If `gpu` is not an integer, or if `device` is neither a string nor a `torch.device`.
        ValueError: If `gpu` and `device` contradict each other, or if the device is unknown or not available.
    """
    if gpu is not None and (isinstance(gpu, bool) or not isinstance(gpu, int)):
        raise TypeError(f"gpu is {gpu!r}, expected an integer (negative for the CPU) or None")
    if device is None:
        result = torch.device("cpu") if gpu is None or gpu < 0 else torch.device("cuda", gpu)
    else:
        result = _parse(device)
        if gpu is not None and gpu >= 0 and result != torch.device("cuda", gpu):
            raise ValueError(f"gpu={gpu} and device={str(device)!r} contradict each other: pass only one of them")
    if result.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (result.index or 0) >= count:
            devices = f"{count} CUDA device{'s' if count > 1 else ''}" if count else "no CUDA device"
            raise ValueError(f"device is {result}, but torch finds {devices}: pass device='cpu' to use the CPU")
    elif result.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device is mps, but torch finds no such device: pass device='cpu' to use the CPU")
    return result


def _parse(device: torch.device | str) -> torch.device:
    if not isinstance(device, str | torch.device):
        raise TypeError(f"device is {device!r}, expected a string such as 'cuda:0', or a torch.device")
    try:
        parsed = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device is {device!r}, expected a device of torch, such as 'cpu' or 'cuda:0'") from error
    if parsed.type == "cpu":
        return torch.device("cpu")  # CPU tensors have this device; it is not equal to "cpu:0"
    if parsed.type == "cuda" and parsed.index is None:
        return torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_available() else 0)
    return parsed
