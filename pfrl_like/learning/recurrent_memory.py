"""Recurrent states of acting agents, their storage in the replay buffer, and their recomputation by burn-in.

Burn-in is described by Kapturowski et al. 2019, section 3.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import Batch, map_nested
from pfrl_like.storage.plain_tensors import from_plain, to_plain
from pfrl_like.utils import recurrent
from pfrl_like.utils.env_values import mask_columns

#: Fields of a batch that contain one value per sequence. All other fields contain one value per row.
_NON_ROW_COLUMNS = ("index", "lengths", "recurrent_state", "next_recurrent_state")


class RecurrentMemory:
    """Recurrent states of an agent, one for each environment, separately for training and evaluation.

    Args:
        interval: Number of steps between the recurrent states that are stored in the replay buffer. If None, only the
            first state of each episode is stored.
        device: Device of the states.
    """

    def __init__(self, interval: int | None, device: torch.device | str = "cpu") -> None:
        self.interval, self.device = interval, device
        self.train_state: Any = None
        self.train_previous_state: Any = None
        self.test_state: Any = None
        self._steps = np.zeros(0, dtype=np.int64)  # number of steps in each environment's running episode

    def forward(self, module: Callable[..., Any], obs: Any, training: bool, active: Any = None) -> Any:
        """Return the module's output for one step, and update the states of active environments."""
        before = self.train_state if training else self.test_state
        if before is not None and _batch_size(before) != _batch_size((obs,), axis=0):
            before = None  # the number of environments has changed, so all episodes are new
        output, after = recurrent.one_step_forward(module, obs, before)
        if active is not None and not np.all(active):
            after = _pairwise(partial(_select, torch.as_tensor(np.asarray(active))), after, before)
        if training:
            self.train_previous_state, self.train_state = before, after
        else:
            self.test_state = after
        return output

    def columns(self, ended: Any, active: Any = None) -> dict[str, Any]:
        """Return the columns `recurrent_state` and `next_recurrent_state` of the last step of each environment.

        The value of an environment is None if no state is stored for its step.
        """
        k = len(ended)
        if len(self._steps) != k:
            self._steps = np.zeros(k, dtype=np.int64)
        keep = self._steps == 0 if self.interval is None else self._steps % self.interval == 0
        before = self.train_previous_state
        if before is None:
            before = map_nested(torch.zeros_like, self.train_state)
        columns = {
            "recurrent_state": [self._at(before, i) if keep[i] else None for i in range(k)],
            "next_recurrent_state": [self._at(self.train_state, i) if keep[i] else None for i in range(k)],
        }
        self._steps += 1 if active is None else np.asarray(active, dtype=np.int64)
        self._steps[np.asarray(ended, dtype=bool)] = 0
        return columns

    def forget(self, training: bool) -> None:
        """Reset all recurrent states to the initial state."""
        if training:
            self.train_state = self.train_previous_state = None
            self._steps = np.zeros(0, dtype=np.int64)
        else:
            self.test_state = None

    def episodes_ended(self, training: bool, ended: Any) -> None:
        """Reset the recurrent states of ended episodes to the initial state."""
        indices = np.flatnonzero(ended)
        if len(indices) == 0:
            return
        if training:
            self.train_state = recurrent.mask_recurrent_state_at(self.train_state, indices)
        else:
            self.test_state = recurrent.mask_recurrent_state_at(self.test_state, indices)

    def state_dict(self) -> dict[str, Any]:
        """Return the recurrent states of training as JSON values and tensors."""
        return {"train_state": to_plain(self.train_state), "steps": self._steps.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`. The recurrent states of evaluation are reset.

        Raises:
            ValueError: If `state` has the wrong form. The memory is not changed.
        """
        try:
            train_state = from_plain(state["train_state"], self.device)
            steps = np.array(state["steps"], dtype=np.int64).reshape(-1)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the recurrent memory is {state!r:.100}, which is invalid: {error}") from error
        self.train_state, self.train_previous_state, self.test_state = train_state, None, None
        self._steps = steps

    @staticmethod
    def _at(state: Any, i: int) -> Any:
        return recurrent.recurrent_state_as_numpy(recurrent.get_recurrent_state_at(state, i, detach=True))


def states_of_memory(name: str) -> property:
    """Return a property of an agent for PFRL's methods: the recurrent states `name` of its memory.

    The value is None if the agent is not recurrent.

    Args:
        name: Name of the attribute of `RecurrentMemory`.
    """

    def read(agent: Any) -> Any:
        return getattr(agent.recurrent_memory, name, None)

    def write(agent: Any, state: Any) -> None:
        if agent.recurrent_memory is not None:
            setattr(agent.recurrent_memory, name, state)
        elif state is not None:
            raise AttributeError(f"{type(agent).__name__} has no recurrent states: build it with recurrent=True")

    return property(read, write, doc=f"Recurrent states of all environments, `{name}` of `recurrent_memory`.")


def _pairwise(function: Callable[[Any, Any], Any], state: Any, other: Any) -> Any:
    """Apply a function to each tensor of `state` and the corresponding tensor of `other`. `other` may be None."""
    if isinstance(state, tuple):
        parts = (None,) * len(state) if other is None else other
        return tuple(_pairwise(function, *pair) for pair in zip(state, parts, strict=True))
    return function(state, other)


def _select(active: torch.Tensor, after: Any, before: Any) -> Any:
    """Return `after` for active environments and `before` for inactive environments. Axis 1 is the environment.

    If `before` is None, inactive environments get zeros.
    """
    where = active.to(after.device).reshape(1, -1, *[1] * (after.ndim - 2))
    return torch.where(where, after, torch.zeros_like(after) if before is None else before)


def _batch_size(nested: Any, axis: int = 1) -> int:
    """Return the size of the axis in the first tensor of nested tensors. Return -1 if there is no tensor."""
    sizes: list[int] = []
    map_nested(lambda leaf: sizes.append(leaf.shape[axis]), nested)
    return sizes[0] if sizes else -1


def batch_first(state: Any, like: Any) -> Any:
    """Move the batch axis of a recurrent state to the front. If it is None, return zeros in the shape of `like`."""
    return _pairwise(lambda each, part: (torch.zeros_like(each) if part is None else part).movedim(1, 0), like, state)


def burn_in(module: Callable[..., Any], batch: Batch, n_steps: int) -> Batch:
    """Run the network on the first steps of each sequence, and remove these steps from the batch.

    Args:
        module: Network of the agent. If the network is not recurrent, the recurrent states do not change.
        batch: Sequences whose `obs` are features.
        n_steps: Number of steps to remove from each sequence. A sequence with at most `n_steps` steps keeps its last
            step.

    Returns:
        The remaining steps. The number and the order of the sequences do not change. The recurrent states before and
        after the first remaining step are recomputed with the current parameters. The new states replace the stored
        states.
    """
    lengths = batch.lengths
    if lengths is None or n_steps == 0:
        return batch
    burnt = torch.clamp(lengths - 1, max=n_steps)
    burn_in_rows = packed_rows(lengths, torch.zeros_like(burnt), burnt)
    rest = packed_rows(lengths, burnt, lengths)
    with torch.no_grad():
        states = {
            "recurrent_state": _advance(module, batch.obs, burn_in_rows, batch.recurrent_state, burnt),
            "next_recurrent_state": _advance(module, batch.next_obs, burn_in_rows, batch.next_recurrent_state, burnt),
        }
    fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    rows = {k: map_nested(lambda leaf: leaf[rest], v) for k, v in fields.items() if k not in _NON_ROW_COLUMNS}
    return batch.replace(**rows, **states, lengths=lengths - burnt)


def packed_rows(lengths: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    """Return the packed row numbers of steps start..stop-1 of each sequence, in packed order.

    Args:
        lengths: Lengths of the sequences, [B], in descending order.
        start: First step of each sequence, [B].
        stop: Step after the last step of each sequence, [B]. The differences `stop - start` must be in descending
            order.
    """
    first_row = torch.cat([torch.zeros(1, dtype=torch.int64), recurrent.batch_sizes_of(lengths).cumsum(0)])
    step = torch.arange(int((stop - start).max())).unsqueeze(1) + start
    row = first_row[step.clamp(max=len(first_row) - 1)] + torch.arange(len(lengths))
    return row[step < stop]


def _advance(module: Callable[..., Any], inputs: Any, rows: Tensor, state: Any, n_steps: Tensor) -> Any:
    """Return each sequence's recurrent state after `n_steps` steps. `n_steps` has shape [B].

    Sequences with 0 steps must be at the end. Their states do not change.
    """
    running = int((n_steps > 0).sum())
    if running == 0:
        return state
    before = recurrent.map_recurrent_state(lambda part: part[:, :running].contiguous(), state)
    inputs = map_nested(lambda leaf: leaf[rows], inputs)
    advanced = recurrent.forward(module, inputs, before, n_steps[:running])[1]
    return _pairwise(partial(_join, n_unchanged=len(n_steps) - running), advanced, state)


def _join(advanced: Any, state: Any, n_unchanged: int) -> Any:
    if advanced is None or n_unchanged == 0:
        return advanced
    waiting = advanced.new_zeros(advanced.shape[0], n_unchanged, *advanced.shape[2:])
    return torch.cat([advanced, waiting if state is None else state[:, -n_unchanged:]], dim=1)


def store_step(
    agent: Any, step: tuple[Any, ...], ended: Any, next_mask: Any, active: Any, **columns: list[Any]
) -> None:
    """Append a step of k environments, with its recurrent states and action masks, to the replay buffer.

    Args:
        agent: The agent. Its replay buffer, its `memory` of recurrent states and its mask of the last actions are used.
        step: Observations, actions, rewards, next observations, terminal flags and truncation flags, each of length k.
        ended: True where the episode has ended, [k]. It is needed only if the agent has a `memory`.
        next_mask: True where an action is allowed in the next observations, [k, n_actions]. None for no mask.
        active: False for environments that took no step, [k]. None if all environments took a step.
        **columns: Additional columns with one value per environment.
    """
    if agent.recurrent_memory is not None:
        columns |= agent.recurrent_memory.columns(ended, active)
    columns |= mask_columns(agent._last_mask, next_mask, step[3][0])
    env_ids = None
    if active is not None:
        env_ids = np.flatnonzero(active).tolist()
        step = tuple([column[i] for i in env_ids] for column in step)
        columns = {name: [column[i] for i in env_ids] for name, column in columns.items()}
    obs, action, reward, next_obs, done, reset = step
    agent.replay_buffer.append_batch(obs, action, reward, next_obs, done, reset, env_ids, **columns)
