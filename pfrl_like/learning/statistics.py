"""Progress of an agent besides the networks: counters and statistics, and the functions that save them."""

import collections
import copy
import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pfrl_like.explorer import Explorer
from pfrl_like.learning.rollout import Rollout
from pfrl_like.storage.plain_tensors import from_plain, to_plain


class Record(collections.deque[float]):
    """A `collections.deque` of floats that also takes tensors, whose numbers it reads only when they are needed.

    Pending tensors are read all at once, in one copy from their device. Tensors older than the window are dropped
    unread. `len`, `maxlen` and `clear` read nothing.

    Args:
        values: First values, as in `extend`.
        maxlen: Number of values to keep; None for all.
    """

    is_elsewhere = True  # it holds no random generators, see `random_streams.reachable`

    def __init__(self, values: Any = (), maxlen: int | None = None) -> None:
        super().__init__((), maxlen)
        self._room = sys.maxsize if maxlen is None else max(maxlen, 1)
        self._waiting: collections.deque[Tensor] = collections.deque()
        self._n_waiting = 0  # number of values in them
        self.extend(values)

    def append(self, value: Any, /) -> None:
        """Add a number, or all numbers of a tensor or array of any shape; a tensor must not be changed afterwards."""
        if not isinstance(value, Tensor):
            self._read()
            super().extend([float(number) for number in np.ravel(value)])
            return
        if size := value.numel():
            waiting = self._waiting
            waiting.append(value.detach() if value.requires_grad else value)
            self._n_waiting += size
            while self._n_waiting - waiting[0].numel() >= self._room:
                self._n_waiting -= waiting.popleft().numel()

    def extend(self, values: Any, /) -> None:
        """Add the numbers of a tensor, or of an iterable of arguments of `append`."""
        for value in (values,) if isinstance(values, (Tensor, np.ndarray)) else tuple(values):
            self.append(value)

    def __iadd__(self, values: Any, /) -> Self:  # type: ignore[misc]  # `deque` has the same mismatch
        self.extend(values)
        return self

    def __len__(self) -> int:
        count = super().__len__() + self._n_waiting
        return count if self.maxlen is None else min(count, self.maxlen)

    def clear(self) -> None:
        """Remove all values."""
        self._waiting, self._n_waiting = collections.deque(), 0
        super().clear()

    def __reduce__(self) -> Any:
        return type(self), ([*self], self.maxlen)

    def _read(self) -> None:
        """Turn the pending tensors into floats."""
        if self._waiting:
            waiting, self._waiting, self._n_waiting = self._waiting, collections.deque(), 0
            for _, tensors in groupby(waiting, attrgetter("device")):
                numbers = torch.cat([tensor.reshape(-1) for tensor in tensors]).tolist()
                super().extend(map(float, numbers))


def _after_reading(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a deque, so that the tensors of records are read first."""

    @functools.wraps(method)
    def read_first(*args: Any) -> Any:
        for each in args:  # the other operand of a comparison may be a record, too
            if isinstance(each, Record):
                each._read()
        return method(*args)

    return read_first


for _name, _method in vars(collections.deque).items():
    if callable(_method) and _name not in {"__new__", "__getattribute__", "__class_getitem__", *vars(Record)}:
        setattr(Record, _name, _after_reading(_method))


# The records of an agent, each the attribute `name_record`


def make_records(agent: Any, sizes: Mapping[str, int]) -> dict[str, str]:
    """Give an agent an empty record for each name, of the given sizes; returns their attributes by name."""
    for name, size in sizes.items():
        setattr(agent, f"{name}_record", Record(maxlen=int(size)))
    return {name: f"{name}_record" for name in sizes}


def add_values(agent: Any, attributes: Mapping[str, str], stats: Mapping[str, Any]) -> None:
    """Add statistics to their records; a deque or list that replaces a record gets floats at once."""
    for name, attribute in attributes.items():
        if name in stats:
            record = getattr(agent, attribute)
            if isinstance(record, Record):
                record.append(stats[name])
            else:
                record.extend(torch.as_tensor(stats[name]).reshape(-1).tolist())


def means(agent: Any, attributes: Mapping[str, str]) -> list[tuple[str, float]]:
    """Return the means of the records as ("average_name", value), NaN before the first value."""
    records = ((name, getattr(agent, attribute)) for name, attribute in attributes.items())
    return [(f"average_{name}", float(np.mean(record)) if len(record) else float("nan")) for name, record in records]


def plain_record(record: Iterable[float]) -> Any:
    """Return the values of a record, for JSON."""
    values = torch.tensor([*record], dtype=torch.float64)
    return to_plain((values,) if len(values) else ())


def values_of(state: Any) -> list[float]:
    """Return the values passed to `plain_record`, or those of any list of tensors, as former versions saved.

    Raises:
        ValueError: If `state` has another form.
    """
    parts = from_plain(state, "cpu")
    if not isinstance(parts, tuple) or not all(map(torch.is_tensor, parts)):
        raise ValueError(f"the values are {state!r:.80}, expected a list of tensors")
    return [number for part in parts for number in part.reshape(-1).tolist()]


def put_values(agent: Any, values: Mapping[str, list[float]]) -> None:
    """Replace the values of records, given by attribute."""
    for attribute, numbers in values.items():
        record = getattr(agent, attribute)
        record.clear()
        record.extend(numbers)


#: Numbers of values, of rows or of updates, in a mean.
ROWS, UPDATES = 1000, 100


def cumulative_steps(agent: Any) -> int:
    """Environment steps in training, regardless of assignments to `t`."""
    return agent._cumulative_steps  # type: ignore[no-any-return]


# Progress of an agent with a replay buffer


def replay_statistics(agent: Any) -> list[tuple[str, Any]]:
    """Return means over the last 1,000 values of Q(s, a) and 100 losses (NaN before the first), and counters."""
    return [
        *means(agent, agent._records),
        ("cumulative_steps", agent._cumulative_steps),
        ("n_updates", agent.optim_t),
        ("rlen", len(agent.replay_buffer)),
    ]


def clear_records(agent: Any) -> None:
    """Empty the records of the statistics."""
    sizes = dict.fromkeys(agent.averaged_rows, ROWS) | dict.fromkeys(agent.averaged_updates, UPDATES)
    agent._records = make_records(agent, sizes)


def waiting_for(agent: Any) -> str | None:
    """Describe the lack of items in the buffer, or of whole episodes for sequences; None if there are enough.

    As in PFRL, a recurrent agent makes no update until `minibatch_size` whole episodes are stored.
    """
    if agent.learns_from_sequences and agent.replay_buffer.n_episodes < agent.minibatch_size:
        episodes = agent.replay_buffer.n_episodes
        return f"the buffer holds {episodes:,} whole episodes, minibatch_size is {agent.minibatch_size:,}"
    held, start = len(agent.replay_buffer), agent.replay_start_size
    return f"the buffer holds {held:,} transitions, replay_start_size is {start:,}" if held < start else None


def saved_progress(agent: Any) -> dict[str, Any]:
    """Return counters, statistics, the explorer and recurrent states of an agent with a replay buffer."""
    state: dict[str, Any] = {name: getattr(agent, attribute) for name, attribute in agent._saved_counters.items()}
    for attribute in agent._records.values():
        state[attribute] = plain_record(getattr(agent, attribute))
    explorer_state = agent.explorer.state_dict() if isinstance(agent.explorer, Explorer) else {}
    if explorer_state:
        state["explorer"] = {"class": type(agent.explorer).__name__, "state": explorer_state}
    if agent.memory is not None:
        state["memory"] = agent.memory.state_dict()
    return state


def restore_progress(agent: Any, state: dict[str, Any]) -> None:
    """Restore the result of `saved_progress`; entries that `state` lacks stay unchanged.

    The state of an explorer of another class is left out, with a warning in the log; see `unsaved_explorer`.

    Raises:
        ValueError: If `state` has an unknown entry or an invalid value; nothing was changed.
    """
    counters: Mapping[str, str] = agent._saved_counters
    known = {*counters, *agent._records.values(), "explorer"}
    unknown = state.keys() - known - ({"memory"} if agent.memory else set())
    if unknown:
        raise ValueError(f"the state has {sorted(unknown)}, which this {type(agent).__name__} has not")
    counts = {attribute: state[name] for name, attribute in counters.items() if name in state}
    for name in counters.keys() & state.keys():
        if type(state[name]) is not int or state[name] < 0:
            raise ValueError(f"{name} is {state[name]!r:.80}, expected an integer of at least 0")
    values = {name: values_of(state[name]) for name in agent._records.values() if name in state}
    memory = copy.copy(agent.memory)
    if memory is not None and "memory" in state:
        memory.load_state_dict(state["memory"])
    _restore_explorer(agent, state.get("explorer"))
    agent.memory = memory
    put_values(agent, values)
    for attribute, count in counts.items():
        setattr(agent, attribute, count)


def unsaved_explorer(agent: Any) -> Sequence[str]:
    """Describe, for `Agent.unsaved`, explorer state that is not saved, or was left out when the agent was loaded."""
    if isinstance(agent.explorer, Explorer) or not hasattr(agent.explorer, "state_dict"):
        return agent._not_taken_up  # type: ignore[no-any-return]
    kind = type(agent.explorer).__name__
    return [*agent._not_taken_up, f"explorer: {kind} is no pfrl_like Explorer, so that its state is not saved"]


def _restore_explorer(agent: Any, saved: Any) -> None:
    agent._not_taken_up = ()
    if saved is None:
        return
    if not isinstance(saved, dict) or saved.keys() != {"class", "state"}:
        raise ValueError(f"explorer is {saved!r:.80}, expected its class and state")
    name = type(agent.explorer).__name__
    if saved["class"] == name:
        agent.explorer.load_state_dict(saved["state"])
    else:
        left_out = f"the saved explorer is of class {saved['class']}, this one {name}: its state is left out"
        agent._not_taken_up = (left_out,)
        agent.logger.warning("%s", left_out)


# Progress of an on-policy agent


def move_average(agent: Any, name: str, value: Any) -> None:
    """Move an exponential mean, the attribute `name`, towards a value; the attribute `name_decay` is the decay."""
    mean, decay = getattr(agent, name), getattr(agent, f"{name}_decay")
    setattr(agent, name, mean + (1 - decay) * (float(value) - mean))


def saved_rollout(agent: Any) -> dict[str, Any]:
    """Return counters, statistics, recurrent states and the steps collected so far of an on-policy agent."""
    state: dict[str, Any] = {
        "t": agent.t,
        "n_updates": agent.n_updates,
        "cumulative_steps": agent._cumulative_steps,
        "numbers": [_finite(getattr(agent, name)) for name in agent._kept_numbers],
        "windows": {name: plain_record(getattr(agent, record)) for name, record in agent._records.items()},
    }
    if agent.memory is not None:
        state["memory"] = agent.memory.state_dict()
    if len(agent._rollout):
        state["rollout"] = agent._rollout.state_dict(agent._last_of)
    return state


def restore_rollout(agent: Any, state: dict[str, Any]) -> None:
    """Restore the result of `saved_rollout`.

    Raises:
        ValueError: If `state` has another form; nothing was changed.
    """
    if not state:
        return
    known = {"t", "n_updates", "cumulative_steps", "numbers", "windows", "memory", "rollout"}
    counts = [state.get(name) for name in ("t", "n_updates", "cumulative_steps")]
    if state.keys() - known or not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"the state has {sorted(state)} with the counters {counts}, which do not fit")
    numbers, windows = state.get("numbers", ()), state.get("windows", {})
    if len(numbers) != len(agent._kept_numbers) or windows.keys() != agent._records.keys():
        raise ValueError(
            f"the state has {len(numbers)} numbers and the windows {sorted(windows)}, expected "
            f"{len(agent._kept_numbers)} and {sorted(agent._records)}"
        )
    numbers = [math.nan if number is None else float(number) for number in numbers]
    values = {agent._records[name]: values_of(saved) for name, saved in windows.items()}
    memory, rollout, last_of = copy.copy(agent.memory), Rollout(agent._rollout.room), agent._last_of
    if memory is not None and "memory" in state:
        memory.load_state_dict(state["memory"])
    if "rollout" in state:
        last_of = rollout.load_state_dict(state["rollout"], agent.device)
    agent.t, agent.n_updates, agent._cumulative_steps = counts
    for name, number in zip(agent._kept_numbers, numbers, strict=True):
        setattr(agent, name, number)
    put_values(agent, values)
    agent.memory, agent._rollout, agent._last_of = memory, rollout, last_of


def _finite(number: Any) -> float | None:
    return float(number) if math.isfinite(number) else None
