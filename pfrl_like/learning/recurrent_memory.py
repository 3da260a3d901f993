"""What an agent carries from step to step for a recurrent network."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import map_nested
from pfrl_like.storage.plain_tensors import from_plain, to_plain
from pfrl_like.utils.recurrent import (
    get_recurrent_state_at,
    mask_recurrent_state_at,
    one_step_forward,
    recurrent_state_as_numpy,
)


class RecurrentMemory:
    """Recurrent states of the environments that an agent acts in, apart for training and evaluation.

    Args:
        interval: Every how many steps of an episode the state goes into the replay buffer; None for only the first.
        device: Where the states are.
    """

    def __init__(self, interval: int | None, device: torch.device | str = "cpu") -> None:
        self.interval = interval
        self.device = device
        self.train_state: Any = None
        self.train_previous_state: Any = None
        self.test_state: Any = None
        self._steps = np.zeros(0, dtype=np.int64)  # of each environment's training episode

    def forward(self, module: Callable[..., Any], obs: Any, training: bool, active: Any = None) -> Any:
        """The module's output after one step; inactive environments keep their state."""
        before = self.train_state if training else self.test_state
        if before is not None and _batch_size(before) != _batch_size((obs,), axis=0):
            before = None  # another number of environments: other episodes
        output, after = one_step_forward(module, obs, before)
        if active is not None and not np.all(active):
            after = _select(torch.as_tensor(np.asarray(active)), after, before)
        if training:
            self.train_previous_state, self.train_state = before, after
        else:
            self.test_state = after
        return output

    def columns(self, ended: Any, active: Any = None) -> dict[str, Any]:
        """`recurrent_state` and `next_recurrent_state` of each environment, None in steps that keep none."""
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
        """Bring all states back to the initial one."""
        if training:
            self.train_state = self.train_previous_state = None
            self._steps = np.zeros(0, dtype=np.int64)
        else:
            self.test_state = None

    def episodes_ended(self, training: bool, ended: Any) -> None:
        """Bring the states of ended episodes back to the initial one."""
        indices = np.flatnonzero(ended)
        if len(indices) == 0:
            return
        if training:
            self.train_state = mask_recurrent_state_at(self.train_state, indices)
        else:
            self.test_state = mask_recurrent_state_at(self.test_state, indices)

    def state_dict(self) -> dict[str, Any]:
        """What training needs to go on between two steps, as values for JSON and tensors."""
        return {"train_state": to_plain(self.train_state), "steps": self._steps.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave; episodes of evaluation begin anew.

        Raises:
            ValueError: If it is something else; nothing was changed.
        """
        try:
            train_state = from_plain(state["train_state"], self.device)
            steps = np.array(state["steps"], dtype=np.int64).reshape(-1)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the recurrent memory is {state!r:.100}, which does not fit: {error}") from error
        self.train_state, self.train_previous_state, self.test_state = train_state, None, None
        self._steps = steps

    @staticmethod
    def _at(state: Any, i: int) -> Any:
        return recurrent_state_as_numpy(get_recurrent_state_at(state, i, detach=True))


def _select(active: torch.Tensor, after: Any, before: Any) -> Any:
    """`after` where active, `before` (None: zeros) elsewhere; the batch is the second axis."""
    if isinstance(after, tuple):
        parts = (None,) * len(after) if before is None else before
        return tuple(_select(active, new, old) for new, old in zip(after, parts, strict=True))
    where = active.to(after.device).reshape(1, -1, *[1] * (after.ndim - 2))
    return torch.where(where, after, torch.zeros_like(after) if before is None else before)


def _batch_size(nested: Any, axis: int = 1) -> int:
    """Length of the batch axis of the first tensor; -1 if there is none."""
    sizes: list[int] = []
    map_nested(lambda leaf: sizes.append(leaf.shape[axis]), nested)
    return sizes[0] if sizes else -1


def batch_first(state: Any, like: Any) -> Any:
    """A recurrent state with the batch as the first axis; zeros like another state in place of None."""
    if isinstance(like, tuple):
        parts = (None,) * len(like) if state is None else state
        return tuple(batch_first(part, other) for part, other in zip(parts, like, strict=True))
    return (torch.zeros_like(like) if state is None else state).movedim(1, 0)
