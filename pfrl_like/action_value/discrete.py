"""Values of finitely many actions, some of which may be forbidden."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.base import ActionValue, as_rows
from pfrl_like.functions.action_masks import as_action_mask, without_forbidden

Formatter = Callable[[Any], Any]


def unchanged(values: Any) -> Any:
    """The values as they are."""
    return values


class DiscreteActionValue(ActionValue):
    """Values of finitely many actions.

    Args:
        q_values: Q(s, a), [B, n_actions].
        q_values_formatter: Applied to the array of values in `repr`.
        action_mask: True where an action is allowed, [B, n_actions], bool. The greedy action, `max` and
            `compute_expectation` leave the others out; a row that allows nothing (a terminal state has nothing to
            choose) counts as allowing everything.

    Raises:
        TypeError: If `q_values` is no tensor.
        ValueError: If `q_values` has another number of dimensions.
    """

    q_values: Tensor

    def __init__(
        self, q_values: Tensor, q_values_formatter: Formatter = unchanged, action_mask: Tensor | None = None
    ) -> None:
        if not isinstance(q_values, Tensor):
            raise TypeError(f"q_values is a {type(q_values).__name__}, expected a tensor [B, n_actions]")
        if q_values.ndim != 2:
            raise ValueError(f"q_values has shape {tuple(q_values.shape)}, expected [B, n_actions]")
        self.q_values = q_values
        self.q_values_formatter = q_values_formatter
        self.action_mask = action_mask

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.q_values.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.params[0].device

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(q_values,)."""
        return (self.q_values,)

    @property
    def greedy_actions(self) -> Tensor:
        """Allowed action of the largest value, [B], int64."""
        return self.without_forbidden(self.q_values.detach()).argmax(1)

    @property
    def max(self) -> Tensor:
        """Largest value of an allowed action, [B]."""
        return (self.q_values if self.action_mask is None else self.without_forbidden(self.q_values)).amax(1)

    def without_forbidden(self, logits: Tensor) -> Tensor:
        """The same numbers, [B, n_actions], with minus infinity for forbidden actions."""
        return logits if self.action_mask is None else without_forbidden(logits, self.action_mask)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Value of one action for each state, [B]; where there is only one, its number is not looked at."""
        if self.q_values.shape[1] == 1:
            return self.q_values.squeeze(1)
        return self.q_values.gather(1, actions.long().unsqueeze(1)).squeeze(1)

    def compute_expectation(self, beta: float) -> Tensor:
        """Mean value of the actions under the probabilities softmax(beta * Q), [B]."""
        return (torch.softmax(self.without_forbidden(beta * self.q_values), 1) * self.q_values).sum(1)

    def masked(self, action_mask: Any) -> Self:
        """The same values with only some actions allowed.

        Args:
            action_mask: True where an action is allowed, tensor or array [B, n_actions] or [n_actions].

        Raises:
            ValueError: If its shape does not fit.
        """
        first = self.params[0]
        mask = as_action_mask(action_mask, torch.Size((first.shape[0], self.n_actions)), first.device)
        return self._rows(slice(None), mask)

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.q_values[rows], self.q_values_formatter, action_mask)

    def __getitem__(self, i: Any) -> Self:
        rows = as_rows(i, len(self.params[0]))
        return self._rows(rows, None if self.action_mask is None else self.action_mask[rows])

    def __repr__(self) -> str:
        q_values = self.q_values_formatter(self.q_values.detach().cpu().numpy())
        return f"{type(self).__name__} greedy_actions:{self.greedy_actions.cpu().numpy()} q_values:{q_values}"
