"""A sum tree whose operations work on whole arrays of slots."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.random import RandomSource

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

BRANCHING_BITS = 6
BRANCHING = 1 << BRANCHING_BITS
WIDEST_ROOT = 4096
MOST_MARKS = 1024
_JUST_BELOW_ONE = 1.0 - 2.0**-53


class SumTree:
    """Non-negative weights of `size` slots, drawn in proportion to their weight.

    The slots are the leaves; a parent holds the sum of a block of 64 children, and the root is a plain array of up to
    4096 sums, so that 262,144 slots are two levels. Writing only marks slots; the next question recomputes the parents
    of all marked ones from their children, which keeps no rounding error of earlier weights. One write, one draw or one
    minimum costs O(n * levels) vectorised operations.

    Args:
        size: Number of slots; all weights start at 0, which stands for an empty slot.

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
        """Weights of `slots`, any index that NumPy understands; a copy."""
        return np.array(self._sums[0][: self._size][slots])

    def __setitem__(self, slots: Slots, weights: Any) -> None:
        """Write weights, 0 or from 1e-200 to 1e200, [n] or one for all; of a repeated slot the last one counts."""
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
        """Draw n slots independently, each with probability weight / total; slots of weight 0 never come.

        Args:
            n: How many.
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
        """Draw n slots one after the other, each in proportion to its weight among those not drawn yet.

        Independent draws from which repeats are dropped have exactly this distribution. Where a few slots hold
        nearly all the weight, those already drawn are emptied while the others are drawn.

        Args:
            n: How many.
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
        found.update(dict.fromkeys(self.draw(n, rng).tolist()))  # most repeats come by chance
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
                self._refresh_mins(depth, blocks)
            slots = blocks
        np.add.accumulate(self._sums[-1], out=self._root_ends[1:])

    def _refresh_mins(self, depth: int, blocks: Slots) -> None:
        assert self._mins is not None
        if depth == 1:
            children = _where_positive(_blocks_of(self._sums[0]).take(blocks, axis=0))
        else:
            children = _blocks_of(self._mins[depth - 2]).take(blocks, axis=0)
        self._mins[depth - 1][blocks] = children.min(axis=1)


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
