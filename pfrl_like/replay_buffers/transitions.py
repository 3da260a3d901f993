"""Transitions as replay buffers hand them out: PFRL's lists of dicts, through which what is stored can be changed."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from pfrl_like.columns import Columns

#: Belongs to a draw: it may be set in every transition, and is not stored.
WEIGHT = "weight"


class StoredTransition(dict[str, Any]):
    """A transition of a replay buffer: assigning a key changes what the buffer samples, in every item that shows it.

    `d[key] = value`, `d.update(...)` and `d |= ...` store a copy of the value, if it fits the column, which the dict
    shows from then on. Keys cannot be added or removed, apart from "weight", which belongs to a draw and is not stored.
    Arrays in it are read-only. As long as somebody has it, its transition is this very object wherever it is handed
    out. Copies of it (`dict(d)`, `{**d}`, `copy.copy(d)`, a pickle) are ordinary dicts.

    Args:
        values: What is stored.
        columns: Where.
        row: In which row.
        edit: Called with this transition and the changes, gives what is stored then. See `ReplayBuffer._edit`.

    Raises:
        ValueError: On an assignment, if the key is none of the buffer's or the value does not fit; nothing is changed.
        LookupError: If the transition has left the buffer, or the buffer was loaded or freed.
        TypeError: If this buffer's transitions cannot be changed, or a key would be removed.
    """

    __slots__ = ("__weakref__", "_columns", "_edit", "_releases", "row")

    def __init__(
        self,
        values: Mapping[str, Any],
        columns: Columns,
        row: int,
        edit: Callable[["StoredTransition", dict[str, Any]], dict[str, Any]],
    ) -> None:
        super().__init__(values)
        self._columns = weakref.ref(columns)
        self.row = row
        self._releases = columns.count_releases().item(row)
        self._edit = edit

    def is_in(self, columns: Columns) -> bool:
        """Whether the transition is still in its row of this store."""
        return self._columns() is columns and columns.count_releases().item(self.row) == self._releases

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change several values; all of them, or none."""
        changes = dict(*args, **kwargs)
        own = {WEIGHT: changes.pop(WEIGHT)} if WEIGHT in changes else {}
        super().update(self._edit(self, changes) if changes else {}, **own)

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __ior__(self, changes: Any) -> Any:  # type: ignore[misc]
        self.update(changes)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key; a new key is refused."""
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: str) -> None:
        self._refuse_removal(key)
        super().__delitem__(key)

    def pop(self, key: str, *default: Any) -> Any:
        """Remove "weight" and return it; other keys are refused."""
        if key in self:
            self._refuse_removal(key)
        return super().pop(key, *default)

    def popitem(self) -> Any:
        """Refused."""
        self._refuse_removal(next(reversed(self)))
        return super().popitem()

    def clear(self) -> None:
        """Refused."""
        self._refuse_removal([*self])

    def _refuse_removal(self, key: Any) -> None:
        if key != WEIGHT:
            raise TypeError(
                f"cannot remove {key!r} from a stored transition, which keeps its keys: make a copy, dict(transition)"
            )

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)


class StoredItem(list[StoredTransition]):
    """The transitions of an item or of an episode, in a list that cannot be changed; copies are ordinary lists."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        """Refused."""
        raise TypeError(
            "this list shows an item of a replay buffer, whose transitions stay the same ones: change the values in "
            "them, such as item[0]['reward'] = 1.0, or make a list of your own, list(item)"
        )

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __copy__(self) -> list[StoredTransition]:
        return list(self)


class HandedOut(weakref.WeakValueDictionary[int, StoredTransition]):
    """The transitions that somebody has, by their rows; a copy of a buffer begins without any."""

    def __reduce__(self) -> Any:
        return type(self), ()

    def __deepcopy__(self, memo: Any) -> "HandedOut":
        return type(self)()
