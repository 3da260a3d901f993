"""Stored transitions in PFRL's form: lists of dicts, and the views `memory` and `episodic_memory`."""

import collections
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Columns, rows_of
from pfrl_like.utils.checks import check_rewards
from pfrl_like.utils.random import RandomSource, check_held, sample_n_k

#: Key of the importance weight of a sampled item. It may be set in every transition dict, but is not stored.
WEIGHT = "weight"

#: Function called with a transition and the changes. It returns the stored values.
Edit = Callable[["StoredTransition", dict[str, Any]], dict[str, Any]]


class StoredTransition(dict[str, Any]):
    """A transition of a replay buffer. Assigning to a key changes the stored value in every item that contains it.

    `d[key] = value`, `d.update(...)` and `d |= ...` store a copy of the value if the value matches its column. The dict
    then contains the stored value. Keys cannot be added or removed. The exception is "weight", which belongs to a
    sample and is not stored. Arrays in the dict are read-only. As long as a reference to this object exists, the buffer
    returns the same object for its transition. Copies (`dict(d)`, `{**d}`, `copy.copy(d)`, a pickle) are ordinary
    dicts.

    Args:
        values: The stored values.
        columns: The columns of the buffer.
        row: The row of the transition in the columns.
        edit: Function called with this transition and the changes. It returns the stored values; see
            `ReplayBuffer._edit`.

    Raises:
        ValueError: On an assignment, if the key is not a column of the buffer or the value does not match its column.
            Nothing is changed.
        LookupError: On an assignment, if the transition was removed from the buffer, or the buffer was loaded or freed.
        TypeError: If the transitions of this buffer cannot be changed, or if a key would be removed.
    """

    __slots__ = ("__weakref__", "_columns", "_edit", "_releases", "row")

    def __init__(self, values: Mapping[str, Any], columns: Columns, row: int, edit: Edit) -> None:
        super().__init__(values)
        self._columns = weakref.ref(columns)
        self.row = row
        self._releases = columns.count_releases().item(row)
        self._edit = edit

    def is_in(self, columns: Columns) -> bool:
        """True if the transition is still stored in its row of these columns."""
        return self._columns() is columns and columns.count_releases().item(self.row) == self._releases

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change several values. If an error occurs, no value is changed."""
        changes = dict(*args, **kwargs)
        own = {WEIGHT: changes.pop(WEIGHT)} if WEIGHT in changes else {}
        super().update(self._edit(self, changes) if changes else {}, **own)

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __ior__(self, changes: Any) -> Any:  # type: ignore[misc]
        self.update(changes)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key. If the transition does not have the key, raise an error."""
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: str) -> None:
        self._check_removal(key)
        super().__delitem__(key)

    def pop(self, key: str, *default: Any) -> Any:
        """Remove "weight" and return its value. Other keys cannot be removed."""
        if key in self:
            self._check_removal(key)
        return super().pop(key, *default)

    def _check_removal(self, *keys: str) -> Any:
        """Raise an error, unless "weight" is the only key to remove.

        Raises:
            TypeError: If another key would be removed.
        """
        if keys != (WEIGHT,):
            names = [*keys] or [*self]
            raise TypeError(f"cannot remove {names} from a stored transition: change a copy, dict(step)")

    popitem = clear = _check_removal

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)


class StoredItem(list[StoredTransition]):
    """Read-only list of the transitions of an item or an episode. Copies are ordinary lists."""

    __slots__ = ()

    def _reject_change(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error, because the list is read-only.

        Raises:
            TypeError: Always.
        """
        raise TypeError("this list is read-only: change the values in its transitions, or change a copy, list(item)")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _reject_change
    append = extend = insert = pop = remove = clear = sort = reverse = _reject_change

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __copy__(self) -> list[StoredTransition]:
        return list(self)


class TransitionCache(weakref.WeakValueDictionary[int, StoredTransition]):
    """The `StoredTransition` objects that are still referenced, keyed by row. A copy of a buffer has an empty cache."""

    def build_lists(
        self, columns: Columns, rows: NDArray[np.int64], lengths: Sequence[int], edit: Edit
    ) -> list["StoredItem"]:
        """Return the transitions in these rows, divided into lists. Objects that still exist are returned again.

        Args:
            columns: The columns.
            rows: The rows.
            lengths: Lengths of the lists, in order.
            edit: Function that changes a transition; see `StoredTransition`.
        """
        numbers = rows.tolist()
        objects: dict[int, StoredTransition] = {}  # keeps the objects alive until they are returned
        for row in numbers:
            cached = self.get(row)
            if cached is not None and cached.is_in(columns):
                objects[row] = cached
        new = [row for row in dict.fromkeys(numbers) if row not in objects]
        for row, values in zip(new, columns.transitions(np.array(new, np.int64)), strict=True):
            objects[row] = self[row] = StoredTransition(values, columns, row, edit)
        transitions = (objects[row] for row in numbers)
        return [StoredItem(itertools.islice(transitions, length)) for length in lengths]

    def __reduce__(self) -> Any:
        return type(self), ()

    def __deepcopy__(self, memo: Any) -> "TransitionCache":
        return type(self)()


#: Environment id of steps that are appended through `memory`.
APPENDED = ("memory", 0)
_CHUNK = 256


class Memory(Sequence[Any]):
    """View of the items of a buffer, oldest first. An item is created when it is accessed.

    Args:
        buffer: The buffer.
    """

    _what = "items"

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    @property
    def _first(self) -> int:
        """Sequence number of the oldest item."""
        return int(self.buffer._first)

    @property
    def maxlen(self) -> int | None:
        """Maximum number of items; None if unbounded."""
        maxlen: int | None = self.buffer.capacity
        return maxlen

    def __len__(self) -> int:
        return len(self.buffer)

    def __getitem__(self, i: Any) -> Any:
        numbers = range(self._first, self._first + len(self))[i]
        return self._items_at(numbers) if isinstance(i, slice) else self._items_at(range(numbers, numbers + 1))[0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _CHUNK):
            yield from self[start : start + _CHUNK]

    def __repr__(self) -> str:
        return f"<{len(self)} of {self.maxlen} of {type(self.buffer).__name__}, as lists of transitions>"

    def _items_at(self, numbers: Sequence[int]) -> list[Any]:
        return list(self.buffer._items(np.array(numbers, np.int64)))

    def sample(self, n: int, rng: RandomSource = None) -> Any:
        """Draw distinct items uniformly, even if a subclass overrides `sample`.

        Args:
            n: Number of items.
            rng: NumPy generator. If None, the buffer's generator is used.

        Raises:
            ValueError: If `n` is larger than the number of items.
        """
        check_held("n", n, len(self), self._what)
        drawn = sample_n_k(len(self), n, self.buffer._rng if rng is None else rng)
        return self._items_at((self._first + drawn).tolist())

    def append(self, item: Sequence[Mapping[str, Any]]) -> None:
        """Store an item with one transition. The transition is a dict of the arguments of the buffer's `append`.

        If the observation of the transition equals the next observation of the item that was appended before it, the
        two items belong to the same episode.

        Raises:
            TypeError: If the item has several transitions, or the buffer stores whole episodes.
            ValueError: If a value does not have the shape and type of the first transition. Nothing is stored.
        """
        buffer = self.buffer
        if buffer._horizon == np.inf:
            advice = "call append(state, action, ...) for each step, or episodic_memory.append(steps)"
            raise TypeError(f"memory: {type(buffer).__name__} stores whole episodes: {advice}")
        if not isinstance(item, Sequence) or len(item) != 1 or not isinstance(item[0], Mapping):
            got = f"{len(item)} transitions" if isinstance(item, Sequence) else type(item).__name__
            advice = "for items of several steps, call append for each step, or set memory to your own container"
            raise TypeError(f"item: got {got}, expected a list of one transition dict; {advice}")
        columns, step = buffer._columns, item[0]
        if APPENDED in columns.running and not columns.continues(APPENDED, step["state"]):
            columns.end(APPENDED)
        buffer._store_step(drop_weight(step), APPENDED, cut=buffer.num_steps > 1)

    def extend(self, items: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Store several items."""
        for item in items:
            self.append(item)


class PrioritizedMemory(Memory):
    """View of the items of a prioritised buffer, with the methods of PFRL's `PrioritizedBuffer`."""

    _items_view: type[Memory] = Memory

    @property
    def data(self) -> Memory:
        """View of the items or episodes without priorities."""
        return self._items_view(self.buffer)

    @property
    def max_priority(self) -> float:
        """Maximum priority so far. New items get this priority."""
        return float(self.buffer._priorities.max_priority)

    def append(self, item: Sequence[Mapping[str, Any]], priority: float | None = None) -> None:
        """Store an item with one transition, or an episode. If `priority` is None, the priority is `max_priority`."""
        super().append(item)
        if priority is not None:
            priorities = self.buffer._priorities
            priorities.set([priorities.end - 1], [priority])

    def sample(self, n: int, uniform_ratio: float = 0.0) -> Any:  # type: ignore[override]
        """Draw distinct items by priority.

        Args:
            n: Number of items.
            uniform_ratio: Probability that a draw is uniform and ignores the priorities, from 0 to 1.

        Returns:
            The items, the sampling probability of each item, and the minimum sampling probability over all stored
            items.

        Raises:
            ValueError: If `n` is larger than the number of items.
        """
        check_held("n", n, len(self), "items")
        buffer = self.buffer
        index, probability = buffer._priorities.draw(n, uniform_ratio, buffer._rng)
        buffer._last_index = index
        return self._items_at(index.tolist()), probability.tolist(), buffer._priorities.min_probability(uniform_ratio)

    def set_last_priority(self, priority: Sequence[float]) -> None:
        """Set the priorities of the items of the last sample, in the order of the sample.

        Raises:
            RuntimeError: If nothing was sampled since the last call.
            ValueError: If a priority is not positive and finite, or if the number of priorities differs from the number
                of sampled items.
        """
        buffer = self.buffer
        if buffer._last_index is None:
            raise RuntimeError("set_last_priority: nothing was sampled since the last call; call sample first")
        buffer._priorities.update(buffer._last_index, priority)
        buffer._last_index = None


class EpisodicMemory(Memory):
    """View of the episodes of a buffer, oldest first. An episode, a list of transitions, is created on access."""

    _what = "episodes"

    @property
    def _first(self) -> int:
        return int(self.buffer._first_episode)

    @property
    def maxlen(self) -> None:
        """None, because the capacity counts transitions, not episodes."""
        return

    def __len__(self) -> int:
        return int(self.buffer.n_episodes)

    def _items_at(self, numbers: Sequence[int]) -> list[Any]:
        return [self.buffer._episode(int(number)) for number in numbers]

    def append(self, item: Sequence[Mapping[str, Any]]) -> None:
        """Store an episode, a list with one dict for each step: the arguments of the buffer's `append`.

        Raises:
            ValueError: If the episode has no steps, or has steps after a terminal step. Nothing is stored. The error is
                also raised if a value of a step does not have the shape and type of the first transition. The steps
                before this step are then stored.
        """
        ended = [bool(step.get("is_state_terminal", False)) for step in item]
        if not ended or any(ended[:-1]):
            raise ValueError(f"episode: got {len(ended)} steps, expected at least one; only the last may be terminal")
        for i, step in enumerate(item, 1):
            self.buffer._store_step(drop_weight(step), APPENDED, cut=i == len(item))


class PrioritizedEpisodicMemory(PrioritizedMemory, EpisodicMemory):
    """View of the episodes of a prioritised buffer, with the methods of PFRL's `PrioritizedBuffer`."""

    _items_view = EpisodicMemory


class NewestTransitions:
    """Attribute of a buffer: PFRL's view of the running episodes. A subclass may set it to an object of its own."""

    def __get__(self, buffer: Any, owner: type) -> Any:
        """Return the newest `num_steps` transitions of each running episode, oldest first, keyed by environment id.

        The lists are read-only. The list of an environment without a running episode is empty. All lists are empty if
        the buffer's memory is a container of the user.
        """
        if buffer is None:
            return self
        columns: Columns = buffer._columns
        columns.link_back()
        rows: list[int] = []
        lengths = []
        for run in columns.running.values():
            row, newest = run.tail, []  # type: int, list[int]
            while row and len(newest) < buffer.num_steps:
                newest.insert(0, row)
                row = int(columns.predecessor[row])
            rows += newest
            lengths.append(len(newest))
        lists = buffer._build_lists(np.array(rows, np.int64), lengths)
        return collections.defaultdict(StoredItem, zip(columns.running, lists, strict=True))


class UserMemory:
    """Storage in a container of the user, which a buffer fills with PFRL's items in place of its own columns.

    Args:
        container: Object with `append`, `len` and indexing, for example a list, a deque or a `RandomAccessQueue`. If
            None, nothing can be stored.
        num_steps: Number of transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        capacity: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.
    """

    def __init__(self, container: Any, num_steps: int, capacity: int | None) -> None:
        wanted = ("append", "__len__", "__getitem__")
        if container is not None and not all(hasattr(container, name) for name in wanted):
            expected = "None, or a container with append, len and indexing, for example a RandomAccessQueue"
            raise TypeError(f"memory: got {type(container).__name__}, expected {expected}")
        self.container, self.num_steps, self.capacity = container, num_steps, capacity
        self._windows: dict[Any, list[dict[str, Any]]] = {}  # newest steps of each environment's running episode

    def __len__(self) -> int:
        return 0 if self.container is None else len(self.container)

    def append_batch(self, steps: Mapping[str, Any], terminated: Any, truncated: Any, env_ids: Any) -> None:
        """Store one transition of each of several environments, like `ReplayBuffer.append_batch`.

        Args:
            steps: Columns of the steps' values, keyed by the keys of a transition, each of length k.
            terminated: True where `next_obs` is terminal, length k.
            truncated: True where the episode was truncated after the step, length k.
            env_ids: Ids of the environments, k hashable objects. If None, the ids are 0 to k - 1.
        """
        if self.container is None:
            raise TypeError("memory is None, so the buffer cannot store steps: load a buffer, or assign a container")
        check_rewards(steps["reward"])
        k = len(steps["reward"])
        columns = {"next_action": [None] * k, "is_state_terminal": [bool(end) for end in terminated], **steps}
        values = {name: rows_of(column, k, name) for name, column in columns.items()}
        for i, env_id in enumerate(range(k) if env_ids is None else env_ids):
            window = self._windows.setdefault(env_id, [])
            window.append({name: column[i] for name, column in values.items()})
            if len(window) == self.num_steps:
                self._add(window)
            if terminated[i] or truncated[i]:
                self.stop(env_id)

    def stop(self, env_id: Any) -> None:
        """End the running episode of an environment."""
        window = self._windows.pop(env_id, [])
        while window:
            self._add(window)

    def _add(self, window: list[dict[str, Any]]) -> None:
        """Store an item and remove its first step from the window, so that the next item starts one step later."""
        self.container.append(list(window))
        del window[0]
        while self.capacity is not None and len(self.container) > self.capacity:
            self._pop()

    def sample(self, n: int, rng: RandomSource) -> Any:
        """Draw distinct items. If the container has a method `sample`, call this method."""
        check_held("num_experiences", n, len(self), "items")
        if hasattr(self.container, "sample"):
            return self.container.sample(n)
        return [self.container[i] for i in sample_n_k(len(self), n, rng).tolist()]

    def replace(self, items: Iterable[Any]) -> None:
        """Replace the content of the container with other items."""
        while len(self.container):
            self._pop()
        for item in items:
            self.container.append(item)
        self._windows.clear()

    def _pop(self) -> None:
        self.container.popleft() if hasattr(self.container, "popleft") else self.container.pop(0)


def drop_weight(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a transition without the importance weight."""
    return {name: value for name, value in step.items() if name != WEIGHT}
