"""PFRL's functions of DQN: target networks and recurrent states."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from pfrl_like.utils.copy_param import frozen_copy
from pfrl_like.utils.recurrent import mask_recurrent_state_at


def make_target_model_as_copy(model: nn.Module) -> nn.Module:
    """Return a copy of a module in evaluation mode. Its parameters require gradients where those of the module do.

    Args:
        model: The module.
    """
    copied = frozen_copy(model)
    for param, original in zip(copied.parameters(), model.parameters(), strict=True):
        param.requires_grad_(original.requires_grad)
    return copied


def _batch_reset_recurrent_states_when_episodes_end(
    batch_done: Sequence[bool], batch_reset: Sequence[bool], recurrent_states: Any
) -> Any:
    """Return recurrent states in which the states of ended episodes are zero.

    Args:
        batch_done: True for terminated episodes, [k].
        batch_reset: True for truncated episodes, [k].
        recurrent_states: Recurrent states of k environments.
    """
    ended = np.flatnonzero(np.logical_or(batch_done, batch_reset))
    return mask_recurrent_state_at(recurrent_states, ended) if len(ended) else recurrent_states
