"""PFRL's queues with a tree of sums or minima. `collections.prioritized.SumTree` is faster: it needs no Python loop."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pfrl_like.utils.random import sample_n_k


class TreeQueue:
    """Queue of values with the result of an operation over all of them. Changes take O(log n) calls of the operation.

    Args:
        op: Associative function from one or two values to one value, for example `sum` or `min`.

    Attributes:
        length: Number of values.
        op: The operation.
    """

    def __init__(self, op: Callable[[Sequence[Any]], Any]) -> None:
        self.op = op
        self.length = 0
        self._first = 0  # slot of the oldest value
        self._nodes: list[Any] = [None, None]  # node i has the children 2 i and 2 i + 1; the second half are the slots

    def __setitem__(self, ix: int, val: Any) -> None:
        """Replace a value.

        Raises:
            IndexError: If there is no value `ix`.
            ValueError: If the new value is None.
        """
        if not 0 <= ix < self.length:
            raise IndexError(f"index {ix} is out of range for a queue of {self.length} values")
        self._write(ix, _not_none(val))

    def append(self, value: Any) -> None:
        """Add a value at the end.

        Raises:
            ValueError: If the value is None.
        """
        _not_none(value)
        if self._first + self.length == len(self._nodes) // 2:
            self._move_to_larger_tree()
        self.length += 1
        self._write(self.length - 1, value)

    def popleft(self) -> Any:
        """Remove the oldest value and return it.

        Raises:
            IndexError: If the queue is empty.
        """
        if not self.length:
            raise IndexError("the queue is empty")
        value = self._write(0, None)
        self._first += 1
        self.length -= 1
        return value

    def _write(self, ix: int, val: Any) -> Any:
        """Replace a value, None for no value, and return the earlier value."""
        node = len(self._nodes) // 2 + self._first + ix
        earlier, self._nodes[node] = self._nodes[node], val
        while node := node // 2:
            children = [child for child in self._nodes[2 * node : 2 * node + 2] if child is not None]
            self._nodes[node] = self.op(children) if children else None
        return earlier

    def _move_to_larger_tree(self) -> None:
        begin = len(self._nodes) // 2 + self._first
        values = self._nodes[begin : begin + self.length]
        n_slots = 1 << (2 * self.length).bit_length()
        self._nodes, self._first = [None] * (2 * n_slots), 0
        for i, value in enumerate(values):
            self._write(i, value)


class SumTreeQueue(TreeQueue):
    """Queue of weights that are drawn in proportion to them."""

    def __init__(self) -> None:
        super().__init__(sum)

    def sum(self) -> float:
        """Sum of the weights; 0 if the queue is empty."""
        return float(self._nodes[1] or 0.0)

    def uniform_sample(self, n: int, remove: bool) -> tuple[list[int], list[float]]:
        """Draw n distinct indices uniformly, from the global NumPy stream.

        Args:
            n: Number of indices, at most the length.
            remove: True to set the weights of the drawn indices to 0.

        Returns:
            Indices and their weights.
        """
        indices = [int(i) for i in sample_n_k(self.length, n)]
        return self._restore_weights(indices, [self._write(i, 0.0) for i in indices], remove)

    def prioritized_sample(self, n: int, remove: bool) -> tuple[list[int], list[float]]:
        """Draw n distinct indices, each in proportion to its weight, from the global NumPy stream.

        Args:
            n: Number of indices, at most the number of positive weights.
            remove: True to set the weights of the drawn indices to 0.

        Returns:
            Indices and their weights.

        Raises:
            ValueError: If fewer than n weights are positive. The weights are then unchanged.
        """
        indices: list[int] = []
        weights: list[float] = []
        for _ in range(n):
            if not self.sum() > 0:
                self._restore_weights(indices, weights, remove=False)
                raise ValueError(f"n is {n}, but only {len(indices)} of {self.length} weights are positive")
            indices.append(self._find(np.random.uniform(0.0, self.sum())))
            weights.append(self._write(indices[-1], 0.0))
        return self._restore_weights(indices, weights, remove)

    def _find(self, point: float) -> int:
        """Return the index at which the sum of the weights up to and including it exceeds `point`."""
        node, n_slots = 1, len(self._nodes) // 2
        while node < n_slots:
            node, left = 2 * node, self._nodes[2 * node] or 0.0
            if point >= left and self._nodes[node + 1]:  # rounding must not lead to a weight of 0
                node, point = node + 1, point - left
        return node - n_slots - self._first

    def _restore_weights(self, indices: list[int], weights: list[float], remove: bool) -> tuple[list[int], list[float]]:
        for i, weight in zip([] if remove else indices, weights, strict=False):
            self._write(i, weight)
        return indices, weights


class MinTreeQueue(TreeQueue):
    """Queue of numbers with their minimum."""

    def __init__(self) -> None:
        super().__init__(min)

    def min(self) -> float:
        """Minimum of the numbers; infinity if the queue is empty."""
        return float("inf") if self._nodes[1] is None else self._nodes[1]


def _not_none(value: Any) -> Any:
    if value is None:
        raise ValueError("value is None, expected a value that the operation accepts")
    return value
