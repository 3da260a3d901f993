"""What a run depends on beside its agent and buffers: taken down for a checkpoint, and taken up in another process."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from pfrl_like.random_streams.streams import Streams
from pfrl_like.runs.environment_record import numeric_circumstances
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.secrets import masked_text
from pfrl_like.utils.plain_values import from_json, to_json

#: JSON values within each other that the state of a part may be, in a file that takes 32.
_LEVELS = 28
#: What `restore_state` raises if it is the state of something else.
_OF_ANOTHER = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_CUT = "training ended in the middle of an episode, so that a new one begins"


class RunState:
    """A run as `Checkpoints` saves it and `resume=True` takes it up.

    Args:
        agent: The agent; what it saves itself is not part of this.
        env: Environments of the user's, which may hold random streams.
        source: Where training comes from.
        parts: Everything else that may remember something, in the same order in every process: callbacks, hooks,
            loggers. Those with `saved_state` and `restore_state` (see `loop.Resumable`), or with `state_dict` and
            `load_state_dict`, go on where they were.
    """

    def __init__(self, agent: Any, env: Any, source: Any, parts: Sequence[Any]) -> None:
        self.agent, self.env, self.source = agent, env, source
        self.parts = dict(_named(parts))
        self._all = parts

    def saved(self, clock: Clock, unsaved: Sequence[str] = ()) -> dict[str, Any]:
        """All of it between two ticks, as JSON takes it; the random streams stay as they are.

        Args:
            clock: Where the run is.
            unsaved: Why what else belongs to the run is not all saved.

        Returns:
            What `restore` takes. "resume" is "exact" or, if later steps may differ from those of a run that was not
            stopped, "approximate"; then "reasons" says why.
        """
        streams = self._streams()
        before = streams.to_plain()  # what follows is code of the user's, which may draw
        reasons, parts = [], {}
        for name, part in self.parts.items():
            try:
                parts[name] = to_json(_state_of(part), _LEVELS)
            except Exception as error:  # of code of the user's
                reasons.append(f"the state of {name} cannot be saved: {error!r:.200}")
        source = self._source(clock, reasons)
        reasons += _put_back(streams, before)
        reasons += [f"{name} may draw random numbers, and its state is not known" for name in streams.unknown]
        reasons = [*dict.fromkeys(map(masked_text, [*reasons, *unsaved, *_of_agent(self.agent)]))]
        return {
            "t": clock.t, "episodes": clock.episodes, "source": source, "parts": parts, "streams": before,
            "agent_t": getattr(self.agent, "t", None),  # another one than the clock's where agents only update
            "resume": "approximate" if reasons else "exact", "reasons": reasons, **numeric_circumstances(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Let everything be as `saved` told; the random streams last, since anything before may draw.

        Returns:
            Why later steps may differ from those of a run that was not stopped; nothing if they do not.

        Raises:
            KeyError, TypeError, ValueError: If it is the state of something else.
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
        """Let files hold all that was written to them."""
        for part in self._all:
            getattr(part, "flush", lambda: None)()

    def _source(self, clock: Clock, reasons: list[str]) -> dict[str, Any] | None:
        """What the source tells, to which it adds why that may not be all; None if it cannot go on."""
        try:
            source: dict[str, Any] = self.source.saved_state()
        except Exception as error:  # of code of the user's
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
    """Let one part, the first of its class, be as in a whole state; nothing if nothing is known of it."""
    for name, _ in _named([part]):
        if name in state["parts"]:
            _restore(name, part, from_json(state["parts"][name]))


def _named(parts: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Those of which the state can be asked for, under names that tell equal ones apart."""
    names = Counter[str]()
    for part in parts:
        if hasattr(part, "saved_state") or (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            name = type(part).__name__
            names[name] += 1
            yield (name if names[name] == 1 else f"{name}-{names[name]}"), part


def _state_of(part: Any) -> Any:
    return part.saved_state() if hasattr(part, "saved_state") else part.state_dict()


def _restore(name: str, part: Any, state: Any) -> Sequence[str]:
    """Let a part take up its state; returns why it may go on otherwise.

    Raises:
        KeyError, TypeError, ValueError: By one with `restore_state`, if it is the state of something else.
    """
    resumable = hasattr(part, "saved_state")
    try:
        if resumable:
            return part.restore_state(state) or ()
        part.load_state_dict(state)
    except Exception as error:  # of code of the user's
        if resumable and isinstance(error, _OF_ANOTHER):
            raise
        return [f"{name} did not take up its state: {error!r:.200}"]
    return ()


def _put_back(streams: Streams, plain: Mapping[str, Any]) -> Sequence[str]:
    """Let the streams be as they were; returns which are not."""
    try:
        streams.restore(plain)
    except ValueError as error:
        return [str(error)]
    return ()


def _of_unknown_ways(told: Any) -> Iterator[str]:
    """Why there are environments or data, in what a source tells, that nobody can bring to where they are."""
    if isinstance(told, Mapping) and "way" in told:
        if told["way"] == "unknown":
            yield str(told["reason"])
    elif isinstance(told, Mapping | list):
        for part in told.values() if isinstance(told, Mapping) else told:
            yield from _of_unknown_ways(part)


def _of_agent(agent: Any) -> list[str]:
    """Why an agent may go on otherwise than it would have, though it has been saved and loaded."""
    reasons = [*_unsaved(agent)]
    if getattr(agent, "is_compiled", False) is True:
        reasons.append("the first update of a process is made before the agent is compiled")
    if str(getattr(agent, "device", "cpu")).startswith("cuda") and not torch.are_deterministic_algorithms_enabled():
        reasons.append("GPUs add in any order, unless torch.use_deterministic_algorithms(True) was called")
    return reasons


def _unsaved(agent: Any) -> Sequence[str]:
    """What an agent says that it does not save, or has not taken up when it was loaded."""
    return agent.unsaved() if hasattr(type(agent), "unsaved") else ()  # mocks have all


def _differences(state: Mapping[str, Any]) -> list[str]:
    now = numeric_circumstances()
    return [
        f"{name} was {before!r} and is {now[kind].get(name)!r}"
        for kind in now
        for name, before in state[kind].items()
        if now[kind].get(name) != before and name not in ("pfrl_like", "system", "cores")
    ]
