"""Buffers: which transitions of which episodes a dataset holds, in which order."""

from array import array
from collections.abc import Sequence
from typing import Any, Protocol

from pfrl_like.d3rlpy.dataset.components import EpisodeBase
from pfrl_like.utils.checks import check_counts

_FEWEST_UNUSED = 1024  # entries at the beginning of the lists that are deleted at once


class BufferProtocol(Protocol):
    """Interface of buffers."""

    def append(self, episode: EpisodeBase, index: int) -> None:
        """Add the transition `index` of an episode."""
        ...

    @property
    def episodes(self) -> Sequence[EpisodeBase]:
        """Episodes that have a transition in the buffer."""
        ...

    @property
    def transition_count(self) -> int:
        """Number of transitions."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[EpisodeBase, int]: ...


class _Entries:
    """Transitions as pairs (episode, index), oldest first. An episode is stored once, however many entries it has.

    Args:
        limit: Maximum number of transitions. If None, there is no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._numbers, self._indices, self._first = array("q"), array("q"), 0  # entries before `_first` are unused
        self._episodes: dict[int, EpisodeBase] = {}
        self._counts: dict[int, int] = {}
        self._number_of: dict[int, int] = {}  # by identity of the episode
        self._next_number = 0

    def append(self, episode: EpisodeBase, index: int) -> None:
        """Add the transition `index` of an episode. If the buffer is full, drop the oldest transition.

        Args:
            episode: The episode.
            index: Index of the transition in the episode, from 0.
        """
        number = self._number_of.get(id(episode))
        if number is None:
            number = self._number_of[id(episode)] = self._next_number
            self._next_number += 1
            self._episodes[number], self._counts[number] = episode, 0
        self._numbers.append(number)
        self._indices.append(index)
        self._counts[number] += 1
        if self._limit is not None and self.transition_count > self._limit:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        number = self._numbers[self._first]
        self._first += 1
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._counts[number], self._number_of[id(self._episodes.pop(number))]
        if self._first > max(_FEWEST_UNUSED, self.transition_count):
            del self._numbers[: self._first], self._indices[: self._first]
            self._first = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._number_of = {id(episode): number for number, episode in self._episodes.items()}

    @property
    def episodes(self) -> list[EpisodeBase]:
        """Episodes that have a transition in the buffer, oldest first."""
        return [*self._episodes.values()]

    @property
    def transition_count(self) -> int:
        """Number of transitions."""
        return len(self._indices) - self._first

    def __len__(self) -> int:
        return self.transition_count

    def __getitem__(self, index: int) -> tuple[EpisodeBase, int]:
        at = range(self._first, len(self._indices))[index]
        return self._episodes[self._numbers[at]], self._indices[at]


class InfiniteBuffer(_Entries):
    """Buffer without a limit."""

    def __init__(self) -> None:
        super().__init__()


class FIFOBuffer(_Entries):
    """Buffer that drops the oldest transition when it is full. An episode is dropped with its last transition.

    Args:
        limit: Maximum number of transitions.

    Raises:
        ValueError: If `limit` is less than 1.
        TypeError: If `limit` is not an integer.
    """

    def __init__(self, limit: int) -> None:
        check_counts(limit=limit)
        super().__init__(limit)
