"""Queues with priority sampling, implemented with sum trees (arXiv:1511.05952, section 3.3)."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.errors import NonFiniteError
from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.old_names import old_names
from pfrl_like.utils.random import RandomSource, sample_n_k

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

BRANCHING_BITS = 6
BRANCHING = 1 << BRANCHING_BITS
WIDEST_ROOT = 4096
MAX_PENDING_WRITES = 1024
_JUST_BELOW_ONE = 1.0 - 2.0**-53
T = TypeVar("T")
Index = NDArray[np.int64]
SMALLEST_SIZE = 64
MAX_LOADED_SLOTS = 1 << 24  # maximum number of slots of a loaded tree, unless its items need more
SMALLEST_PRIORITY, LARGEST_PRIORITY = 1e-200, 1e200  # limits that keep sums from overflowing and losing digits


class SumTree:
    """Non-negative weights of `size` slots. Slots are sampled in proportion to their weights.

    The slots are the leaves of the tree. A parent contains the sum of a block of 64 children. The root is a plain array
    of up to 4096 sums, so that 262,144 slots need two levels. A write only marks slots. The next query recomputes the
    parents of all marked slots from their children, so rounding errors of earlier weights do not accumulate. Writing or
    drawing n slots takes O(n * levels) time, in a few NumPy calls.

    Args:
        size: Number of slots. All weights are initially 0, the weight of an empty slot.

    Raises:
        ValueError: If size is not positive.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self._sums: list[Floats] = [np.zeros(_padded(size))]
        while len(self._sums[-1]) > WIDEST_ROOT:
            self._sums.append(np.zeros(_padded(len(self._sums[-1]) // BRANCHING)))
        self._root_ends = np.zeros(len(self._sums[-1]) + 1)  # sums of the first 0, 1, 2, ... entries of the root
        self._mins: list[Floats] | None = None
        self._marked: list[Slots] = []
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, slots: Any) -> Floats:
        """Return a copy of the weights of `slots`, any NumPy index."""
        return np.array(self._sums[0][: self._size][slots])

    def __setitem__(self, slots: Slots, weights: Any) -> None:
        """Set weights, shape [n] or one weight for all slots. If a slot is repeated, its last weight is stored.

        A weight is 0 or a number from 1e-200 to 1e200.
        """
        self._sums[0][slots] = weights
        self._marked.append(slots)
        if len(self._marked) == MAX_PENDING_WRITES:
            self._refresh()

    def take(self, slots: Slots) -> Floats:
        """Return the weights of `slots`, shape [n]. This is faster than indexing."""
        return self._sums[0].take(slots)

    def total(self) -> float:
        """Sum of all weights."""
        self._refresh()
        return self._root_ends.item(-1)

    def min(self) -> float:
        """Minimum of the positive weights. It is infinite if no weight is positive."""
        if self._mins is None:
            self._mins = [np.full(len(level), np.inf) for level in self._sums[1:]]
            self._marked.append(np.arange(self._size))
        self._refresh()
        root = self._mins[-1] if self._mins else _where_positive(self._sums[0])
        return float(root.min())

    def draw(self, n: int, rng: RandomSource = None) -> Slots:
        """Draw n slots independently, each with probability weight / total. Slots of weight 0 are never drawn.

        Args:
            n: Number of slots.
            rng: NumPy generator; None uses the global NumPy stream.

        Returns:
            Slots in the order of the draw, shape [n].

        Raises:
            ValueError: If all weights are 0.
        """
        self._refresh()
        source: Any = np.random if rng is None else rng
        ends = self._root_ends
        total = ends.item(-1)
        if n and not total > 0.0:
            raise ValueError("cannot draw from a tree whose weights are all 0")
        point = source.random(n) * total
        slots: Slots = ends[1:].searchsorted(point, side="right")
        point -= ends.take(slots)
        for depth in range(len(self._sums) - 2, -1, -1):
            slots, point = _descend(self._sums[depth], slots, point, is_last=depth == 0)
        return slots

    def draw_distinct(self, n: int, rng: RandomSource = None, exclude: Slots | None = None) -> Slots:
        """Draw n distinct slots in sequence, each in proportion to its weight among the slots not drawn yet.

        The result has the same distribution as a series of independent draws from which repeated slots are removed. If
        too many draws repeat a slot, the weights of the drawn slots are temporarily set to 0 to draw the other slots.

        Args:
            n: Number of slots.
            rng: NumPy generator; None uses the global NumPy stream.
            exclude: Distinct slots that are treated as already drawn.

        Returns:
            Distinct slots in the order of the draw, shape [n].

        Raises:
            ValueError: If fewer than n slots have a positive weight.
        """
        n_excluded = 0 if exclude is None else len(exclude)
        drawn = self.draw(n, rng)
        distinct = dict.fromkeys([] if exclude is None else exclude.tolist())
        distinct.update(dict.fromkeys(drawn.tolist()))
        if len(distinct) == n_excluded + n:
            return drawn
        distinct.update(dict.fromkeys(self.draw(n, rng).tolist()))  # usually enough
        if len(distinct) < n_excluded + n:
            self._draw_others(distinct, n_excluded + n, rng)
        return np.fromiter(distinct, np.int64, len(distinct))[n_excluded : n_excluded + n]

    def _draw_others(self, distinct: dict[int, None], n: int, rng: RandomSource) -> None:
        """Add slots to `distinct` until it contains n slots."""
        emptied: list[tuple[Slots, Floats]] = []
        try:
            while len(distinct) < n:
                slots = np.fromiter(distinct, np.int64, len(distinct))
                emptied.append((slots, self.take(slots)))
                self[slots] = 0.0
                distinct.update(dict.fromkeys(self.draw(n - len(distinct), rng).tolist()))
        finally:
            for slots, weights in reversed(emptied):
                self[slots] = weights

    def _refresh(self) -> None:
        """Recompute the parents of the marked slots."""
        if not self._marked:
            return
        slots = self._marked[0] if len(self._marked) == 1 else np.concatenate(self._marked)
        self._marked = []
        if len(slots) * BRANCHING > self._size:
            slots = np.arange(0, self._size, BRANCHING)
        for depth in range(1, len(self._sums)):
            blocks = slots >> BRANCHING_BITS
            self._sums[depth][blocks] = _blocks_of(self._sums[depth - 1]).take(blocks, axis=0).sum(axis=1)
            if self._mins is not None:
                if depth == 1:
                    children = _where_positive(_blocks_of(self._sums[0]).take(blocks, axis=0))
                else:
                    children = _blocks_of(self._mins[depth - 2]).take(blocks, axis=0)
                self._mins[depth - 1][blocks] = children.min(axis=1)
            slots = blocks
        np.add.accumulate(self._sums[-1], out=self._root_ends[1:])


def _padded(n: int) -> int:
    return -(-n // BRANCHING) * BRANCHING


def _blocks_of(level: Floats) -> Floats:
    return level.reshape(-1, BRANCHING)


def _where_positive(weights: Floats) -> Floats:
    return np.where(weights > 0.0, weights, np.inf)


def _descend(level: Floats, blocks: Slots, point: Floats, is_last: bool) -> tuple[Slots, Floats]:
    """Return the child of each block that contains `point` [n], and the offset of the point inside the child."""
    children = _blocks_of(level).take(blocks, axis=0)
    ends = np.add.accumulate(children, axis=1)
    # Rounding must not move a point into the empty children at either end of its block.
    point = np.minimum(point, ends[:, -1] * _JUST_BELOW_ONE)
    child = (ends > point[:, None]).argmax(axis=1)
    slots: Slots = (blocks << BRANCHING_BITS) + child
    if not is_last:
        rows = np.arange(len(point))
        point = np.maximum(point - (ends[rows, child] - children[rows, child]), 0.0)
    return slots, point


class Priorities:
    """Priorities of the items of a queue. Items are numbered: `first` is the oldest item, `end` the next new item.

    Item i is in slot i % size of a sum tree whose size doubles when it is too small. `append` and `popleft` only change
    `first` and `end`. The next query writes these changes to the tree. With the same random numbers, trees of different
    sizes draw different items.

    Args:
        max_priority: Maximum priority so far. New items get this priority.
        first: Number of the first item that will be added.
        size: Initial number of slots, a power of two. If None, the tree starts with 64 slots.
    """

    def __init__(self, max_priority: float = 1.0, first: int = 0, size: int | None = None) -> None:
        self.max_priority = float(check_priorities(max_priority))
        self.first = self.end = first
        # In the tree, items below _cleared have the weight 0, and items below _written have been written.
        self._cleared = self._written = first
        self._tree = SumTree(size or SMALLEST_SIZE)

    def __len__(self) -> int:
        return self.end - self.first

    def append(self, count: int = 1) -> None:
        """Add items at the end, with the maximum priority so far."""
        self.end += count

    def popleft(self, count: int = 1) -> None:
        """Remove the oldest items."""
        self.first += count

    def draw(self, n: int, uniform_ratio: float = 0.0, rng: RandomSource = None) -> tuple[Index, Floats]:
        """Draw n distinct items in sequence, each in proportion to its priority among the items not drawn yet.

        Args:
            n: Number of items, at most the length.
            uniform_ratio: Probability that a draw is uniform and ignores the priorities, from 0 to 1.
            rng: NumPy generator; None uses the global NumPy stream.

        Returns:
            Sequence numbers in the order of the draw, and the sampling probability of each item, both of shape [n].
        """
        self._flush()
        exclude = np.zeros(0, np.int64)
        if uniform_ratio > 0.0:
            source: Any = np.random if rng is None else rng
            exclude = self._slots(self.first + sample_n_k(len(self), int(source.binomial(n, uniform_ratio)), rng))
        slots = np.concatenate([exclude, self._tree.draw_distinct(n - len(exclude), rng, exclude)])
        index = self.first + ((slots - self.first) & (len(self._tree) - 1))
        return index, self._probability(self._tree.take(slots), uniform_ratio)

    def min_probability(self, uniform_ratio: float = 0.0) -> float:
        """Minimum sampling probability over all items. It is infinite if there are no items."""
        if self.first == self.end:
            return float("inf")
        self._flush()
        return float(self._probability(np.float64(self._tree.min()), uniform_ratio))

    def set(self, index: ArrayLike, priority: ArrayLike) -> Floats:
        """Set the priorities of items. Items that were removed from the queue are skipped.

        Args:
            index: Sequence numbers, shape [n]. If a number is repeated, its last priority is set.
            priority: Priorities of these items, shape [n].

        Returns:
            The priorities that were set.

        Raises:
            ValueError: If a priority is not positive, if no item with a sequence number was ever added, or if the
                lengths differ. Nothing is changed.
            NonFiniteError: If a priority is not finite. Nothing is changed.
        """
        index, priority = np.asarray(index, np.int64), np.asarray(priority, np.float64)
        if index.ndim != 1 or index.shape != priority.shape:
            raise ValueError(f"index and priority have shapes {index.shape} and {priority.shape}, expected [n] and [n]")
        check_priorities(priority)
        age = (index - self.first).view(np.uint64)  # a huge number if the item was removed
        if age.max(initial=0) >= len(self):
            if index.max(initial=-1) >= self.end:  # an empty index is allowed, also in an empty queue
                raise ValueError(f"index contains {index.max()}, but the number of the newest item is {self.end - 1}")
            alive = index >= self.first
            index, priority = index[alive], priority[alive]
        self._flush()
        self._tree[self._slots(index)] = priority
        return priority

    def update(self, index: ArrayLike, priority: ArrayLike) -> None:
        """Set the priorities of items like `set`, and update the maximum priority so far."""
        written = self.set(index, priority)
        if len(written):
            self.max_priority = max(self.max_priority, largest(written))

    def to_array(self) -> Floats:
        """Return the priorities of all items, oldest first, shape [len]. The tree is not changed."""
        written = self._written_priorities()
        return np.concatenate([written, np.full(len(self) - len(written), self.max_priority)])

    def layout(self) -> dict[str, int]:
        """Return the number of slots of the tree and the number of items written to it. Draws depend on both."""
        return {"size": len(self._tree), "written": len(self._written_priorities())}

    @classmethod
    def from_array(
        cls, priority: ArrayLike, max_priority: float, first: int = 0, layout: Mapping[str, int] | None = None
    ) -> "Priorities":
        """Rebuild priorities from the result of `to_array`.

        Args:
            priority: The priorities, oldest first, shape [n].
            max_priority: Maximum priority so far.
            first: Sequence number of the oldest item.
            layout: The result of `layout`. With it, the same random numbers draw the same items as in the saved queue.
                If None, all items are written to the smallest possible tree.

        Raises:
            ValueError: If a priority is not positive, if `priority` has more than one dimension, or if `layout` is
                invalid.
            NonFiniteError: If a priority is not finite.
        """
        values = np.asarray(priority, np.float64)
        size, written = (None, len(values)) if layout is None else _checked_layout(layout, len(values))
        priorities = cls(max_priority, first, size)
        priorities.append(written)
        priorities.set(np.arange(first, priorities.end), values[:written])
        if (values[written:] != priorities.max_priority).any():
            raise ValueError(f"priority holds other values than {max_priority=} for the items that are not written yet")
        priorities.append(len(values) - written)
        return priorities

    def _slots(self, index: Index) -> Index:
        return index & (len(self._tree) - 1)

    def _probability(self, priority: Any, uniform_ratio: float) -> Any:
        probability = priority / self._tree.total()
        if uniform_ratio > 0.0:
            probability = uniform_ratio / len(self) + (1.0 - uniform_ratio) * probability
        return probability

    def _flush(self) -> None:
        """Set the slots of removed items to 0. Then fill the slots of new items, which may be the same slots."""
        if self._cleared == self.first and self._written == self.end:
            return
        if len(self) > len(self._tree):
            self._grow()
        stop = min(self.first, self._written)
        if self._cleared < stop:
            self._tree[self._slots(np.arange(self._cleared, stop))] = 0.0
        start = max(self.first, self._written)
        if start < self.end:
            self._tree[self._slots(np.arange(start, self.end))] = self.max_priority
        self._cleared, self._written = self.first, self.end

    def _written_priorities(self) -> Floats:
        """Return the priorities of the items that are in the tree, oldest first."""
        return self._tree[self._slots(np.arange(self.first, max(self.first, self._written)))]

    def _grow(self) -> None:
        weights = self._written_priorities()
        self._tree = SumTree(_size_for(len(self)))
        self._tree[self._slots(np.arange(self.first, self.first + len(weights)))] = weights
        self._cleared = self.first


def _size_for(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _checked_layout(layout: Mapping[str, int], n: int) -> tuple[int, int]:
    """Check the layout of n items. Return its size, limited to save memory, and the number of written items."""
    size, written = int(layout["size"]), int(layout["written"])
    if size.bit_count() != 1 or not 0 <= written <= min(n, size):
        raise ValueError(f"layout is {size=}, {written=}, expected a power of two >= written, written from 0 to {n}")
    return min(size, max(MAX_LOADED_SLOTS, _size_for(n))), written


def check_priorities(priority: ArrayLike) -> Floats:
    """Return the priorities as float64, after a check that they are positive and can be summed.

    Raises:
        NonFiniteError: If a priority is NaN or infinite.
        ValueError: If a priority is not from 1e-200 to 1e200, the range that floating point can sum.
    """
    values = np.asarray(priority, np.float64)
    if values.size == 0 or (smallest(values) >= SMALLEST_PRIORITY and largest(values) <= LARGEST_PRIORITY):
        return values
    if not np.isfinite(values).all():
        raise NonFiniteError("priority", f"priority holds {values[~np.isfinite(values)][0]}, expected finite numbers")
    wrong = values[(values < SMALLEST_PRIORITY) | (values > LARGEST_PRIORITY)][0]
    raise ValueError(f"priority holds {wrong}, expected numbers from {SMALLEST_PRIORITY} to {LARGEST_PRIORITY}")


def smallest(values: Floats) -> float:
    """Return the minimum, or NaN if there is a NaN. For few numbers this is four times as fast as `values.min()`."""
    return values.item(values.argmin())


def largest(values: Floats) -> float:
    """Return the maximum, or NaN if there is a NaN."""
    return values.item(values.argmax())


class PrioritizedBuffer(Generic[T]):
    """Queue of any objects, sampled in proportion to their priorities.

    After each sample, the caller sets the priorities of the sampled items with `set_last_priority`.

    Args:
        capacity: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.
        wait_priority_after_sampling: True to raise an error if a sample is drawn before the priorities of the last
            sample are set.
        initial_max_priority: Priority of new items, as long as no larger priority has been set.

    Raises:
        ValueError: If capacity or initial_max_priority is not positive.
        TypeError: If capacity is not an integer.
    """

    @takes_integral_floats
    def __init__(
        self, capacity: int | None = None, wait_priority_after_sampling: bool = True, initial_max_priority: float = 1.0
    ) -> None:
        check_counts(optional=True, capacity=capacity)
        self.capacity, self.wait_priority_after_sampling = capacity, wait_priority_after_sampling
        self.data: RandomAccessQueue[T] = RandomAccessQueue()
        self._priorities = Priorities(initial_max_priority)
        self._sampled: Index | None = None

    @property
    def max_priority(self) -> float:
        """Maximum priority so far. New items get this priority."""
        return self._priorities.max_priority

    @property
    def priority_sums(self) -> Floats:
        """Copy of the priorities, oldest first, [len]. As for PFRL's trees, `sum()` and `min()` are over all items."""
        return self._priorities.to_array()

    priority_mins = priority_sums

    def __len__(self) -> int:
        return len(self.data)

    def append(self, value: T, priority: float | None = None) -> None:
        """Add an item. If `priority` is None, the item has the maximum priority so far.

        Raises:
            ValueError: If the priority is not positive and finite.
        """
        if priority is not None:
            check_priorities(priority)
        if len(self) == self.capacity:
            self.popleft()
        self.data.append(value)
        self._priorities.append()
        if priority is not None:
            self._priorities.set([self._priorities.end - 1], [priority])

    def popleft(self) -> T:
        """Remove the oldest item and return it.

        Raises:
            IndexError: If the buffer is empty.
        """
        value = self.data.popleft()
        self._priorities.popleft()
        return value

    def sample(
        self, n: int, uniform_ratio: float = 0.0, rng: RandomSource = None
    ) -> tuple[list[T], list[float], float]:
        """Draw n distinct items.

        Args:
            n: Number of items.
            uniform_ratio: Probability that a draw is uniform and ignores the priorities, from 0 to 1.
            rng: NumPy generator; None uses the global NumPy stream.

        Returns:
            The items, the sampling probability of each item, and the minimum sampling probability over all stored
            items.

        Raises:
            ValueError: If n is negative or larger than the buffer, or uniform_ratio is outside [0, 1].
            RuntimeError: If the priorities of the last sample are not set yet.
        """
        if not 0 <= n <= len(self):
            raise ValueError(f"cannot draw n={n} distinct items from a buffer of {len(self)}")
        check_uniform_ratio(uniform_ratio)
        if self.wait_priority_after_sampling and self._sampled is not None:
            raise RuntimeError("call set_last_priority before sample, or set wait_priority_after_sampling=False")
        index, probability = self._priorities.draw(n, uniform_ratio, rng)
        self._sampled = index
        values = [self.data[i] for i in (index - self._priorities.first).tolist()]
        return values, probability.tolist(), self._priorities.min_probability(uniform_ratio)

    def set_last_priority(self, priority: Sequence[float]) -> None:
        """Set the priorities of the items of the last sample, in the order of the sample.

        Raises:
            ValueError: If a priority is not positive and finite, or if the number of priorities differs from the number
                of sampled items.
            RuntimeError: If nothing was sampled since the last call.
        """
        if self._sampled is None:
            raise RuntimeError("set_last_priority: nothing was sampled since the last call; call sample first")
        self._priorities.update(self._sampled, priority)
        self._sampled = None


def check_uniform_ratio(uniform_ratio: float) -> None:
    """Check that `uniform_ratio` is a probability.

    Raises:
        ValueError: If uniform_ratio is outside [0, 1].
    """
    if not 0.0 <= uniform_ratio <= 1.0:
        raise ValueError(f"uniform_ratio must be from 0 to 1, got {uniform_ratio}")


__getattr__ = old_names(__name__)
