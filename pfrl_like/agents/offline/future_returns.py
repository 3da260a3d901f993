"""Returns to the end of an episode, computed from the steps that were recorded after each sampled transition."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch, map_nested
from pfrl_like.functions.returns import linked_lambda_returns

#: Maximum number of rows in one call of the value function.
_ROWS_OF_A_CALL = 4096


@torch.no_grad()
def future_returns(batch: Batch, value: Callable[[Any], Tensor], lambd: float) -> Tensor:
    """Return the TD(lambda) return of each transition, [N] (Sutton and Barto 2018, eq. 12.18).

    The returns include the rewards in `batch.continuation`, the recorded steps after each transition.

    Args:
        batch: Transitions with `continuation`.
        value: Function that maps the features of n states, [n, ...], to the values of the states, [n].
        lambd: lambda, in [0, 1]. If 0, the return bootstraps after one step. If 1, the return bootstraps only after the
            last step. It does not bootstrap from a terminal state.

    Raises:
        ValueError: If the batch has no `continuation`.
    """
    continuation = batch.continuation
    if continuation is None:
        raise ValueError("batch lacks continuation (the later steps): pass continuation=math.inf to sample_batch")
    next_value = value(batch.next_obs)
    if not len(continuation.reward):
        return batch.reward + batch.discount * next_value
    values = torch.zeros_like(continuation.reward)
    # If lambda is 1, a return bootstraps only after a last step that is not terminal.
    rows = continuation.cut if lambd == 1 else torch.arange(len(values), device=values.device)
    for chunk in torch.split(rows, _ROWS_OF_A_CALL) if len(rows) else ():
        values[chunk] = value(map_nested(lambda leaf: leaf[chunk], continuation.next_obs))  # noqa: B023 - called at once
    rest = linked_lambda_returns(continuation.reward, continuation.discount, values, continuation.after, lambd)
    rest_weight = lambd * (continuation.first >= 0)
    rest_of_rows = rest[continuation.first.clamp(min=0)]
    return batch.reward + batch.discount * ((1 - rest_weight) * next_value + rest_weight * rest_of_rows)


def check_continuation(replay_buffer: Any) -> None:
    """Check that a replay buffer can return the steps after a transition.

    Raises:
        TypeError: If the replay buffer cannot return the steps after a transition.
    """
    if not getattr(replay_buffer, "tells_future", False):
        kind = type(replay_buffer).__name__
        raise TypeError(f"replay_buffer is {kind}, which cannot return the steps after a transition: use ReplayBuffer")
