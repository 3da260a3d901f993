"""The store under the replay buffers: steps and observations as columns, each observation once.

A step is a row of the step columns; it names the rows of its two observations and its successor, the row of the next
step of the same episode. Who uses the store decides which steps can be sampled and when a step goes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import NDArray
from torch import from_numpy

from pfrl_like.batch import Batch
from pfrl_like.columns.extra import Extra
from pfrl_like.columns.field import Field
from pfrl_like.columns.gather import to_tensors
from pfrl_like.columns.leaves import describe
from pfrl_like.columns.rows import Rows

Indices = NDArray[np.int64]

ENDED = 0  # successor of an episode's last step: row 0, which has reward 0 and is its own successor
RUNNING = -1  # successor of a running episode's newest step

_RECURRENT = ("recurrent_state", "next_recurrent_state")
_FLOATS = ("log_prob", "value", "advantage", "returns")
_BATCH_FIELDS = ("action_mask", "next_action_mask", "next_action", *_RECURRENT, *_FLOATS)
_RESERVED = ("state", "obs", "action", "reward", "next_state", "next_obs", "is_state_terminal", "weight")


class Running:
    """Where the running episode of one environment stands.

    Attributes:
        tail: Its newest step, 0 if that one has been released.
        pending: Row of the newest step's next observation, 0 if it has none.
        waiting: For the user of the store: steps that have not become samplable yet.
    """

    __slots__ = ("pending", "tail", "waiting")

    def __init__(self) -> None:
        self.tail = 0
        self.pending = 0
        self.waiting: list[int] = []


class Columns:
    """Steps as rows. Not safe for threads: who appends in one and samples in another holds a lock.

    Attributes:
        running: The running episode of each environment that has one.
        reward, alive, obs_row, next_row, successor: Step columns. `alive` is 0 where the episode terminated, else 1;
            `next_row` equals `obs_row` where no next observation was given.
        obs, action: Fields of nested values, None before the first step.
        extras: Further columns by name.
    """

    def __init__(self) -> None:
        self.steps = Rows()
        self.obs_rows = Rows()
        self.reward: NDArray[np.float64] = self.steps.array((), np.float64)
        self.alive: NDArray[np.float32] = self.steps.array((), np.float32)
        self.obs_row: Indices = self.steps.array((), np.int64)
        self.next_row: Indices = self.steps.array((), np.int64)
        self.successor: Indices = self.steps.array((), np.int64)
        self.running: dict[Any, Running] = {}
        self.extras: dict[str, Extra] = {}
        self.has_names = False
        self.lacks_next = False  # whether a step without next observation and without end was ever stored
        self._set_fields(None, None)

    def _set_fields(self, obs: Field | None, action: Field | None) -> None:
        self.obs, self.action = obs, action
        self.plain = obs.plain if obs else None
        self.plain_action = action.plain if action else None
        self._obs_shape = () if self.plain is None else self.plain.shape[1:]
        self._action_shape = () if self.plain_action is None else self.plain_action.shape[1:]
        # Types of single numbers that need no check; no number has the type of an array action.
        plain = self.plain_action
        scalar = plain is not None and plain.ndim == 1
        self._action_types: tuple[type, ...] = (plain.dtype.type, type(plain[0].item())) if plain is not None and scalar else ()

    # ------------------------------------------------------------------------------------------------------- append

    def append(
        self, obs: Any, action: Any, reward: Any, next_obs: Any, terminal: bool, env_id: Any, extra: Mapping[str, Any]
    ) -> int:
        """Store one step and return its row; `end` has to be called where the episode ends.

        Raises:
            ValueError: If something has another structure, shape or dtype than in the first step; nothing is stored.
        """
        plain = self.plain
        if (
            plain is None
            or type(obs) is not ndarray
            or type(next_obs) is not ndarray
            or obs.shape != self._obs_shape
            or next_obs.shape != self._obs_shape
            or obs.dtype != plain.dtype
            or next_obs.dtype != plain.dtype
            or type(action) not in self._action_types
        ):
            reward = checked_reward(reward)
            obs, action, next_obs = self._checked(obs, action, next_obs, extra)
            plain = self.plain
        checked = self._checked_extras(extra) if extra or self.extras else None
        reward = float(reward)
        run = self.running.get(env_id)
        if run is None:
            run = self.running[env_id] = Running()

        if plain is not None:
            free = self.obs_rows.free
            if len(free) < 2:
                self.obs_rows.reserve(2)
            at = run.pending
            if not at or plain[at].tobytes() != obs.tobytes():
                if at and not run.tail:
                    free.append(at)
                at = free.pop()
                plain[at] = obs
            if next_obs is None:
                next_at = at
            else:
                next_at = free.pop()
                plain[next_at] = next_obs
        else:
            at, next_at = self._put_observations(run, obs, next_obs)

        free = self.steps.free
        if not free:
            self.steps.reserve(1)
        row = free.pop()
        if self.plain_action is not None:
            self.plain_action[row] = action
        else:
            self.action.put(row, action)  # type: ignore[union-attr]
        self.reward[row] = reward
        self.alive[row] = not terminal
        self.obs_row[row] = at
        self.next_row[row] = next_at
        self.successor[row] = RUNNING
        if checked is not None:
            for name, value in checked.items():
                self.extras[name].put(row, value)
        if run.tail:
            self.successor[run.tail] = row
        run.tail = row
        if next_at == at:
            run.pending = 0
            self.lacks_next = self.lacks_next or not terminal
        else:
            run.pending = next_at
        return row

    def _checked(self, obs: Any, action: Any, next_obs: Any, extra: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Leaves of the observations and the action (the arrays themselves where they are plain)."""
        self._check_names(extra)
        obs_field, action_field = self.obs, self.action
        if obs_field is None:
            obs_field = Field.like(self.obs_rows, obs, strict=True, frames=True)
        leaves = obs_field.check(obs, "obs")
        next_leaves = None if next_obs is None else obs_field.check(next_obs, "next_obs")
        if action_field is None:
            action_field = Field.like(self.steps, action, strict=False)
        action_leaves = action_field.check(action, "action")
        if self.obs is None:
            self._set_fields(obs_field, action_field)
        return (
            leaves[0] if self.plain is not None else leaves,
            action_leaves[0] if self.plain_action is not None else action_leaves,
            next_leaves[0] if self.plain is not None and next_leaves else next_leaves,
        )

    def _check_names(self, extra: Mapping[str, Any]) -> None:
        expected = self.extras.keys() - {"next_action"}
        if not self.has_names:
            if bad := [name for name in extra if name in _RESERVED]:
                raise ValueError(f"extra keywords: got {bad}, expected names other than {list(_RESERVED)}")
        elif extra.keys() - {"next_action"} != expected:
            raise ValueError(f"extra keywords: got {sorted(extra)}, expected {sorted(expected)} as in the first step")

    def _checked_extras(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        self._check_names(extra)
        return {name: self.extras[name].check(value) if name in self.extras else value for name, value in extra.items()}

    def _put_observations(self, run: Running, leaves: list[Any], next_leaves: list[Any] | None) -> tuple[int, int]:
        field, at = self.obs, run.pending
        assert field is not None
        self.obs_rows.reserve(2)
        if not at or not field.same(at, leaves):
            if at and not run.tail:
                self._free_observation(at)
            elif at:
                field.forget(at)
            at = self.obs_rows.free.pop()
            field.put(at, leaves)
        if next_leaves is None:
            return at, at
        next_at = self.obs_rows.free.pop()
        field.put(next_at, next_leaves, like=at)
        return at, next_at
