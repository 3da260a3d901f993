"""What a user's algorithm counts and keeps in attributes of its own, which nobody has told the snapshots of."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pfrl_like.utils.plain_values import from_json, to_json

#: A longer text is of data, not of counters.
_LONGEST = 1 << 20


class OwnAttributes:
    """A part of a run (see `loop.Resumable`): the attributes of an object that training changes.

    It has to be made before anything is learnt. Attributes that stay as they were belong to how the object was made,
    and are left alone. Those that change go on if they are numbers, flags, text, arrays, tensors, or lists, tuples and
    dicts of such; of others that are replaced it says so. What changes inside further objects, and in more than a
    mebibyte of data, is theirs; but generators, wherever in them, go on with the random streams of the run.

    Args:
        owner: The object.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._begun = {name: (value, _text_of(value)) for name, value in _attributes_of(owner)}

    @property
    def draws_from(self) -> tuple[Any, ...]:
        """The object, which may draw from generators of its own."""
        return (self._owner,)

    def saved_state(self) -> dict[str, Any]:
        """The values that changed, and the names of those that cannot be saved."""
        changed = dict(self._changed())
        lost = [name for name, text in changed.items() if text is None and name in self._begun]
        return {"values": {name: json.loads(text) for name, text in changed.items() if text is not None}, "lost": lost}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Take up what `saved_state` gave; says what it lacks."""
        for name, value in state["values"].items():
            setattr(self._owner, name, from_json(value))
        kind = type(self._owner).__name__
        return [f"{name} of {kind} changed and is not saved: saved_state may tell of it" for name in state["lost"]]

    def _changed(self) -> Iterator[tuple[str, str | None]]:
        """The names, and the values as text."""
        for name, value in _attributes_of(self._owner):
            before, text_before = self._begun.get(name, (None, None))
            text = _text_of(value)
            if name not in self._begun or text != text_before or (text is None and value is not before):
                yield name, text


def _attributes_of(owner: Any) -> list[tuple[str, Any]]:
    return [*getattr(owner, "__dict__", {}).items()]


def _text_of(value: Any) -> str | None:
    """A value as text; None of what `from_json` would not give again, or is data."""
    try:
        if _nbytes_of(value) > _LONGEST:
            return None
        plain = to_json(value)
        text = json.dumps(plain)
        return text if len(text) <= _LONGEST and type(from_json(plain)) is type(value) else None
    except Exception:  # of code of the user's
        return None


def _nbytes_of(value: Any) -> int:
    """Bytes of the arrays and tensors in a value."""
    if isinstance(value, Mapping | list | tuple):
        return sum(map(_nbytes_of, value.values() if isinstance(value, Mapping) else value))
    return getattr(value, "nbytes", 0)
