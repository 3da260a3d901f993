"""A first-in, first-out queue with random access."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.random import RandomSource, sample_n_k

T = TypeVar("T")


class RandomAccessQueue(Generic[T]):
    """Queue whose `append`, `popleft`, indexing and assignment take constant time on average.

    Args:
        iterable: Initial content, oldest item first.
        maxlen: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.

    Raises:
        ValueError: If maxlen is negative.
        TypeError: If maxlen is not an integer.
    """

    @takes_integral_floats
    def __init__(self, iterable: Iterable[T] = (), *, maxlen: int | None = None) -> None:
        check_counts(0, optional=True, maxlen=maxlen)
        self.maxlen = maxlen
        self._items: list[T | None] = list(iterable)  # entries before _start are None: their items were removed
        self._start = 0
        self._apply_maxlen()

    def __len__(self) -> int:
        return len(self._items) - self._start

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r}, maxlen={self.maxlen})"

    def __getitem__(self, i: int) -> T:
        return self._items[self._position(i)]  # type: ignore[return-value]

    def __setitem__(self, i: int, x: T) -> None:
        self._items[self._position(i)] = x

    def append(self, x: T) -> None:
        """Add an item at the end."""
        self._items.append(x)
        self._apply_maxlen()

    def extend(self, xs: Iterable[T]) -> None:
        """Add items at the end."""
        self._items.extend(xs)
        self._apply_maxlen()

    def popleft(self) -> T:
        """Remove the oldest item and return it.

        Raises:
            IndexError: If the queue is empty.
        """
        item = self[0]
        self._items[self._start] = None
        self._start += 1
        if 2 * self._start > len(self._items):
            del self._items[: self._start]
            self._start = 0
        return item

    def sample(self, k: int, rng: RandomSource = None) -> list[T]:
        """Draw k items at distinct positions, uniformly.

        Args:
            k: Number of items.
            rng: NumPy generator; None uses the global NumPy stream.

        Raises:
            ValueError: If k is negative or larger than the queue.
        """
        return [self[i] for i in sample_n_k(len(self), k, rng).tolist()]

    def _position(self, i: int) -> int:
        length = len(self)
        if not -length <= i < length:
            raise IndexError(f"index {i} is out of range for a queue of {length} items")
        return self._start + (i if i >= 0 else i + length)

    def _apply_maxlen(self) -> None:
        if self.maxlen is not None:
            while len(self) > self.maxlen:
                self.popleft()
