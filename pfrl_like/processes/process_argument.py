"""`ProcessArgument`: a value that is sent to a process when it starts. It may contain lambdas and shared tensors."""

import io
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import cloudpickle  # type: ignore[import-untyped]
import torch
from torch import UntypedStorage
from torch.multiprocessing.reductions import reduce_storage

Value = TypeVar("Value")
#: With later protocols of pickle, NumPy's arrays do not own their memory, and a replay buffer cannot grow.
_PROTOCOL = 4


def _reduce_storage(storage: UntypedStorage) -> Any:
    """Send the memory of a tensor by reference if it is shared, else by value.

    torch's reduction would move the memory of every tensor to shared memory, also of the sender's tensor.
    """
    if storage.device.type == "cpu" and not storage.is_shared() and storage.nbytes():
        return _storage_of, (torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes(),)
    return reduce_storage(storage)  # type: ignore[no-untyped-call]


def _storage_of(content: bytes) -> UntypedStorage:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).clone().untyped_storage()


class ProcessPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that joins cloudpickle with the reductions of `multiprocessing` and `torch.multiprocessing`.

    Functions and classes that another process cannot import are sent by value. Locks, pipes, shared counters and
    tensors in shared memory stay shared. Other tensors are copied, as in a forked process.
    """

    _reductions: dict[type, Callable[[Any], Any]] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    dispatch_table = ChainMap({UntypedStorage: _reduce_storage}, _reductions, cloudpickle.Pickler.dispatch_table)


class ProcessArgument(Generic[Value]):
    """A value that is sent to a process when the process starts. With the start method "fork" it is not pickled.

    The value is unpickled at the first access, not when the process starts, so that the process can report an error.

    Args:
        value: The value.
    """

    _packed: bytes | None = None
    _value: Value

    def __init__(self, value: Value) -> None:
        self._value = value

    @property
    def value(self) -> Value:
        """The value."""
        if self._packed is not None:
            self._value, self._packed = cloudpickle.loads(self._packed), None
        return self._value

    def __getstate__(self) -> dict[str, Any]:
        file = io.BytesIO()
        ProcessPickler(file, _PROTOCOL).dump(self.value)
        return {"_packed": file.getvalue()}


class _TrialPopen:
    """Stands for the process that starts, while a value is pickled on trial."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    def DupFd(self, descriptor: int) -> int:  # noqa: N802 (multiprocessing's name)
        return descriptor


def check_sendable(name: str, value: Any, start_method: str, advice: str = "") -> None:
    """Check that a value can be sent to a process that starts, so that errors surface before the run begins.

    Args:
        name: Name of the argument in the error message.
        value: The value.
        start_method: Start method of the processes. With "fork" nothing is checked, because nothing is pickled.
        advice: Text in the error message, before the advice to fork.

    Raises:
        TypeError: If the value cannot be pickled.
    """
    if start_method == "fork":
        return
    try:
        with _trial_pickling():
            ProcessPickler(SimpleNamespace(write=len), _PROTOCOL).dump(value)  # a file that keeps nothing
    except Exception as error:
        text = f"{name} cannot be sent to another process: {error}; {advice}"
        raise TypeError(f'{text}with start_method="fork" nothing is pickled') from error


@contextmanager
def _trial_pickling() -> Iterator[None]:
    before = context.get_spawning_popen()
    context.set_spawning_popen(_TrialPopen())  # type: ignore[arg-type]  # locks and pipes are sent only to such objects
    try:
        yield
    finally:
        context.set_spawning_popen(before)
