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
from pfrl_like.runs.environment_record import numeric_circumstances
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.secrets import masked_text
from pfrl_like.utils.plain_values import from_json, to_json

#: Most levels of nested JSON values in the state of a part; the file allows 32.
_LEVELS = 28
#: Exceptions of `restore_state` for the state of something else.
_OF_ANOTHER = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_CUT = "training ended in the middle of an episode, so that a new one begins"
#: Characters; longer texts hold data, not counters.
_LONGEST = 1 << 20
_NOT_OF_FILES = re.compile(r"[^A-Za-z0-9_.-]+")


class RunState:
    """The state of a run that `Checkpoints` saves and `resume=True` restores.

    Args:
        agent: The agent; its own saved state is not part of this.
        env: Environments of the user, which may hold random streams.
        source: Source of the training steps.
        parts: All other objects that may have state, in the same order in every process: callbacks, hooks, loggers.
            Those with `saved_state` and `restore_state` (see `loop.Resumable`), or with `state_dict` and
            `load_state_dict`, are restored.
    """

    def __init__(self, agent: Any, env: Any, source: Any, parts: Sequence[Any]) -> None:
        self.agent, self.env, self.source = agent, env, source
        self.parts = dict(_named(parts))
        self._all = parts

    def saved(self, clock: Clock, unsaved: Sequence[str] = ()) -> dict[str, Any]:
        """The complete state between two ticks, as JSON can represent it; the random streams are not changed.

        Args:
            clock: Clock of the run.
            unsaved: Reasons why something else that belongs to the run is not completely saved.

        Returns:
            The argument of `restore`. "resume" is "exact", or "approximate" if later steps may differ from those of an
            uninterrupted run; then "reasons" gives the reasons.
        """
        streams = self._streams()
        before = streams.to_plain()  # the user's code below may draw random numbers
        reasons, parts = [], {}
        for name, part in self.parts.items():
            try:
                told = part.saved_state() if hasattr(part, "saved_state") else part.state_dict()
                parts[name] = to_json(told, _LEVELS)
            except Exception as error:  # raised by the user's code
                reasons.append(f"the state of {name} cannot be saved: {error!r:.200}")
        source = self._source(clock, reasons)
        reasons += _put_back(streams, before)
        reasons += [f"{name} may draw random numbers, and its state is not known" for name in streams.unknown]
        reasons = [*dict.fromkeys(map(masked_text, [*reasons, *unsaved, *_of_agent(self.agent)]))]
        return {
            "t": clock.t, "episodes": clock.episodes, "source": source, "parts": parts, "streams": before,
            "agent_t": getattr(self.agent, "t", None),  # differs from the clock's if the agent only updates
            "resume": "approximate" if reasons else "exact", "reasons": reasons, **numeric_circumstances(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Restore what `saved` returned; the random streams come last, since the other parts may draw random numbers.

        Returns:
            Reasons why later steps may differ from those of an uninterrupted run; empty if they do not.

        Raises:
            KeyError, TypeError, ValueError: If the state belongs to something else.
        """
        reasons = [*state["reasons"], *_differences(state), *_unsaved(self.agent)]
        if hasattr(self.agent, "t"):
            self.agent.t = state["agent_t"]
        for name, part in self.parts.items():
            if name in state["parts"]:
                reasons += _restore(name, part, from_json(state["parts"][name]))
            else:
                reasons.append(f"nothing is known of {name}")
        gone = [name for name in state["parts"] if name not in self.parts]
        reasons += [f"{name}, of which the state was saved, is not there" for name in gone]
        if state["source"] is not None:
            reasons += self.source.restore_state(state["source"])
        reasons += _put_back(self._streams(), state["streams"])
        return [*dict.fromkeys(map(masked_text, reasons))]

    def flush(self) -> None:
        """Write all buffered data to the files."""
        for part in self._all:
            getattr(part, "flush", lambda: None)()

    def _source(self, clock: Clock, reasons: list[str]) -> dict[str, Any] | None:
        """The state of the source; None if the source cannot resume from it.

        Reasons why the state may be incomplete are appended to `reasons`.
        """
        try:
            source: dict[str, Any] = self.source.saved_state()
        except Exception as error:  # raised by the user's code
            reasons.append(f"the state of {type(self.source).__name__} cannot be saved: {error!r:.200}")
            return None
        if not clock.between_episodes and source.get("running") is False:
            reasons.append(_CUT)
            return None
        reasons += _of_unknown_ways(source)
        return source

    def _streams(self) -> Streams:
        drawing = (part for part in (self.source, *self._all) if hasattr(type(part), "draws_from"))  # mocks have all
        owners = [owner for part in drawing for owner in part.draws_from]
        others = (part for part in self._all if not hasattr(part, "saved_state"))
        return Streams.of(self.agent, self.env, *owners, *others)


def restore_part(part: Any, state: Mapping[str, Any]) -> None:
    """Restore one part, the first of its class, from the state of a whole run, if the state has it."""
    for name, _ in _named([part]):
        if name in state["parts"]:
            _restore(name, part, from_json(state["parts"][name]))


def _named(parts: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The parts whose state can be saved, under unique names."""
    names = Counter[str]()
    for part in parts:
        if hasattr(part, "saved_state") or (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            name = type(part).__name__
            names[name] += 1
            yield (name if names[name] == 1 else f"{name}-{names[name]}"), part


def _restore(name: str, part: Any, state: Any) -> Sequence[str]:
    """Restore a part; return reasons why it may continue differently.

    Raises:
        KeyError, TypeError, ValueError: By a part with `restore_state`, if the state belongs to something else.
    """
    resumable = hasattr(part, "saved_state")
    try:
        if resumable:
            return part.restore_state(state) or ()
        part.load_state_dict(state)
    except Exception as error:  # raised by the user's code
        if resumable and isinstance(error, _OF_ANOTHER):
            raise
        return [f"{name} did not take up its state: {error!r:.200}"]
    return ()


def _put_back(streams: Streams, plain: Mapping[str, Any]) -> Sequence[str]:
    """Restore the random streams; return a message about those that cannot be restored."""
    try:
        streams.restore(plain)
    except ValueError as error:
        return [str(error)]
    return ()


def _of_unknown_ways(told: Any) -> Iterator[str]:
    """Reasons, in the state of a source, why an environment or a dataset cannot be restored."""
    if isinstance(told, Mapping) and "way" in told:
        if told["way"] == "unknown":
            yield str(told["reason"])
    elif isinstance(told, Mapping | list):
        for part in told.values() if isinstance(told, Mapping) else told:
            yield from _of_unknown_ways(part)


def _of_agent(agent: Any) -> list[str]:
    """Reasons why an agent that was saved and loaded may continue differently."""
    reasons = [*_unsaved(agent)]
    if getattr(agent, "is_compiled", False) is True:
        reasons.append("the first update of a process is made before the agent is compiled")
    if str(getattr(agent, "device", "cpu")).startswith("cuda") and not torch.are_deterministic_algorithms_enabled():
        reasons.append("GPUs add in any order, unless torch.use_deterministic_algorithms(True) was called")
    return reasons


def _unsaved(agent: Any) -> Sequence[str]:
    """Reasons that an agent gives for state that it does not save, or did not restore when it was loaded."""
    return agent.unsaved() if hasattr(type(agent), "unsaved") else ()  # mocks have all


def _differences(state: Mapping[str, Any]) -> list[str]:
    now = numeric_circumstances()
    return [
        f"{name} was {before!r} and is {now[kind].get(name)!r}"
        for kind in now
        for name, before in state[kind].items()
        if now[kind].get(name) != before and name not in ("pfrl_like", "system", "cores")
    ]


class OwnAttributes:
    """The attributes of an object that training changes, as a part of a run (see `loop.Resumable`).

    It has to be made before training starts. Attributes that keep their values are not saved: they come from the
    constructor of the object. Changed attributes are restored if they are numbers, flags, text, arrays, tensors, or
    lists, tuples and dicts of such. Other attributes that are new or were replaced are reported as not saved. Changes
    inside further objects, and in more than a mebibyte of data, are not covered; those objects have to save them.
    Random generators inside any of them are restored with the random streams of the run.

    Args:
        owner: The object.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._begun = {name: (value, _text_of(value)) for name, value in _attributes_of(owner)}

    @property
    def draws_from(self) -> tuple[Any, ...]:
        """The object, which may draw random numbers from its own generators."""
        return (self._owner,)

    def saved_state(self) -> dict[str, Any]:
        """The changed values, and the names of changed attributes that cannot be saved."""
        changed = dict(self._changed())
        lost = [name for name, text in changed.items() if text is None]
        return {"values": {name: json.loads(text) for name, text in changed.items() if text is not None}, "lost": lost}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Restore what `saved_state` returned; return messages about attributes that were not saved."""
        for name, value in state["values"].items():
            setattr(self._owner, name, from_json(value))
        kind = type(self._owner).__name__
        return [f"{name} of {kind} changed and is not saved: saved_state may tell of it" for name in state["lost"]]

    def _changed(self) -> Iterator[tuple[str, str | None]]:
        """The names of the changed attributes, and their values as text."""
        for name, value in _attributes_of(self._owner):
            before, text_before = self._begun.get(name, (None, None))
            text = _text_of(value)
            if name not in self._begun or text != text_before or (text is None and value is not before):
                yield name, text


def _attributes_of(owner: Any) -> list[tuple[str, Any]]:
    return [*getattr(owner, "__dict__", {}).items()]


def _text_of(value: Any) -> str | None:
    """A value as text; None if `from_json` would not restore it, or it is too large."""
    try:
        if _nbytes_of(value) > _LONGEST:
            return None
        plain = to_json(value)
        text = json.dumps(plain)
        return text if len(text) <= _LONGEST and type(from_json(plain)) is type(value) else None
    except Exception:  # raised by the user's code
        return None


def _nbytes_of(value: Any) -> int:
    """The bytes of the arrays and tensors in a value."""
    if isinstance(value, Mapping | list | tuple):
        return sum(map(_nbytes_of, value.values() if isinstance(value, Mapping) else value))
    return getattr(value, "nbytes", 0)


def find_buffers(*owners: Any) -> tuple[dict[str, AbstractReplayBuffer], list[str]]:
    """Find the replay buffers that an agent or a source may have stored something in.

    Returns:
        The replay buffers, by names that are valid folder names, and reasons why stored data cannot be saved. A buffer
        that is an attribute of an owner has the name of that attribute. A nested buffer is named by the attributes on
        the path to it. Data cannot be saved if it is in an object that looks like a replay buffer and is not an
        `AbstractReplayBuffer`.
    """
    named: dict[str, Any] = {}
    for owner in owners:  # first, so that a longer path does not give them another name
        for name, value in getattr(owner, "__dict__", {}).items():
            if _is_like_a_buffer(value) and all(value is not other for other in named.values()):
                named[_free(name, named)] = value
    known, reached = [*named.values()], Reachable(_is_like_a_buffer)
    for owner in owners:
        reached.visit(owner, "")
    for path, value in reached.found.items():
        if all(value is not other for other in known):
            named[_free(_NOT_OF_FILES.sub("-", path).strip(".-"), named)] = value
    buffers = {name: value for name, value in named.items() if isinstance(value, AbstractReplayBuffer)}
    unsaved = [
        f"{name} is {type(value).__name__}, which is no AbstractReplayBuffer, so that what it holds is not saved"
        for name, value in named.items()
        if name not in buffers
    ]
    return buffers, unsaved


def buffers_of(*owners: Any) -> dict[str, AbstractReplayBuffer]:
    """The replay buffers that `find_buffers` finds."""
    return find_buffers(*owners)[0]


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number appended if it is already taken."""
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
