"""The state of a run outside the agent: random streams, replay buffers, and the attributes of the user's objects."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from pfrl_like.dataset import MDPDataset
from pfrl_like.random_streams.reachable import Reachable
from pfrl_like.random_streams.streams import Streams
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers.memory import Memory
from pfrl_like.runs.environment_record import versions_and_hardware
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.secrets import masked_text
from pfrl_like.utils.plain_values import from_json, to_json

#: Maximum nesting depth of the JSON values in the state of one object. The file format allows 32.
_MAX_DEPTH = 28
#: Exceptions that `restore_state` of an object raises if it gets the state of a different object.
_WRONG_STATE = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_EPISODE_CUT_OFF = "training ended in the middle of an episode; a new episode starts"
#: Maximum length of the saved value of an attribute in characters. A longer value is data, not a counter.
_LONGEST = 1 << 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class RunState:
    """The state of a run that `Checkpoints` saves and `resume=True` restores.

    Args:
        agent: The agent. Its own state is not part of this state, except its attribute `t` and what it compiles.
        env: Environment that the user passed. It may contain random streams.
        source: Source of training steps.
        parts: All other objects that may have state, such as callbacks, hooks and loggers. A process that resumes the
            run must pass these objects in the same order. Objects with `saved_state` and `restore_state` (see
            `loop.Resumable`), or with `state_dict` and `load_state_dict`, are restored.
    """

    def __init__(self, agent: Any, env: Any, source: Any, parts: Sequence[Any]) -> None:
        self.agent, self.env, self.source = agent, env, source
        compiled = agent.compiled_parts if hasattr(type(agent), "compiled_parts") else ()
        self.parts = dict(_named([*parts, *compiled]))
        self._all = parts

    def saved(self, clock: Clock, unsaved: Sequence[str] = ()) -> dict[str, Any]:
        """Return the complete state between two ticks as JSON values. The call does not change the random streams.

        Args:
            clock: Clock of the run.
            unsaved: Reasons why replay buffers are not completely saved.

        Returns:
            The argument of `restore`. "resume" is "exact", or "approximate" if later steps may differ from the steps of
            an uninterrupted run. In that case, "reasons" contains the reasons.
        """
        streams = self._streams()
        before = streams.to_plain()  # before the user's code below, which may draw random numbers
        reasons, parts = [], {}
        for name, part in self.parts.items():
            try:
                own = part.saved_state() if hasattr(part, "saved_state") else part.state_dict()
                parts[name] = to_json(own, _MAX_DEPTH)
            except Exception as error:  # the user's code may raise any exception
                reasons.append(f"the state of {name} cannot be saved: {error!r:.200}")
        source = self._source(clock, reasons)
        reasons += _restore_streams(streams, before)
        reasons += [f"{name} may draw random numbers, but its state is unknown" for name in streams.unknown]
        reasons = [*dict.fromkeys(map(masked_text, [*reasons, *unsaved, *_reasons_of_agent(self.agent)]))]
        return {
            "t": clock.t, "episodes": clock.episodes, "source": source, "parts": parts, "streams": before,
            "agent_t": getattr(self.agent, "t", None),  # may differ from clock.t, for example in offline training
            "resume": "approximate" if reasons else "exact", "reasons": reasons, **versions_and_hardware(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Restore the result of `saved`. Random streams are restored last, because all other objects may use them.

        Returns:
            Reasons why later steps may differ from the steps of an uninterrupted run. The list is empty if later steps
            are equal.

        Raises:
            KeyError, TypeError, ValueError: If an object cannot restore its saved state.
        """
        reasons = [*state["reasons"], *_differences(state), *_unsaved(self.agent)]
        if hasattr(self.agent, "t"):
            self.agent.t = state["agent_t"]
        for name, part in self.parts.items():
            if name in state["parts"]:
                reasons += _restore(name, part, from_json(state["parts"][name]))
            else:
                reasons.append(f"the checkpoint has no state for {name}")
        unknown_names = [name for name in state["parts"] if name not in self.parts]
        reasons += [f"the checkpoint has a state for {name}, which this run does not have" for name in unknown_names]
        if state["source"] is not None:
            reasons += self.source.restore_state(state["source"])
        reasons += _restore_streams(self._streams(), state["streams"])
        return [*dict.fromkeys(map(masked_text, reasons))]

    def flush(self) -> None:
        """Write the buffered data of all objects to their files."""
        for part in self._all:
            getattr(part, "flush", lambda: None)()

    def _source(self, clock: Clock, reasons: list[str]) -> dict[str, Any] | None:
        """Return the state of the source; None if the source cannot resume from its current state.

        Reasons why the state may be incomplete are appended to `reasons`.
        """
        try:
            source: dict[str, Any] = self.source.saved_state()
        except Exception as error:  # the user's code may raise any exception
            reasons.append(f"the state of {type(self.source).__name__} cannot be saved: {error!r:.200}")
            return None
        if not clock.between_episodes and source.get("running") is False:
            reasons.append(_EPISODE_CUT_OFF)
            return None
        reasons += _unrestorable_reasons(source)
        return source

    def _streams(self) -> Streams:
        # Check the type of the object: a `Mock` object has every attribute, but its type does not.
        drawing = (part for part in (self.source, *self._all) if hasattr(type(part), "draws_from"))
        owners = [owner for part in drawing for owner in part.draws_from]
        others = (part for part in self._all if not hasattr(part, "saved_state"))
        return Streams.of(self.agent, self.env, *owners, *others)


def restore_part(part: Any, state: Mapping[str, Any]) -> None:
    """Restore one object from the saved state of a run. It must be the first object of its class in that state."""
    for name, _ in _named([part]):
        if name in state["parts"]:
            _restore(name, part, from_json(state["parts"][name]))


def is_restorable(part: Any) -> bool:
    """True if the state of an object can be saved and restored."""
    return hasattr(part, "saved_state") or (hasattr(part, "state_dict") and hasattr(part, "load_state_dict"))


def _named(parts: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield a unique name and the object, for each object whose state can be saved."""
    names = Counter[str]()
    for part in parts:
        if is_restorable(part):
            name = type(part).__name__
            names[name] += 1
            yield (name if names[name] == 1 else f"{name}-{names[name]}"), part


def _restore(name: str, part: Any, state: Any) -> Sequence[str]:
    """Restore an object. Return reasons why it may behave differently than in an uninterrupted run.

    Raises:
        KeyError, TypeError, ValueError: If `restore_state` of the object rejects the state.
    """
    resumable = hasattr(part, "saved_state")
    try:
        if resumable:
            return part.restore_state(state) or ()
        part.load_state_dict(state)
    except Exception as error:  # the user's code may raise any exception
        if resumable and isinstance(error, _WRONG_STATE):
            raise
        return [f"the state of {name} could not be restored: {error!r:.200}"]
    return ()


def _restore_streams(streams: Streams, plain: Mapping[str, Any]) -> Sequence[str]:
    """Restore the random streams. Return a list with a message if some streams cannot be restored."""
    try:
        streams.restore(plain)
    except ValueError as error:
        return [str(error)]
    return ()


def _unrestorable_reasons(state: Any) -> Iterator[str]:
    """Yield the reasons why environments or datasets cannot be restored, read from the state of a source."""
    if isinstance(state, Mapping) and "way" in state:
        if state["way"] == "unknown":
            yield str(state["reason"])
    elif isinstance(state, Mapping | list):
        for part in state.values() if isinstance(state, Mapping) else state:
            yield from _unrestorable_reasons(part)


def _reasons_of_agent(agent: Any) -> list[str]:
    """Return reasons why an agent may behave differently after it was saved and loaded."""
    reasons = [*_unsaved(agent)]
    if str(getattr(agent, "device", "cpu")).startswith("cuda") and not torch.are_deterministic_algorithms_enabled():
        reasons.append("a GPU adds numbers in any order, unless torch.use_deterministic_algorithms(True) was called")
    return reasons


def _unsaved(agent: Any) -> Sequence[str]:
    """Return the result of the agent's method `unsaved`: messages about state that is not saved or not restored."""
    # The class is checked, because a `Mock` object has every attribute.
    return agent.unsaved() if hasattr(type(agent), "unsaved") else ()


def _differences(state: Mapping[str, Any]) -> list[str]:
    now = versions_and_hardware()
    return [
        f"{name} was {before!r} and is {now[kind].get(name)!r}"
        for kind in now
        for name, before in state[kind].items()
        if now[kind].get(name) != before and name not in ("pfrl_like", "system", "cores")
    ]


class OwnAttributes:
    """Saves and restores the attributes of an object that training changes; see `loop.Resumable`.

    Construct this object before training starts. Attributes that do not change are not saved, because the constructor
    of `owner` sets them. A changed attribute is restored if its value is a number, a bool, a string, an array, a
    tensor, or a list, tuple or dict of such values. If a new or changed attribute has a value of another type, a
    message says that it is not saved. Changes inside other objects are not detected: define `saved_state` in their
    classes. Values larger than 1 MiB are not saved. Random generators inside the attributes are restored with the
    random streams of the run.

    Args:
        owner: The object.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._initial = {name: (value, _text_of(value)) for name, value in _attributes_of(owner)}

    @property
    def draws_from(self) -> tuple[Any, ...]:
        """Objects that may contain random generators: only the owner of the attributes."""
        return (self._owner,)

    def saved_state(self) -> dict[str, Any]:
        """Return the values of changed attributes, and the names of changed attributes that cannot be saved."""
        changed = dict(self._changed())
        unsaved = [name for name, text in changed.items() if text is None]
        return {
            "values": {name: json.loads(text) for name, text in changed.items() if text is not None},
            "lost": unsaved,
        }

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Restore the result of `saved_state`. Return messages about attributes that were not saved."""
        for name, value in state["values"].items():
            setattr(self._owner, name, from_json(value))
        kind = type(self._owner).__name__
        return [f"{name} of {kind} changed and is not saved: define saved_state on {kind}" for name in state["lost"]]

    def _changed(self) -> Iterator[tuple[str, str | None]]:
        """Yield the name of each changed attribute, and its value as text."""
        for name, value in _attributes_of(self._owner):
            before, text_before = self._initial.get(name, (None, None))
            text = _text_of(value)
            if name not in self._initial or text != text_before or (text is None and value is not before):
                yield name, text


def _attributes_of(owner: Any) -> list[tuple[str, Any]]:
    return [*getattr(owner, "__dict__", {}).items()]


def _text_of(value: Any) -> str | None:
    """Return a value as JSON text; None if `from_json` would not restore the value, or if the text is too large."""
    try:
        if _nbytes_of(value) > _LONGEST:
            return None
        plain = to_json(value)
        text = json.dumps(plain)
        return text if len(text) <= _LONGEST and type(from_json(plain)) is type(value) else None
    except Exception:  # the user's code may raise any exception
        return None


def _nbytes_of(value: Any) -> int:
    """Return the size of the arrays and tensors in a value, in bytes."""
    if isinstance(value, Mapping | list | tuple):
        return sum(map(_nbytes_of, value.values() if isinstance(value, Mapping) else value))
    return getattr(value, "nbytes", 0)


def find_buffers(*owners: Any) -> tuple[dict[str, AbstractReplayBuffer], list[str]]:
    """Find the replay buffers of an agent or a source.

    Returns:
        A dict of replay buffers, and a list of reasons why data cannot be saved. The keys of the dict are valid folder
        names. If a buffer is an attribute of an owner, its key is the name of the attribute. The key of a nested buffer
        consists of the attributes on the path to the buffer. An object that has the methods of a replay buffer but is
        not an `AbstractReplayBuffer` cannot be saved.
    """
    named: dict[str, Any] = {}
    reached = Reachable(_is_like_a_buffer)
    for owner in owners:
        reached.visit(owner, "")
    attributes = [pair for owner in owners for pair in getattr(owner, "__dict__", {}).items()]
    paths = [(_NOT_IN_NAMES.sub("-", path).strip(".-"), value) for path, value in reached.found.items()]
    # The attributes of the owners come first, so that a buffer gets the shortest of its paths as its name.
    for name, value in attributes + paths:
        if _is_like_a_buffer(value) and all(value is not other for other in named.values()):
            named[_unique_name(name, named)] = value
    buffers = {name: value for name, value in named.items() if isinstance(value, AbstractReplayBuffer)}
    unsaved = [
        f"{name} is {type(value).__name__}, which is not an AbstractReplayBuffer; its content is not saved"
        for name, value in named.items()
        if name not in buffers
    ]
    return buffers, unsaved


def buffers_of(*owners: Any) -> dict[str, AbstractReplayBuffer]:
    """Return the replay buffers that `find_buffers` finds."""
    return find_buffers(*owners)[0]


def _unique_name(name: str, taken: dict[str, Any]) -> str:
    """Return the name. If it is already used, append a number."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _is_like_a_buffer(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, AbstractReplayBuffer):
        return True
    return not isinstance(value, MDPDataset | Memory) and hasattr(kind, "append") and hasattr(kind, "sample")
