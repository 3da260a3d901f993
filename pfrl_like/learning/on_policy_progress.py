"""What an on-policy agent keeps of its progress beside the networks, and how it is saved."""

import copy
import logging
import math
from typing import Any

import torch

from pfrl_like.learning.records import means, plain_record, put_values, values_of
from pfrl_like.learning.recurrent_memory import RecurrentMemory
from pfrl_like.learning.rollout import LastOf, Rollout


class OnPolicyProgressMixin:
    """Counters, statistics and the unfinished rollout of an on-policy agent.

    Records of statistics are the attributes `name_record`; `kept_numbers` names attributes that are single numbers.
    """

    #: Attributes that are numbers, NaN where there is none yet.
    kept_numbers: tuple[str, ...] = ()

    t: int
    n_updates: int
    _cumulative_steps: int
    _records: dict[str, str]  # their attributes, by name
    _last_of: LastOf
    device: torch.device
    logger: logging.Logger
    memory: RecurrentMemory | None
    rollout: Rollout

    @property
    def cumulative_steps(self) -> int:
        """Environment steps in training, whatever `t` was set to."""
        return self._cumulative_steps

    def window_means(self) -> list[tuple[str, float]]:
        """The means of the records, as ("average_name", value)."""
        return means(self, self._records)

    def move_average(self, name: str, value: Any) -> None:
        """Move an exponential mean, the attribute `name`, towards a value; the attribute `name_decay` says how far."""
        mean, decay = getattr(self, name), getattr(self, f"{name}_decay")
        setattr(self, name, mean + (1 - decay) * (float(value) - mean))

    def saved_state(self) -> dict[str, Any]:
        """What goes on beside the networks: counters, statistics, recurrent states and the steps collected so far."""
        state: dict[str, Any] = {
            "t": self.t,
            "n_updates": self.n_updates,
            "cumulative_steps": self._cumulative_steps,
            "numbers": [_finite(getattr(self, name)) for name in self.kept_numbers],
            "windows": {name: plain_record(getattr(self, record)) for name, record in self._records.items()},
        }
        if self.memory is not None:
            state["memory"] = self.memory.state_dict()
        if len(self.rollout):
            state["rollout"] = self.rollout.state_dict(self._last_of)
        return state

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up what `saved_state` gave.

        Raises:
            ValueError: If it is something else; nothing was changed.
        """
        if not state:
            return
        known = {"t", "n_updates", "cumulative_steps", "numbers", "windows", "memory", "rollout"}
        counts = [state.get(name) for name in ("t", "n_updates", "cumulative_steps")]
        if state.keys() - known or not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError(f"the state has {sorted(state)} with the counters {counts}, which do not fit")
        numbers, windows = state.get("numbers", ()), state.get("windows", {})
        if len(numbers) != len(self.kept_numbers) or windows.keys() != self._records.keys():
            raise ValueError(
                f"the state has {len(numbers)} numbers and the windows {sorted(windows)}, expected "
                f"{len(self.kept_numbers)} and {sorted(self._records)}"
            )
        numbers = [math.nan if number is None else float(number) for number in numbers]
        values = {self._records[name]: values_of(saved) for name, saved in windows.items()}
        memory, rollout, last_of = copy.copy(self.memory), Rollout(self.rollout.room), self._last_of
        if memory is not None and "memory" in state:
            memory.load_state_dict(state["memory"])
        if "rollout" in state:
            last_of = rollout.load_state_dict(state["rollout"], self.device)
        self.t, self.n_updates, self._cumulative_steps = counts  # type: ignore[assignment]
        for name, number in zip(self.kept_numbers, numbers, strict=True):
            setattr(self, name, number)
        put_values(self, values)
        self.memory, self.rollout, self._last_of = memory, rollout, last_of


def _finite(number: Any) -> float | None:
    return float(number) if math.isfinite(number) else None
