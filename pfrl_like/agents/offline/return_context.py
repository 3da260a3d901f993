"""Returns to go: beyond a batch's own steps, and of the episodes that run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_nested, first_leaf, map_nested
from pfrl_like.distributions import rows_of
from pfrl_like.functions.returns import linked_lambda_returns
from pfrl_like.storage.plain_tensors import from_saved, to_saved


class ReturnContext:
    """The last steps of the episodes that run, by environment.

    Args:
        size: Steps that are kept.

    Attributes:
        target_return: Return to go of an episode's first step.
        scale: What returns are divided by for the model.
    """

    target_return = 0.0
    scale = 1.0

    def __init__(self, size: int) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        """Forget all episodes."""
        self.steps: dict[int, list[list[Any]]] = {}  # of each step: return to go, observation [1, ...], action
        self.to_go: dict[int, float] = {}

    def begin_steps(self, model: Any, rows: Sequence[int], obs: Any) -> Any:
        """Take in new observations, nested tensors [len(rows), ...], and give what the model says of them."""
        for i, row in enumerate(rows):
            to_go = self.to_go.setdefault(row, self.target_return)
            steps = self.steps.setdefault(row, [])
            own = map_nested(lambda leaf: leaf[i : i + 1], obs)  # noqa: B023 - called at once
            steps.append([to_go / self.scale, own, model.no_action()])
            del steps[: -self.size]
        several = [self.steps[row] for row in rows]
        longest = max(map(len, several))
        filled = [[*steps, *[steps[-1]] * (longest - len(steps))] for steps in several]  # nothing looks at the copies
        flat = [step for steps in filled for step in steps]
        returns = torch.tensor([step[0] for step in flat], device=first_leaf(obs).device)

        def in_sequences(leaf: Tensor) -> Tensor:
            return leaf.view(len(rows), longest, *leaf.shape[1:])

        observed = map_nested(in_sequences, concatenate_nested([step[1] for step in flat]))
        action = in_sequences(torch.stack([step[2] for step in flat]))
        distribution = model(in_sequences(returns), observed, action)
        newest = torch.tensor([i * longest + len(steps) - 1 for i, steps in enumerate(several)])
        return rows_of(distribution, newest.to(returns.device))

    def end_steps(self, rows: Sequence[int], actions: Tensor) -> None:
        """Take in the actions that were chosen."""
        for row, action in zip(rows, actions, strict=True):
            self.steps[row][-1][2] = action

    def observed(self, row: int, reward: float, ended: bool) -> None:
        """Take in what came of an action."""
        if ended:
            self.steps.pop(row, None)
            self.to_go.pop(row, None)
        elif row in self.to_go:
            self.to_go[row] -= reward

    def state_dict(self) -> dict[str, Any]:
        """The episodes that run, as numbers and tensors."""
        return {
            "to_go": {str(row): to_go for row, to_go in self.to_go.items()},
            "returns": {str(row): [to_go for to_go, _, _ in steps] for row, steps in self.steps.items()},
            "seen": {str(row): to_saved([step[1:] for step in steps]) for row, steps in self.steps.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device | str) -> None:
        """Take up what `state_dict` gave.

        Raises:
            ValueError: If it is something else; nothing was changed.
        """
        try:
            to_go = {int(row): float(left) for row, left in state["to_go"].items()}
            steps = {}
            for row in to_go:
                returns, seen = state["returns"][str(row)], from_saved(state["seen"][str(row)], device)
                steps[row] = [[float(left), *parts] for left, parts in zip(returns, seen, strict=True)]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the context is {state!r:.100}, which does not fit: {error}") from error
        self.to_go, self.steps = to_go, steps


#: Rows of a call for the values of steps that are only looked at.
_ROWS_OF_A_CALL = 4096


@torch.no_grad()
def future_returns(batch: Batch, value: Callable[[Any], Tensor], lambd: float) -> Tensor:
    """TD(lambda) returns of transitions to the end of the batch's `future`, [N] (Sutton and Barto 2018, eq. 12.18).

    Args:
        batch: Transitions, with their `future`.
        value: Gives the values of states, [n], of features [n, ...].
        lambd: lambda, in [0, 1]; 0 bootstraps after the batch's own steps, 1 only where an episode was cut off.

    Raises:
        ValueError: If the batch comes without its `future`.
    """
    future = batch.future
    if future is None:
        raise ValueError(
            "batch lacks future, from which returns are made: give future=math.inf, or a number of steps, to "
            "sample_batch"
        )
    next_value = value(batch.next_obs)
    if not len(future.reward):
        return batch.reward + batch.discount * next_value
    values = torch.zeros_like(future.reward)
    rows = future.cut if lambd == 1 else torch.arange(len(values), device=values.device)  # others count nothing
    for some in torch.split(rows, _ROWS_OF_A_CALL) if len(rows) else ():
        values[some] = value(map_nested(lambda leaf: leaf[some], future.next_obs))  # noqa: B023 - called at once
    rest = linked_lambda_returns(future.reward, future.discount, values, future.after, lambd)
    known = lambd * (future.first >= 0)
    return batch.reward + batch.discount * ((1 - known) * next_value + known * rest[future.first.clamp(min=0)])


def check_tells_future(replay_buffer: Any) -> None:
    """Refuse a replay buffer that cannot tell what came after a step.

    Raises:
        TypeError: If it cannot.
    """
    if not getattr(replay_buffer, "tells_future", False):
        raise TypeError(
            f"replay_buffer is a {type(replay_buffer).__name__}, which cannot tell what came after a step, of which "
            "returns are made: use another one of pfrl_like.replay_buffers"
        )
