"""The last values of the statistics that an agent reports: deques of floats, which a step fills without waiting."""

import collections
import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pfrl_like.storage.plain_tensors import from_plain, to_plain


class Record(collections.deque[float]):
    """A `collections.deque` of floats that takes tensors, and reads their numbers when somebody looks at it.

    Tensors that wait are read all at once, by one copy from their device. Older ones than the window shows are
    dropped unread. `len`, `maxlen` and `clear` read nothing.

    Args:
        values: What to begin with, as in `extend`.
        maxlen: How many values to keep; None for all.
    """

    is_elsewhere = True  # nothing in it draws random numbers, see `utils.reachable_streams`

    def __init__(self, values: Any = (), maxlen: int | None = None) -> None:
        super().__init__((), maxlen)
        self._room = sys.maxsize if maxlen is None else max(maxlen, 1)
        self._waiting: collections.deque[Tensor] = collections.deque()
        self._n_waiting = 0  # numbers in them
        self.extend(values)

    def append(self, value: Any, /) -> None:
        """Add a number, or all those of a tensor or array of any shape; a tensor must not be changed afterwards."""
        if not isinstance(value, Tensor):
            self._read()
            super().extend([float(number) for number in np.ravel(value)])
            return
        if size := value.numel():
            waiting = self._waiting
            waiting.append(value.detach() if value.requires_grad else value)
            self._n_waiting += size
            while self._n_waiting - waiting[0].numel() >= self._room:
                self._n_waiting -= waiting.popleft().numel()

    def extend(self, values: Any, /) -> None:
        """Add the numbers of a tensor, or of an iterable whose parts `append` takes."""
        for value in (values,) if isinstance(values, (Tensor, np.ndarray)) else tuple(values):
            self.append(value)

    def __iadd__(self, values: Any, /) -> Self:  # type: ignore[misc]  # which `deque` itself needs
        self.extend(values)
        return self

    def __len__(self) -> int:
        count = super().__len__() + self._n_waiting
        return count if self.maxlen is None else min(count, self.maxlen)

    def clear(self) -> None:
        """Remove all values."""
        self._waiting, self._n_waiting = collections.deque(), 0
        super().clear()

    def __reduce__(self) -> Any:
        return type(self), ([*self], self.maxlen)

    def _read(self) -> None:
        """Turn the tensors that wait into floats."""
        if self._waiting:
            waiting, self._waiting, self._n_waiting = self._waiting, collections.deque(), 0
            for _, tensors in groupby(waiting, attrgetter("device")):
                numbers = torch.cat([tensor.reshape(-1) for tensor in tensors]).tolist()
                super().extend(map(float, numbers))


def _after_reading(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a deque, of records whose tensors have been read."""

    @functools.wraps(method)
    def read_first(*args: Any) -> Any:
        for each in args:  # the other side of a comparison may be a record, too
            if isinstance(each, Record):
                each._read()
        return method(*args)

    return read_first


for _name, _method in vars(collections.deque).items():
    if callable(_method) and _name not in {"__new__", "__getattribute__", "__class_getitem__", *vars(Record)}:
        setattr(Record, _name, _after_reading(_method))


# The records of an agent, each the attribute `name_record`


def make_records(agent: Any, sizes: Mapping[str, int]) -> dict[str, str]:
    """Give an agent an empty record for each name, of so many values; returns their attributes by name."""
    for name, size in sizes.items():
        setattr(agent, f"{name}_record", Record(maxlen=int(size)))
    return {name: f"{name}_record" for name in sizes}


def add_values(agent: Any, attributes: Mapping[str, str], stats: Mapping[str, Any]) -> None:
    """Add the statistics that have a record to it; a deque or list that a user has put there gets floats at once."""
    for name, attribute in attributes.items():
        if name in stats:
            record = getattr(agent, attribute)
            if isinstance(record, Record):
                record.append(stats[name])
            else:
                record.extend(torch.as_tensor(stats[name]).reshape(-1).tolist())


def means(agent: Any, attributes: Mapping[str, str]) -> list[tuple[str, float]]:
    """The means of the records as ("average_name", value), NaN before the first value."""
    records = ((name, getattr(agent, attribute)) for name, attribute in attributes.items())
    return [(f"average_{name}", float(np.mean(record)) if len(record) else float("nan")) for name, record in records]


def plain_record(record: Iterable[float]) -> Any:
    """The values of a record, for JSON."""
    values = torch.tensor([*record], dtype=torch.float64)
    return to_plain((values,) if len(values) else ())


def values_of(state: Any) -> list[float]:
    """The values that `plain_record` was given, or those of any list of tensors, as former versions saved.

    Raises:
        ValueError: If it is something else.
    """
    parts = from_plain(state, "cpu")
    if not isinstance(parts, tuple) or not all(map(torch.is_tensor, parts)):
        raise ValueError(f"the values are {state!r:.80}, expected a list of tensors")
    return [number for part in parts for number in part.reshape(-1).tolist()]


def put_values(agent: Any, values: Mapping[str, list[float]]) -> None:
    """Let records, by attribute, hold other values."""
    for attribute, numbers in values.items():
        record = getattr(agent, attribute)
        record.clear()
        record.extend(numbers)
