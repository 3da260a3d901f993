"""What an agent keeps of its progress beside the networks: counters, windows of statistics, and how they are saved."""

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch

from pfrl_like.explorer import Explorer
from pfrl_like.learning.records import make_records, means, plain_record, put_values, values_of
from pfrl_like.learning.recurrent_memory import RecurrentMemory

#: How many values, of rows or of updates, a mean is taken over.
ROWS, UPDATES = 1000, 100


class ProgressMixin:
    """Counters and statistics of an agent with a replay buffer.

    Of each `name` below a `Record`, the attribute `name_record`, is filled with the statistic of this name that comes
    with a loss; its mean is reported as "average_name". A deque or list may be put in its place.
    """

    #: Statistics with a value for each row, [N].
    averaged_rows: tuple[str, ...] = ("q",)
    #: Statistics with one value for each update.
    averaged_updates: tuple[str, ...] = ("loss",)

    t: int
    optim_t: int
    _cumulative_steps: int
    _updates_left: int
    _records: dict[str, str]  # their attributes, by name
    device: torch.device
    explorer: Any
    logger: logging.Logger
    memory: RecurrentMemory | None
    minibatch_size: int
    replay_start_size: int
    learns_from_sequences: bool
    replay_buffer: Any
    _not_taken_up: tuple[str, ...] = ()  # of the state that was loaded last

    @property
    def cumulative_steps(self) -> int:
        """Environment steps in training, whatever `t` was set to."""
        return self._cumulative_steps

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Means over the last 1,000 values of Q(s, a) and 100 losses (NaN before the first), and counters."""
        return [
            *means(self, self._records),
            ("cumulative_steps", self._cumulative_steps),
            ("n_updates", self.optim_t),
            ("rlen", len(self.replay_buffer)),
        ]

    def waiting_for(self) -> str | None:
        """Items of the buffer, or whole episodes to learn sequences from, that are still too few; None if they are not.

        As in PFRL a recurrent agent makes no update until `minibatch_size` whole episodes are stored.
        """
        if self.learns_from_sequences and self.replay_buffer.n_episodes < self.minibatch_size:
            episodes = self.replay_buffer.n_episodes
            return f"the buffer holds {episodes:,} whole episodes, minibatch_size is {self.minibatch_size:,}"
        held, start = len(self.replay_buffer), self.replay_start_size
        return f"the buffer holds {held:,} transitions, replay_start_size is {start:,}" if held < start else None

    def saved_state(self) -> dict[str, Any]:
        """What goes on beside the networks: counters, statistics, the explorer and recurrent states."""
        state: dict[str, Any] = {**self._counters()}
        for attribute in self._records.values():
            state[attribute] = plain_record(getattr(self, attribute))
        explorer_state = self.explorer.state_dict() if isinstance(self.explorer, Explorer) else {}
        if explorer_state:
            state["explorer"] = {"class": type(self.explorer).__name__, "state": explorer_state}
        if self.memory is not None:
            state["memory"] = self.memory.state_dict()
        return state

    def unsaved(self) -> Sequence[str]:
        """As of `Agent`: the state of an explorer that is none of this library, or was of another class when loaded."""
        if isinstance(self.explorer, Explorer) or not hasattr(self.explorer, "state_dict"):
            return self._not_taken_up
        kind = type(self.explorer).__name__
        return [*self._not_taken_up, f"explorer: a {kind} is no pfrl_like Explorer, so that its state is not saved"]

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up what `saved_state` gave; what `state` lacks stays as it is.

        The state of an explorer of another class is left out, with a warning in the log; see `unsaved`.

        Raises:
            ValueError: If it is something else; nothing was changed.
        """
        counters = self._counters()
        known = {*counters, *self._records.values(), "explorer"}
        unknown = state.keys() - known - ({"memory"} if self.memory else set())
        if unknown:
            raise ValueError(f"the state has {sorted(unknown)}, which this {type(self).__name__} has not")
        for name in counters.keys() & state.keys():
            counters[name] = state[name]
            if type(state[name]) is not int or state[name] < 0:
                raise ValueError(f"{name} is {state[name]!r:.80}, expected an integer of at least 0")
        values = {name: values_of(state[name]) for name in self._records.values() if name in state}
        memory = copy.copy(self.memory)
        if memory is not None and "memory" in state:
            memory.load_state_dict(state["memory"])
        self._restore_explorer(state.get("explorer"))
        self.memory = memory
        put_values(self, values)
        self.t, self.optim_t = counters["t"], counters["optim_t"]
        self._cumulative_steps, self._updates_left = counters["cumulative_steps"], counters["updates_left"]

    def clear_records(self) -> None:
        """Begin the records of the statistics anew."""
        sizes = dict.fromkeys(self.averaged_rows, ROWS) | dict.fromkeys(self.averaged_updates, UPDATES)
        self._records = make_records(self, sizes)

    def _restore_explorer(self, saved: Any) -> None:
        self._not_taken_up = ()
        if saved is None:
            return
        if not isinstance(saved, dict) or saved.keys() != {"class", "state"}:
            raise ValueError(f"explorer is {saved!r:.80}, expected its class and state")
        name = type(self.explorer).__name__
        if saved["class"] == name:
            self.explorer.load_state_dict(saved["state"])
        else:
            left_out = f"the saved explorer is of class {saved['class']}, this one {name}: its state is left out"
            self._not_taken_up = (left_out,)
            self.logger.warning("%s", left_out)

    def _counters(self) -> dict[str, int]:
        return {
            "t": self.t,
            "optim_t": self.optim_t,
            "cumulative_steps": self._cumulative_steps,
            "updates_left": self._updates_left,
        }
