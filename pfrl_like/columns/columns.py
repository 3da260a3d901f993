"""The columns of replay buffers and datasets. Each step is a row, and each observation is stored once.

Each step stores three row numbers: of its observation, of its next observation, and of the next step of the same
episode (its successor). A buffer or dataset owns the columns. It decides which steps can be sampled and when a step is
released.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import NDArray
from torch import from_numpy

from pfrl_like.batch import Batch, map_nested
from pfrl_like.columns import links
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import Job, Rows, as_array, describe, to_tensors
from pfrl_like.columns.links import Stacks
from pfrl_like.columns.steps import ENDED, RUNNING, Indices, Running, Steps
from pfrl_like.columns.structure import rows_of
from pfrl_like.utils.checks import LARGEST_REWARD, as_reward, reward_out_of_range

_CPU = torch.device("cpu")
_RECURRENT = ("recurrent_state", "next_recurrent_state")
_MASKS = ("action_mask", "next_action_mask")
_FLOATS = ("log_prob", "value", "advantage", "returns")
_BATCH_FIELDS = ("next_action", *_MASKS, *_RECURRENT, *_FLOATS)
_HAVE_DEFAULTS = (*_MASKS, *_RECURRENT)  # a missing mask allows all actions, a missing state is zeros


class Columns(Steps):
    """Steps as rows of columns.

    Columns are not thread-safe: if different threads append and sample, they must share a lock.
    """

    _gamma: float | None = None  # discount factor for which the following tables were computed
    _powers: NDArray[np.float64]  # gamma**0, gamma**1, ...
    _discounts: NDArray[np.float32] = np.zeros(0, np.float32)  # indexed by lookahead: 0, gamma, gamma**2, ...
    _one_step_discounts: NDArray[np.float32]  # indexed by terminal: gamma, 0

    def append(
        self, obs: Any, action: Any, reward: Any, next_obs: Any, terminal: bool, env_id: Any, extra: Mapping[str, Any]
    ) -> int:
        """Store one step and return its row. The caller must call `end` at the end of the episode.

        If the dtype of an observation cannot be cast without loss, the column of observations gets a wider dtype.

        Raises:
            ValueError: If a value has a different structure or shape than in the first step, or an action has a
                different dtype. Nothing is stored.
            TypeError: If the reward is not a number.
        """
        reward = float(reward) if isinstance(reward, float) else as_reward(reward)
        plain = self.plain
        if not -LARGEST_REWARD <= reward <= LARGEST_REWARD:
            raise reward_out_of_range(reward)
        if (
            plain is None
            or type(obs) is not ndarray
            or type(next_obs) is not ndarray
            or obs.shape != self._obs_shape
            or next_obs.shape != self._obs_shape
            or obs.dtype != plain.dtype
            or next_obs.dtype != plain.dtype
            or (type(action) not in self._action_types)
            and (
                type(action) is not ndarray or action.shape != self._action_shape or action.dtype != self._action_dtype
            )
        ):
            obs, action, next_obs = self._checked(obs, action, next_obs, extra)
            plain = self.plain
        checked = None
        if extra or self.extras:
            self._check_names(extra)
            checked = {k: self.extras[k].check(value) if k in self.extras else value for k, value in extra.items()}
        run = self.running.get(env_id)
        if run is None:
            run = self.running[env_id] = Running()

        if plain is not None:
            free = self.obs_rows.free
            if len(free) < 2:
                self.obs_rows.reserve(2)
                plain = self.plain  # `reserve` may map the file to a new array
                assert plain is not None
            at = run.pending
            if not at or plain[at].tobytes() != obs.tobytes():
                if at and (not run.tail or self.next_row[run.tail] != at):  # same as is_loose, inlined for speed
                    self.obs_rows.released.append(at)
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
        self.terminal[row] = terminal
        self.obs_row[row] = at
        self.next_row[row] = next_at
        self.successor[row] = RUNNING
        if checked is not None:
            self._put_extras(row, checked)
        if run.tail:
            self.successor[run.tail] = row
        if len(self.predecessor):
            self.predecessor[row] = run.tail
        run.tail = row
        if next_at == at:
            run.pending = 0
            self.lacks_next = self.lacks_next or not terminal
        else:
            run.pending = next_at
        return row

    def append_many(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminal: NDArray[np.bool_],
        env_ids: Sequence[Any],
        extra: Mapping[str, Any],
    ) -> Indices:
        """Store one step of each of several environments. The result is the same as of one `append` per environment.

        Returns:
            The rows, shape [k].

        Raises:
            ValueError: If a value has a different structure, shape or dtype than in the first step, or if the arguments
                have different lengths. Nothing is stored.
        """
        k = len(env_ids)
        reward = as_array(reward)
        if reward is None or reward.shape != (k,):
            raise ValueError(f"reward: got {describe(reward)}, expected {k} numbers")
        if not np.abs(reward).max(initial=0.0) <= LARGEST_REWARD:
            raise reward_out_of_range(reward[np.argmax(~(np.abs(reward) <= LARGEST_REWARD))])
        if len(set(env_ids)) != k:
            raise ValueError(f"env_ids: got {list(env_ids)}, expected {k} different ids")
        self._check_names(extra)
        obs_field, action_field, first = self.obs, self.action, None
        if obs_field is None or action_field is None:  # the first step defines the columns, after all checks
            first = rows_of(obs, k, "obs")[0], rows_of(action, k, "action")[0]
            obs_field = Field.like(Rows(), first[0], strict=True, frames=True)
            action_field = Field.like(Rows(), first[1], strict=False)
        leaves, next_leaves = self._check_observations(obs_field, obs, next_obs, k)
        actions = action_field.check_many(action, k, "action")
        checked = self._checked_many_extras({name: rows_of(values, k, name) for name, values in extra.items()})
        if first is not None:
            self._checked(*first, None, extra)
            assert self.obs is not None
            leaves, next_leaves = self._check_observations(self.obs, obs, next_obs, k)
        assert self.action is not None

        for env_id in env_ids:
            if env_id not in self.running:
                self.running[env_id] = Running()
        runs = [self.running[env_id] for env_id in env_ids]
        at, next_at = self._put_many_observations(runs, leaves, next_leaves)
        rows = self.steps.take(k)
        self.action.put_many(rows, actions, rows)
        self._link(runs, rows, reward, terminal, at, next_at)
        if extra or self.extras:
            for i, row in enumerate(rows.tolist()):
                self._put_extras(row, {name: values[i] for name, values in checked.items()})
        return rows

    def _check_observations(self, field: Field, obs: Any, next_obs: Any, k: int) -> tuple[list[Any], list[Any]]:
        """Check the observations and next observations of k environments. Return their stacked leaves."""
        return self.check_or_widen(lambda: (field.check_many(obs, k, "obs"), field.check_many(next_obs, k, "next_obs")))

    def release(self, row: int) -> None:
        """Free a step. The caller must have released the previous steps of its episode."""
        at, next_at, successor = self.obs_row.item(row), self.next_row.item(row), self.successor.item(row)
        plain = self.plain is not None
        if successor == RUNNING:
            run = next(run for run in self.running.values() if run.tail == row)
            run.tail = 0
            shared = run.pending  # the next step of the episode will use this row
        else:
            shared = self.obs_row.item(successor)
        if next_at != at and next_at != shared:
            self.obs_rows.released.append(next_at) if plain else self.free_observation(next_at)
        self.obs_rows.released.append(at) if plain else self.free_observation(at)
        if self.releases is not None:
            self.releases[row] += 1
        if len(self.predecessor) and successor > ENDED:
            self.predecessor[successor] = 0
        if self.plain_action is None and self.action is not None:
            self.action.drop(row)
        for extra in self.extras.values():
            extra.drop(row)
        self.steps.free.append(row)

    def batch(
        self,
        rows: Indices,
        index: Indices,
        weight: NDArray[Any] | None,
        num_steps: int,
        gamma: float,
        device: torch.device | str,
        lengths: Indices | None = None,
        *,
        next_actions: bool = False,
        continuation: float = 0,
        stacked: Stacks | None = None,
    ) -> Batch:
        """Gather n-step items as a batch of tensors. Each item sums the rewards of up to `num_steps` steps.

        Args:
            rows: First step of each item, shape [N]. If `lengths` is not None, the rows of the
                sequences, packed time first.
            index: Value of `Batch.index`.
            weight: Value of `Batch.weight`.
            num_steps: Number of steps per item, if the episode is long enough. If it is more than 1, the caller must
                have called `set_windows` for these rows.
            gamma: Discount factor per step.
            device: Device of the tensors.
            lengths: Lengths of the sequences. If None, the items are not sequences.
            next_actions: True to fill `Batch.next_action` from the next steps if the steps have no column of this name.
            continuation: Number of steps after each item that `Batch.continuation` contains. If infinity, all later
                steps of the episode. If 0, `Batch.continuation` is None.
            stacked: Function that returns stacked observations of steps, see `links.stacks`. If None, the batch has the
                stored observations.
        """
        if gamma != self._gamma or num_steps >= len(self._discounts):
            self._set_gamma(gamma, num_steps)
        if num_steps == 1:
            last = rows
            reward = self.reward[rows].astype(np.float32)
            discount = self._one_step_discounts.take(self.terminal[rows])
        else:
            last = self.window_end[rows]
            reward = self._sum_rewards(rows, num_steps)
            discount = self._discounts[self.lookahead[rows]]
        if self.lacks_next:
            self.check_next_exists(last)
        plain, action = self.plain, self.plain_action
        other_device = device != _CPU and device != "cpu"
        needs_gather = self.extras or lengths is not None or other_device or next_actions or continuation or stacked
        if plain is None or action is None or needs_gather:
            numbers = {"reward": reward, "discount": discount}
            if weight is not None:
                numbers["weight"] = weight.astype(np.float32)
            observed: Any = stacked and (lambda steps, **which: from_numpy(stacked(steps, **which)).to(device))
            batch = self.gather(
                rows, last, numbers, index, device, lengths, next_actions=next_actions, observed=observed
            )  # fmt: skip
            if not continuation:
                return batch
            return batch.replace(continuation=links.continuation(self, last, continuation, gamma, device, observed))
        return Batch(
            from_numpy(plain.take(self.obs_row[rows], 0, None, "clip")),
            from_numpy(action.take(rows, 0, None, "clip")),
            from_numpy(reward),
            from_numpy(plain.take(self.next_row[last], 0, None, "clip")),
            from_numpy(discount),
            None if weight is None else from_numpy(weight.astype(np.float32)),
            index,
        )

    def _set_gamma(self, gamma: float, num_steps: int) -> None:
        """Compute tables of powers of gamma, so that batches need no exponentiation."""
        self._gamma = gamma
        self._powers = np.array([gamma**i for i in range(num_steps)])
        self._discounts = np.array([0.0, *(gamma * self._powers)], np.float32)
        self._one_step_discounts = np.array([gamma, 0.0], np.float32)

    def _sum_rewards(self, rows: Indices, num_steps: int) -> NDArray[np.float32]:
        """Return the sum of the discounted rewards of the items that begin in these rows."""
        steps = np.empty((num_steps, len(rows)), np.int64)
        steps[0] = rows
        for i in range(1, num_steps):
            self.successor.take(steps[i - 1], None, steps[i], "clip")
        reward: NDArray[np.float64] = self._powers[:num_steps].dot(self.reward.take(steps))
        return reward.astype(np.float32)

    def gather(
        self,
        rows: Indices,
        last: Indices,
        numbers: Mapping[str, NDArray[np.float32]],
        index: Indices,
        device: torch.device | str,
        lengths: Indices | None = None,
        *,
        next_actions: bool = False,
        observed: Callable[..., Any] | None = None,
    ) -> Batch:
        """Gather a batch of all columns. The caller computes rewards and discounts.

        Args:
            rows: First step of each item, shape [N].
            last: Last step of each item, shape [N].
            numbers: Computed fields of the batch, including `reward` and `discount`, each of shape [N].
            index: Value of `Batch.index`.
            device: Device of the tensors.
            lengths: Lengths of the sequences. If None, the items are not sequences.
            next_actions: True to fill `Batch.next_action` from the next steps if the steps have no column of this name.
            observed: Function that returns the observations of steps as tensors, or, if called with `following=True`,
                their next observations. If None, the batch has the stored observations.

        Raises:
            ValueError: If nothing was ever stored.
        """
        if self.obs is None or self.action is None:
            raise ValueError("nothing was ever stored, so the shapes of a batch are unknown")
        jobs: list[Job] = [(number, np.arange(len(rows))) for number in numbers.values()]
        parts: dict[str, tuple[Field, slice]] = {}

        def add(name: str, field: Field | None, new: list[Job]) -> None:
            if field is not None:
                parts[name] = field, slice(len(jobs), len(jobs) + len(new))
                jobs.extend(new)

        if observed is None:
            add("obs", self.obs, self.obs.jobs(self.obs_row[rows]))
            add("next_obs", self.obs, self.obs.jobs(self.next_row[last]))
        add("action", self.action, self.action.jobs(rows))
        for name, extra in self.extras.items():
            steps = last if name.startswith("next_") else rows
            if lengths is not None and name in _RECURRENT:
                steps = rows[: len(lengths)]  # packed time first: the first steps of the sequences
            held = extra.present(steps)
            if held.all() or (held.any() and name in _HAVE_DEFAULTS):
                add(name, extra.field, extra.jobs(steps))

        tensors = to_tensors(jobs, device)
        values = {name: field.build(tensors[place]) for name, (field, place) in parts.items()}
        values.update(zip(numbers, tensors, strict=False))
        if observed is not None:
            values |= {"obs": observed(rows), "next_obs": observed(last, following=True)}
        for name in values.keys() & _RECURRENT:
            values[name] = map_nested(lambda state: state.movedim(0, 1).contiguous(), values[name])
        for name in values.keys() & _FLOATS:
            values[name] = values[name].float()
        if next_actions and "next_action" not in values:
            values["next_action"] = links.next_actions(self, last, device)
        others = {name: values.pop(name) for name in self.extras if name in values and name not in _BATCH_FIELDS}
        packed = None if lengths is None else from_numpy(lengths)
        return Batch(**values, index=index, extra=others or None, lengths=packed)

    def stacked_extras(self, rows: Indices) -> dict[str, Any]:
        """Return a dict of extra columns as stacked arrays [N, ...]. Omit columns in which a step has no value."""
        return {
            name: extra.field.stacked(extra.index.take(rows))
            for name, extra in self.extras.items()
            if extra.field is not None and extra.present(rows).all()
        }

    def transitions(self, rows: Indices) -> list[dict[str, Any]]:
        """Return these steps as PFRL's dicts.

        Keys: state, action, reward, next_state, next_action, is_state_terminal, and the extra columns.
        """
        if not len(rows):
            return []
        assert self.obs is not None and self.action is not None
        at, next_at = self.obs_row[rows], self.next_row[rows]
        no_next = (at == next_at).tolist()
        columns: dict[str, list[Any]] = {
            "state": self.obs.values(at),
            "action": self.action.values(rows),
            "reward": self.reward[rows].tolist(),
            "next_state": [None if no else obs for no, obs in zip(no_next, self.obs.values(next_at), strict=True)],
            "next_action": [None] * len(rows),
            "is_state_terminal": self.terminal[rows].tolist(),
        }
        columns |= {name: extra.values(rows) for name, extra in self.extras.items()}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    @property
    def nbytes(self) -> int:
        """Number of bytes of all rows, including free rows."""
        fields = [field.nbytes for field in (self.obs, self.action) if field is not None]
        return self.steps.nbytes + self.obs_rows.nbytes + sum(fields) + sum(e.nbytes for e in self.extras.values())
