"""Counters and statistics of agents, and functions that save and restore them."""

import collections
import copy
import functools
import math
import os
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
from pfrl_like.storage import has_manifest, load_tensors
from pfrl_like.storage.atomic import read_errors
from pfrl_like.storage.plain_tensors import from_plain, to_plain


class Record(collections.deque[float]):
    """A `collections.deque` of floats that also accepts tensors.

    Tensors stay on their device until a caller needs the values. The record then converts all pending tensors to floats
    in one copy. If `maxlen` newer values are appended before that, the tensor is dropped without a conversion. `len`,
    `maxlen` and `clear` convert no tensor.

    Args:
        values: Initial values, passed to `extend`.
        maxlen: Maximum number of values. If None, all values are kept.
    """

    has_no_rng = True  # tells `random_streams.reachable` that records contain no random generators

    def __init__(self, values: Any = (), maxlen: int | None = None) -> None:
        super().__init__((), maxlen)
        self._max_values = sys.maxsize if maxlen is None else max(maxlen, 1)
        self._pending: collections.deque[Tensor] = collections.deque()
        self._n_pending = 0  # number of values in the pending tensors
        self.extend(values)

    def append(self, value: Any, /) -> None:
        """Add a number, or all numbers of a tensor or array of any shape. A tensor must not change after the call."""
        if not isinstance(value, Tensor):
            self._read()
            super().extend([float(number) for number in np.ravel(value)])
            return
        if size := value.numel():
            pending = self._pending
            pending.append(value.detach() if value.requires_grad else value)
            self._n_pending += size
            while self._n_pending - pending[0].numel() >= self._max_values:
                self._n_pending -= pending.popleft().numel()

    def extend(self, values: Any, /) -> None:
        """Add the numbers of a tensor, or call `append` for each element of an iterable."""
        for value in (values,) if isinstance(values, (Tensor, np.ndarray)) else tuple(values):
            self.append(value)

    def __iadd__(self, values: Any, /) -> Self:  # type: ignore[misc]  # `deque` has the same mismatch
        self.extend(values)
        return self

    def __len__(self) -> int:
        count = super().__len__() + self._n_pending
        return count if self.maxlen is None else min(count, self.maxlen)

    def clear(self) -> None:
        """Remove all values."""
        self._pending, self._n_pending = collections.deque(), 0
        super().clear()

    def __reduce__(self) -> Any:
        return type(self), ([*self], self.maxlen)

    def _read(self) -> None:
        """Convert the pending tensors to floats."""
        if self._pending:
            pending, self._pending, self._n_pending = self._pending, collections.deque(), 0
            for _, tensors in groupby(pending, attrgetter("device")):
                numbers = torch.cat([tensor.reshape(-1) for tensor in tensors]).tolist()
                super().extend(map(float, numbers))


def _read_first(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of `deque` so that pending tensors of records are converted before the call."""

    @functools.wraps(method)
    def wrapper(*args: Any) -> Any:
        for each in args:  # in a comparison, both operands may be records
            if isinstance(each, Record):
                each._read()
        return method(*args)

    return wrapper


for _name, _method in vars(collections.deque).items():
    if callable(_method) and _name not in {"__new__", "__getattribute__", "__class_getitem__", *vars(Record)}:
        setattr(Record, _name, _read_first(_method))


# The records of an agent. The attribute `<name>_record` is the record of the statistic `name`


def make_records(agent: Any, sizes: Mapping[str, int]) -> dict[str, str]:
    """Create an empty record for each statistic. `sizes` contains the record sizes, keyed by statistic.

    Return the attribute names of the records, keyed by statistic.
    """
    for name, size in sizes.items():
        setattr(agent, f"{name}_record", Record(maxlen=int(size)))
    return {name: f"{name}_record" for name in sizes}


def add_values(agent: Any, attributes: Mapping[str, str], stats: Mapping[str, Any]) -> None:
    """Add statistics to their records. If a user has replaced a record by a deque or list, floats are added."""
    if agent.learner_group is not None:
        stats = agent.learner_group.statistics(stats)
    for name, attribute in attributes.items():
        if name in stats:
            record = getattr(agent, attribute)
            if isinstance(record, Record):
                record.append(stats[name])
            else:
                record.extend(torch.as_tensor(stats[name]).reshape(-1).tolist())


def means(agent: Any, attributes: Mapping[str, str]) -> list[tuple[str, float]]:
    """Return the means of the records as ("average_name", mean). The mean of an empty record is NaN."""
    records = ((name, getattr(agent, attribute)) for name, attribute in attributes.items())
    return [(f"average_{name}", float(np.mean(record)) if len(record) else float("nan")) for name, record in records]


def plain_record(record: Iterable[float]) -> Any:
    """Return the values of a record in a format that can be saved as JSON."""
    values = torch.tensor([*record], dtype=torch.float64)
    return to_plain((values,) if len(values) else ())


def from_plain_record(state: Any) -> list[float]:
    """Convert the result of `plain_record` back to floats. In older files, the result is a list of several tensors.

    Raises:
        ValueError: If `state` has the wrong form.
    """
    parts = from_plain(state, "cpu")
    if not isinstance(parts, tuple) or not all(map(torch.is_tensor, parts)):
        raise ValueError(f"the values are {state!r:.80}, expected a list of tensors")
    return [number for part in parts for number in part.reshape(-1).tolist()]


def set_values(agent: Any, values: Mapping[str, list[float]]) -> None:
    """Replace the values of records. `values` is keyed by the records' attribute names."""
    for attribute, numbers in values.items():
        record = getattr(agent, attribute)
        record.clear()
        record.extend(numbers)


#: Statistics with one value per row are averaged over the last `ROWS` rows, the others over the last `UPDATES` updates.
ROWS, UPDATES = 1000, 100


def cumulative_steps(agent: Any) -> int:
    """Number of environment steps in training. Users can assign `t`, but not this property."""
    return agent._cumulative_steps  # type: ignore[no-any-return]


# Progress of an agent with a replay buffer


def replay_statistics(agent: Any) -> list[tuple[str, Any]]:
    """Return the means of the last 1,000 values of Q(s, a) and of the last 100 losses, and counters.

    The mean is NaN if there is no value yet.
    """
    counters = {"cumulative_steps": agent._cumulative_steps, "n_updates": agent.optim_t}
    return [*means(agent, agent._records), *counters.items(), ("rlen", len(agent.replay_buffer))]


def clear_records(agent: Any) -> None:
    """Create empty records for the agent's statistics."""
    sizes = dict.fromkeys(agent.averaged_rows, ROWS) | dict.fromkeys(agent.averaged_updates, UPDATES)
    agent._records = make_records(agent, sizes)


def waiting_for(agent: Any) -> str | None:
    """Return a text that says why the buffer is too small for an update. None if it is large enough.

    As in PFRL, a recurrent agent is not updated until the buffer has `minibatch_size` whole episodes.
    """
    if agent.learns_from_sequences and agent.replay_buffer.n_episodes < agent.minibatch_size:
        episodes = agent.replay_buffer.n_episodes
        return f"the buffer holds {episodes:,} whole episodes, minibatch_size is {agent.minibatch_size:,}"
    n_items, start = len(agent.replay_buffer), agent.replay_start_size
    return f"the buffer holds {n_items:,} transitions, replay_start_size is {start:,}" if n_items < start else None


def saved_progress(agent: Any) -> dict[str, Any]:
    """Return counters, statistics, the explorer and recurrent states of an agent with a replay buffer."""
    state: dict[str, Any] = {name: getattr(agent, attribute) for name, attribute in agent._saved_counters.items()}
    for attribute in agent._records.values():
        state[attribute] = plain_record(getattr(agent, attribute))
    explorer_state = agent.explorer.state_dict() if isinstance(agent.explorer, Explorer) else {}
    if explorer_state:
        state["explorer"] = {"class": type(agent.explorer).__name__, "state": explorer_state}
    if agent.recurrent_memory is not None:
        state["memory"] = agent.recurrent_memory.state_dict()
    return state


def restore_progress(agent: Any, state: dict[str, Any]) -> None:
    """Restore the result of `saved_progress`. If an entry is missing in `state`, its attribute does not change.

    If the class of the saved explorer differs from the class of the agent's explorer, the state of the explorer is not
    restored, and a warning is logged.

    Raises:
        ValueError: If `state` has an unknown entry or an invalid value. The agent is not changed.
    """
    counters: Mapping[str, str] = agent._saved_counters
    allowed = {*counters, *agent._records.values(), "explorer"}
    unknown = state.keys() - allowed - ({"memory"} if agent.recurrent_memory else set())
    if unknown:
        raise ValueError(f"unknown entries {sorted(unknown)} in the state of this {type(agent).__name__}")
    counts = {attribute: state[name] for name, attribute in counters.items() if name in state}
    for name in counters.keys() & state.keys():
        if type(state[name]) is not int or state[name] < 0:
            raise ValueError(f"{name} is {state[name]!r:.80}, expected an integer of at least 0")
    values = {name: from_plain_record(state[name]) for name in agent._records.values() if name in state}
    memory = copy.copy(agent.recurrent_memory)
    if memory is not None and "memory" in state:
        memory.load_state_dict(state["memory"])
    _restore_explorer(agent, state.get("explorer"))
    agent.recurrent_memory = memory
    set_values(agent, values)
    for attribute, count in counts.items():
        setattr(agent, attribute, count)
    _check_again(agent)


def load_pfrl_counters(agent: Any, dirname: str) -> None:
    """Load the counters that PFRL's `save_snapshot` writes: the numbers of steps and of updates.

    A counter without a file does not change.

    Raises:
        CheckpointError: If a file does not contain an integer of at least 0. No counter is changed.
    """
    paths = {name: os.path.join(dirname, f"{attribute}.pt") for name, attribute in agent._saved_counters.items()}
    with read_errors(dirname, "contains invalid counters"):
        restore_progress(agent, {name: load_tensors(path) for name, path in paths.items() if os.path.exists(path)})


#: Name of the replay buffer's file in a directory written by `save_snapshot`.
SNAPSHOT_OF_BUFFER = "replay_buffer.pkl"


def save_snapshot(agent: Any, dirname: str) -> None:
    """Save the agent with `save`, and save the replay buffer as `replay_buffer.pkl` in the same directory.

    Raises:
        CheckpointError: If the agent or the buffer cannot be saved. If the buffer fails, the agent is already
            saved.
    """
    agent.save(dirname)
    agent.replay_buffer.save(os.path.join(dirname, SNAPSHOT_OF_BUFFER))


def load_snapshot(agent: Any, dirname: str, *, allow_pickle: bool = False) -> None:
    """Load the agent and the replay buffer from a directory that `save_snapshot` or PFRL's `save_snapshot` wrote.

    Args:
        agent: The agent.
        dirname: The directory.
        allow_pickle: True to read a pickled replay buffer, for instance PFRL's. The pickle cannot run code, but a
            manipulated file can use any amount of memory. Use it only for files whose origin you know.

    Raises:
        CheckpointError: If the agent or the buffer is missing in the directory, or if the buffer is a pickle and
            pickles are not allowed. If the buffer cannot be loaded, the agent is already loaded.
    """
    agent.load(dirname)
    if not has_manifest(dirname):
        load_pfrl_counters(agent, dirname)
    options = {"allow_pickle": True} if allow_pickle else {}  # a user's buffer may not have this argument
    agent.replay_buffer.load(os.path.join(dirname, SNAPSHOT_OF_BUFFER), **options)


def unsaved_explorer(agent: Any) -> Sequence[str]:
    """Return texts that say why the explorer may continue differently after `load`. Empty if it continues identically.

    This is the implementation of `Agent.unsaved`.
    """
    if isinstance(agent.explorer, Explorer) or not hasattr(agent.explorer, "state_dict"):
        return agent._unrestored  # type: ignore[no-any-return]
    kind = type(agent.explorer).__name__
    return [*agent._unrestored, f"explorer: {kind} is not a pfrl_like Explorer; its state is not saved"]


def _restore_explorer(agent: Any, saved: Any) -> None:
    agent._unrestored = ()
    if saved is None:
        return
    if not isinstance(saved, dict) or saved.keys() != {"class", "state"}:
        raise ValueError(f"explorer is {saved!r:.80}, expected its class and state")
    name = type(agent.explorer).__name__
    if saved["class"] == name:
        agent.explorer.load_state_dict(saved["state"])
    else:
        reason = f"explorer: the saved class is {saved['class']}, but the agent has {name}: its state is not restored"
        agent._unrestored = (reason,)
        agent.logger.warning("%s", reason)


# Progress of an on-policy agent


def move_average(agent: Any, name: str, value: Any) -> None:
    """Update the exponential moving average in the attribute `name`. The attribute `<name>_decay` is the decay rate."""
    mean, decay = getattr(agent, name), getattr(agent, f"{name}_decay")
    setattr(agent, name, mean + (1 - decay) * (float(value) - mean))


def saved_rollout(agent: Any) -> dict[str, Any]:
    """Return counters, statistics, recurrent states and collected steps of an on-policy agent."""
    state: dict[str, Any] = {
        "t": agent.t,
        "n_updates": agent.n_updates,
        "cumulative_steps": agent._cumulative_steps,
        "numbers": [_finite(getattr(agent, name)) for name in agent._saved_numbers],
        "windows": {name: plain_record(getattr(agent, record)) for name, record in agent._records.items()},
    }
    if agent.recurrent_memory is not None:
        state["memory"] = agent.recurrent_memory.state_dict()
    if len(agent._rollout):
        state["rollout"] = agent._rollout.state_dict(agent._bootstrap_inputs)
    return state


def restore_rollout(agent: Any, state: dict[str, Any]) -> None:
    """Restore the result of `saved_rollout`.

    Raises:
        ValueError: If `state` has the wrong form. The agent is not changed.
    """
    if not state:
        return
    allowed = {"t", "n_updates", "cumulative_steps", "numbers", "windows", "memory", "rollout"}
    counts = [state.get(name) for name in ("t", "n_updates", "cumulative_steps")]
    if state.keys() - allowed:
        raise ValueError(f"the state has the entries {sorted(state)}, expected entries among {sorted(allowed)}")
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"the state has the counters {counts}, expected integers of at least 0")
    numbers, windows = state.get("numbers", ()), state.get("windows", {})
    if len(numbers) != len(agent._saved_numbers):
        raise ValueError(f"the state has {len(numbers)} numbers, expected {len(agent._saved_numbers)}")
    if windows.keys() != agent._records.keys():
        raise ValueError(f"the state has the records {sorted(windows)}, expected {sorted(agent._records)}")
    numbers = [math.nan if number is None else float(number) for number in numbers]
    values = {agent._records[name]: from_plain_record(saved) for name, saved in windows.items()}
    memory, bootstrap_inputs = copy.copy(agent.recurrent_memory), agent._bootstrap_inputs
    rollout = Rollout(agent._rollout.initial_rows)
    if memory is not None and "memory" in state:
        memory.load_state_dict(state["memory"])
    if "rollout" in state:
        bootstrap_inputs = rollout.load_state_dict(state["rollout"], agent.device)
    agent.t, agent.n_updates, agent._cumulative_steps = counts
    for name, number in zip(agent._saved_numbers, numbers, strict=True):
        setattr(agent, name, number)
    set_values(agent, values)
    agent.recurrent_memory, agent._rollout, agent._bootstrap_inputs = memory, rollout, bootstrap_inputs
    _check_again(agent)


def _check_again(agent: Any) -> None:
    """Let the learners of a group check before the next update that they have loaded the same agent."""
    if agent.learner_group is not None:
        agent.learner_group.is_checked = False


def _finite(number: Any) -> float | None:
    return float(number) if math.isfinite(number) else None
