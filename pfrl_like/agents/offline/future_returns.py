"""Returns to the end of an episode, from the steps that a replay buffer gives after each row."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch, map_nested
from pfrl_like.functions.returns import linked_lambda_returns

#: Rows per call of the value function, for the steps of a continuation.
_ROWS_OF_A_CALL = 4096


@torch.no_grad()
def future_returns(batch: Batch, value: Callable[[Any], Tensor], lambd: float) -> Tensor:
    """TD(lambda) returns to the end of the batch's `continuation`, [N] (Sutton and Barto 2018, eq. 12.18).

    Args:
        batch: Transitions, with their `continuation`.
        value: Maps the features of n states, [n, ...], to their values, [n].
        lambd: lambda, in [0, 1]; 0 bootstraps after the batch's own steps, 1 only where an episode was cut off.

    Raises:
        ValueError: If the batch lacks its `continuation`.
    """
    continuation = batch.continuation
    if continuation is None:
        raise ValueError(
            "batch lacks continuation, from which returns are made: give continuation=math.inf, or a number of "
            "steps, to sample_batch"
        )
    next_value = value(batch.next_obs)
    if not len(continuation.reward):
        return batch.reward + batch.discount * next_value
    values = torch.zeros_like(continuation.reward)
    rows = continuation.cut if lambd == 1 else torch.arange(len(values), device=values.device)  # others have weight 0
    for some in torch.split(rows, _ROWS_OF_A_CALL) if len(rows) else ():
        values[some] = value(map_nested(lambda leaf: leaf[some], continuation.next_obs))  # noqa: B023 - called at once
    rest = linked_lambda_returns(continuation.reward, continuation.discount, values, continuation.after, lambd)
    known = lambd * (continuation.first >= 0)
    return batch.reward + batch.discount * ((1 - known) * next_value + known * rest[continuation.first.clamp(min=0)])


def check_tells_future(replay_buffer: Any) -> None:
    """Reject a replay buffer that cannot give the steps after a transition.

    Raises:
        TypeError: If it cannot.
    """
    if not getattr(replay_buffer, "tells_future", False):
        raise TypeError(
            f"replay_buffer is {type(replay_buffer).__name__}, which cannot tell what came after a step, of which "
            "returns are made: use another one of pfrl_like.replay_buffers"
        )
