"""Values of continuous actions: quadratic functions of the action (NAF), or any function."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value.base import ActionValue, as_rows


class QuadraticActionValue(ActionValue):
    """Q(s, a) = V(s) - (a - mu(s))^T P(s) (a - mu(s)) / 2 (Gu et al. 2016, arXiv:1603.00748).

    Args:
        mu: Actions that maximise Q, [B, n].
        mat: P(s), positive definite, [B, n, n].
        v: V(s), [B] or [B, 1].
        min_action: Lower bound of actions, a number or an array [n] for all states. If None, there is no bound.
        max_action: Upper bound of actions, a number or an array [n] for all states. If None, there is no bound.
    """

    def __init__(self, mu: Tensor, mat: Tensor, v: Tensor, min_action: Any = None, max_action: Any = None) -> None:
        self.mu, self.mat, self.v = mu, mat, v
        self.min_action = _as_bound(min_action, mu)
        self.max_action = _as_bound(max_action, mu)
        self.device = mu.device
        self.batch_size = mu.shape[0]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensors `mu`, `mat` and `v`."""
        return (self.mu, self.mat, self.v)

    @property
    def greedy_actions(self) -> Tensor:
        """`mu`, clipped to the bounds, [B, n]."""
        action = self.mu
        if self.min_action is not None:
            action = torch.maximum(action, self.min_action)
        if self.max_action is not None:
            action = torch.minimum(action, self.max_action)
        return action

    @property
    def max(self) -> Tensor:
        """Value of the greedy actions, [B]."""
        if self.min_action is None and self.max_action is None:
            return self.v.reshape(self.batch_size)
        return self.evaluate_actions(self.greedy_actions)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) for one action [n] per state, [B]."""
        distance = (actions - self.mu).unsqueeze(2)  # [B, n, 1]
        return self.v.reshape(self.batch_size) - 0.5 * (distance.mT @ self.mat @ distance)[:, 0, 0]

    def __getitem__(self, i: Any) -> "QuadraticActionValue":
        rows = as_rows(i, len(self.params[0]))
        return QuadraticActionValue(self.mu[rows], self.mat[rows], self.v[rows], self.min_action, self.max_action)

    def __repr__(self) -> str:
        greedy, v = self.greedy_actions.detach().cpu().numpy(), self.v.detach().cpu().numpy()
        return f"QuadraticActionValue greedy_actions:{greedy} v:{v}"


def _as_bound(bound: Any, mu: Tensor) -> Tensor | None:
    if bound is None:
        return None
    return torch.as_tensor(bound, dtype=mu.dtype, device=mu.device).reshape(-1)


class SingleActionValue(ActionValue):
    """Action values that a function computes on demand.

    Args:
        evaluator: Function from actions [B, ...] to values [B].
        maximizer: Function without arguments that returns the greedy actions [B, ...]. If None, `greedy_actions` and
            `max` raise an error.
    """

    def __init__(self, evaluator: Callable[[Any], Tensor], maximizer: Callable[[], Tensor] | None = None) -> None:
        self.evaluator, self.maximizer = evaluator, maximizer

    @property
    def params(self) -> tuple[Tensor, ...]:
        """An empty tuple, because no tensor defines the values."""
        return ()

    @property
    def greedy_actions(self) -> Tensor:
        """Greedy actions, [B, ...], as returned by `maximizer`.

        Raises:
            ValueError: If `maximizer` is None.
        """
        if self.maximizer is None:
            raise ValueError("maximizer is None, so this SingleActionValue has no greedy actions: pass a maximizer")
        return self.maximizer()

    @property
    def max(self) -> Tensor:
        """Value of the greedy actions, [B]."""
        return self.evaluator(self.greedy_actions)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) for one action per state, [B]."""
        return self.evaluator(actions)

    def __repr__(self) -> str:
        return "SingleActionValue"
