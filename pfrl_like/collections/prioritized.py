"""Queues with priority sampling, implemented with sum trees (arXiv:1511.05952, section 3.3)."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.errors import NonFiniteError
from pfrl_like.utils.random import RandomSource, sample_n_k

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

BRANCHING_BITS = 6
BRANCHING = 1 << BRANCHING_BITS
WIDEST_ROOT = 4096
MOST_MARKS = 1024
_JUST_BELOW_ONE = 1.0 - 2.0**-53
T = TypeVar("T")
Index = NDArray[np.int64]
SMALLEST_SIZE = 64
LARGEST_SPARE = 1 << 24  # most slots of a saved tree that is larger than its items need
SMALLEST_PRIORITY, LARGEST_PRIORITY = 1e-200, 1e200  # sums of any number of them neither overflow nor lose digits


class SumTree:
    """Non-negative weights of `size` slots, drawn in proportion to their weight.

    The slots are the leaves; a parent holds the sum of a block of 64 children, and the root is a plain array of up to
    4096 sums, so that 262,144 slots take two levels. A write only marks slots. The next query recomputes the parents of
    all marked slots from their children, so rounding errors of earlier weights do not accumulate. One write, one draw
    or one minimum costs O(n * levels) vectorised operations.

    Args:
        size: Number of slots; all weights start at 0, the weight of an empty slot.

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
        """A copy of the weights of `slots`, any NumPy index."""
        return np.array(self._sums[0][: self._size][slots])

    def __setitem__(self, slots: Slots, weights: Any) -> None:
        """Set weights, 0 or from 1e-200 to 1e200, shape [n] or one for all; the last one of a repeated slot counts."""
        self._sums[0][slots] = weights
        self._marked.append(slots)
        if len(self._marked) == MOST_MARKS:
            self._refresh()

    def take(self, slots: Slots) -> Floats:
        """Weights of `slots`, shape [n]; the fastest way to read them."""
        return self._sums[0].take(slots)

    def total(self) -> float:
        """Sum of all weights."""
        self._refresh()
        return self._root_ends.item(-1)

    def min(self) -> float:
        """Smallest positive weight, infinity if there is none."""
        if self._mins is None:
            self._mins = [np.full(len(level), np.inf) for level in self._sums[1:]]
            self._marked.append(np.arange(self._size))
        self._refresh()
        root = self._mins[-1] if self._mins else _where_positive(self._sums[0])
        return float(root.min())

    def draw(self, n: int, rng: RandomSource = None) -> Slots:
        """Draw n slots independently, each with probability weight / total; slots of weight 0 are never drawn.

        Args:
            n: Number of slots.
            rng: Source of randomness; None is the global NumPy stream.

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

        Independent draws from which repeats are dropped have exactly this distribution. If a few slots hold nearly all
        the weight, the drawn ones are emptied while the others are drawn.

        Args:
            n: Number of slots.
            rng: Source of randomness; None is the global NumPy stream.
            exclude: Distinct slots that count as drawn already.

        Returns:
            Distinct slots in the order of the draw, shape [n].

        Raises:
            ValueError: If fewer than n slots have a positive weight.
        """
        n_excluded = 0 if exclude is None else len(exclude)
        drawn = self.draw(n, rng)
        found = dict.fromkeys([] if exclude is None else exclude.tolist())
        found.update(dict.fromkeys(drawn.tolist()))
        if len(found) == n_excluded + n:
            return drawn
        found.update(dict.fromkeys(self.draw(n, rng).tolist()))  # if repeats were chance, a second draw is enough
        if len(found) < n_excluded + n:
            self._draw_others(found, n_excluded + n, rng)
        return np.fromiter(found, np.int64, len(found))[n_excluded : n_excluded + n]

    def _draw_others(self, found: dict[int, None], n: int, rng: RandomSource) -> None:
        """Add further slots to `found` until it holds n."""
        emptied: list[tuple[Slots, Floats]] = []
        try:
            while len(found) < n:
                slots = np.fromiter(found, np.int64, len(found))
                emptied.append((slots, self.take(slots)))
                self[slots] = 0.0
                found.update(dict.fromkeys(self.draw(n - len(found), rng).tolist()))
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
    """Child of each block in which `point` [n] falls, and the offset of the point inside the child."""
    children = _blocks_of(level).take(blocks, axis=0)
    ends = np.add.accumulate(children, axis=1)
    # Rounding must not carry a point into the empty children at either end of its block.
    point = np.minimum(point, ends[:, -1] * _JUST_BELOW_ONE)
    child = (ends > point[:, None]).argmax(axis=1)
    slots: Slots = (blocks << BRANCHING_BITS) + child
    if not is_last:
        rows = np.arange(len(point))
        point = np.maximum(point - (ends[rows, child] - children[rows, child]), 0.0)
    return slots, point


class Priorities:
    """Priorities of a queue of items with sequence numbers: `first` is the oldest item, `end` the next new one.

    Item i is in slot i % size of a sum tree that doubles when it is too small. Changes by `append` and `popleft` are
    written to the tree together, before the next query. The items that a random number draws depend on the size.

    Args:
        max_priority: Largest priority so far, the priority of new items.
        first: Sequence number of the first new item.
        size: Initial number of slots, a power of two; None for 64.
    """

    def __init__(self, max_priority: float = 1.0, first: int = 0, size: int | None = None) -> None:
        self.max_priority = float(check_priorities(max_priority))
        self.first = self.end = first
        self._cleared = self._written = first  # items before the former are removed, those before the latter are added
        self._tree = SumTree(size or SMALLEST_SIZE)

    def __len__(self) -> int:
        return self.end - self.first

    def append(self, count: int = 1) -> None:
        """Add items at the end, with the largest priority so far."""
        self.end += count

    def popleft(self, count: int = 1) -> None:
        """Remove the oldest items."""
        self.first += count

    def draw(self, n: int, uniform_ratio: float = 0.0, rng: RandomSource = None) -> tuple[Index, Floats]:
        """Draw n distinct items in sequence, each in proportion to its priority among the items not drawn yet.

        Args:
            n: Number of items, at most the length.
            uniform_ratio: Probability of each draw to be uniform instead, from 0 to 1.
            rng: Source of randomness; None is the global NumPy stream.

        Returns:
            Sequence numbers in the order of the draw, and the probability of each in the first draw, each of shape [n].
        """
        self._flush()
        exclude = None
        if uniform_ratio > 0.0:
            source: Any = np.random if rng is None else rng
            exclude = self._slots(self.first + sample_n_k(len(self), int(source.binomial(n, uniform_ratio)), rng))
        slots = self._tree.draw_distinct(n if exclude is None else n - len(exclude), rng, exclude)
        if exclude is not None:
            slots = np.concatenate([exclude, slots])
        index = self.first + ((slots - self.first) & (len(self._tree) - 1))
        return index, self._probability(self._tree.take(slots), uniform_ratio)

    def min_probability(self, uniform_ratio: float = 0.0) -> float:
        """Smallest probability of any item in a first draw, infinity if there is no item."""
        if self.first == self.end:
            return float("inf")
        self._flush()
        return float(self._probability(np.float64(self._tree.min()), uniform_ratio))

    def set(self, index: ArrayLike, priority: ArrayLike) -> Floats:
        """Set the priorities of items; items that have been removed are skipped.

        Args:
            index: Sequence numbers, shape [n]; the last priority of a repeated one counts.
            priority: Their priorities, shape [n].

        Returns:
            The priorities that were set.

        Raises:
            ValueError: If a priority is not positive, a number belongs to no item so far, or the lengths differ;
                nothing is changed.
            NonFiniteError: If a priority is not finite; nothing is changed.
        """
        index, priority = np.asarray(index, np.int64), np.asarray(priority, np.float64)
        if index.ndim != 1 or index.shape != priority.shape:
            raise ValueError(f"index and priority have shapes {index.shape} and {priority.shape}, expected [n] and [n]")
        check_priorities(priority)
        age = (index - self.first).view(np.uint64)  # huge for an item that has been removed
        if age.max(initial=0) >= len(self):
            if index.max(initial=-1) >= self.end:  # an empty index is allowed, also in an empty queue
                raise ValueError(f"index holds {index.max()}, but the newest item has the number {self.end - 1}")
            alive = index >= self.first
            index, priority = index[alive], priority[alive]
        self._flush()
        self._tree[self._slots(index)] = priority
        return priority

    def update(self, index: ArrayLike, priority: ArrayLike) -> None:
        """Set the priorities of items like `set`, and update the largest priority so far."""
        written = self.set(index, priority)
        if len(written):
            self.max_priority = max(self.max_priority, largest(written))

    def to_array(self) -> Floats:
        """Priorities of all items, oldest first, shape [len]; the tree is not changed, since draws depend on it."""
        written = self._of_written()
        return np.concatenate([written, np.full(len(self) - len(written), self.max_priority)])

    def layout(self) -> dict[str, int]:
        """Number of slots of the tree, and of items written to it; besides the priorities, draws depend on these."""
        return {"size": len(self._tree), "written": len(self._of_written())}

    @classmethod
    def from_array(
        cls, priority: ArrayLike, max_priority: float, first: int = 0, layout: Mapping[str, int] | None = None
    ) -> "Priorities":
        """Rebuild priorities from the result of `to_array`.

        Args:
            priority: The priorities, oldest first, shape [n].
            max_priority: Largest priority so far.
            first: Sequence number of the oldest item.
            layout: The result of `layout`, so that the same random numbers draw the same items; None for all items in
                the smallest tree. A layout that is far too large is made smaller.

        Raises:
            ValueError: If a priority is not positive, there is more than one dimension, or the layout is impossible.
            NonFiniteError: If a priority is not finite.
        """
        values = np.asarray(priority, np.float64)
        size, written = (None, len(values)) if layout is None else _checked_layout(layout, len(values))
        priorities = cls(max_priority, first, size)
        priorities.append(written)
        priorities.set(np.arange(first, priorities.end), values[:written])
        if (values[written:] != priorities.max_priority).any():
            raise ValueError(f"new items have other priorities than the largest so far, {priorities.max_priority}")
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
        """Empty the slots of removed items, then fill those of new ones, which may be the same slots."""
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

    def _of_written(self) -> Floats:
        """Priorities of the items that are in the tree, oldest first."""
        return self._tree[self._slots(np.arange(self.first, max(self.first, self._written)))]

    def _grow(self) -> None:
        weights = self._of_written()
        self._tree = SumTree(_size_for(len(self)))
        self._tree[self._slots(np.arange(self.first, self.first + len(weights)))] = weights
        self._cleared = self.first


def _size_for(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _checked_layout(layout: Mapping[str, int], n: int) -> tuple[int, int]:
    """Size, limited to what may be allocated, and number of written items, of a checked layout of n items."""
    size, written = int(layout["size"]), int(layout["written"])
    if size.bit_count() != 1 or not 0 <= written <= min(n, size):
        raise ValueError(f"{written} of {n} items in a tree of {size} slots: expected a power of two that holds them")
    return min(size, max(LARGEST_SPARE, _size_for(n))), written


def check_priorities(priority: ArrayLike) -> Floats:
    """The priorities as float64, checked to be positive and summable.

    Raises:
        NonFiniteError: If one is NaN or infinite.
        ValueError: If one is not from 1e-200 to 1e200, the range that floating point can sum.
    """
    values = np.asarray(priority, np.float64)
    if values.size == 0 or (smallest(values) >= SMALLEST_PRIORITY and largest(values) <= LARGEST_PRIORITY):
        return values
    if not np.isfinite(values).all():
        raise NonFiniteError("priority", f"priority holds {values[~np.isfinite(values)][0]}, expected finite numbers")
    wrong = values[(values < SMALLEST_PRIORITY) | (values > LARGEST_PRIORITY)][0]
    raise ValueError(f"priority holds {wrong}, expected numbers from {SMALLEST_PRIORITY} to {LARGEST_PRIORITY}")


def smallest(values: Floats) -> float:
    """The smallest number, NaN if there is one; for few numbers it takes a quarter of the time of `values.min()`."""
    return values.item(values.argmin())


def largest(values: Floats) -> float:
    """The largest number, NaN if there is one."""
    return values.item(values.argmax())


class PrioritizedBuffer(Generic[T]):
    """Queue of any objects, drawn in proportion to their priorities, which are set after each draw.

    Args:
        capacity: Largest number of items, beyond which the oldest are removed; None if unbounded.
        wait_priority_after_sampling: True to refuse a draw before the priorities of the last one are set.
        initial_max_priority: Priority of new items until a larger one is set.

    Raises:
        ValueError: If capacity or initial_max_priority is not positive.
    """

    def __init__(
        self,
        capacity: int | None = None,
        wait_priority_after_sampling: bool = True,
        initial_max_priority: float = 1.0,
    ) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be None or at least 1, got {capacity}")
        self.capacity = capacity
        self.wait_priority_after_sampling = wait_priority_after_sampling
        self.data: RandomAccessQueue[T] = RandomAccessQueue()
        self._priorities = Priorities(initial_max_priority)
        self._sampled: Index | None = None

    @property
    def max_priority(self) -> float:
        """Largest priority so far, the priority of new items."""
        return self._priorities.max_priority

    def __len__(self) -> int:
        return len(self.data)

    def append(self, value: T, priority: float | None = None) -> None:
        """Add an item; without a priority it gets the largest one so far.

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
            uniform_ratio: Probability of each draw to be uniform instead, from 0 to 1.
            rng: Source of randomness; None is the global NumPy stream.

        Returns:
            The items, the probability of each in the first draw, and the smallest such probability of any item.

        Raises:
            ValueError: If n is negative or larger than the buffer, or uniform_ratio is outside [0, 1].
            RuntimeError: If the priorities of the last draw are not set yet.
        """
        if not 0 <= n <= len(self):
            raise ValueError(f"cannot draw n={n} distinct items from a buffer of {len(self)}")
        check_uniform_ratio(uniform_ratio)
        if self.wait_priority_after_sampling and self._sampled is not None:
            raise RuntimeError("set_last_priority has to be called before the next sample (or see the constructor)")
        index, probability = self._priorities.draw(n, uniform_ratio, rng)
        self._sampled = index
        values = [self.data[i] for i in (index - self._priorities.first).tolist()]
        return values, probability.tolist(), self._priorities.min_probability(uniform_ratio)

    def set_last_priority(self, priority: Sequence[float]) -> None:
        """Set the priorities of the items of the last draw, in its order.

        Raises:
            ValueError: If one is not positive and finite, or their number differs from that of the drawn items.
            RuntimeError: If nothing was drawn since the last call.
        """
        if self._sampled is None:
            raise RuntimeError("set_last_priority needs a sample before it")
        self._priorities.update(self._sampled, priority)
        self._sampled = None


def check_uniform_ratio(uniform_ratio: float) -> None:
    """Check that `uniform_ratio` is a probability.

    Raises:
        ValueError: If uniform_ratio is outside [0, 1].
    """
    if not 0.0 <= uniform_ratio <= 1.0:
        raise ValueError(f"uniform_ratio must be from 0 to 1, got {uniform_ratio}")
