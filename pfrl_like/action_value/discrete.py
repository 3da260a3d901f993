"""Values of discrete actions, with optional action masks: scalar values, or distributions over atoms (C51)."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.base import ActionValue, Elementwise, Losses, as_rows
from pfrl_like.functions.action_masks import as_action_mask, without_forbidden
from pfrl_like.functions.losses import categorical_projection, huber, td_target

Format = Callable[[Any], Any]


def identity(values: Any) -> Any:
    """Return the values unchanged."""
    return values


class DiscreteActionValue(ActionValue):
    """Values of discrete actions.

    Args:
        q_values: Q(s, a), [B, n_actions].
        q_values_formatter: Function that formats the array of values in `repr`.
        action_mask: True for allowed actions, [B, n_actions], bool. The greedy action, `max` and `compute_expectation`
            use only allowed actions. If a row allows no action, for example in a terminal state, all actions are
            allowed in this row. None allows all actions.

    Raises:
        TypeError: If `q_values` is not a tensor.
        ValueError: If `q_values` does not have two dimensions.
    """

    q_values: Tensor

    def __init__(
        self, q_values: Tensor, q_values_formatter: Format = identity, action_mask: Tensor | None = None
    ) -> None:
        if not isinstance(q_values, Tensor):
            raise TypeError(f"q_values is {type(q_values).__name__}, expected a tensor [B, n_actions]")
        if q_values.ndim != 2:
            raise ValueError(f"q_values has shape {tuple(q_values.shape)}, expected [B, n_actions]")
        self.q_values, self.q_values_formatter, self.action_mask = q_values, q_values_formatter, action_mask

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.q_values.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self.params[0].device

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensor `q_values`."""
        return (self.q_values,)

    @property
    def greedy_actions(self) -> Tensor:
        """Allowed action with the maximum value, [B], int64."""
        return self.without_forbidden(self.q_values.detach()).argmax(1)

    @property
    def max(self) -> Tensor:
        """Maximum value over the allowed actions, [B]."""
        return (self.q_values if self.action_mask is None else self.without_forbidden(self.q_values)).amax(1)

    def without_forbidden(self, logits: Tensor) -> Tensor:
        """Return the logits, [B, n_actions]. Logits of actions that are not allowed are replaced by minus infinity."""
        return logits if self.action_mask is None else without_forbidden(logits, self.action_mask)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) for one action per state, [B]. If the states have only one action, `actions` is ignored."""
        if self.q_values.shape[1] == 1:
            return self.q_values.squeeze(1)
        return self.q_values.gather(1, actions.long().unsqueeze(1)).squeeze(1)

    def compute_expectation(self, beta: float) -> Tensor:
        """Return the mean of Q over the actions, weighted with the probabilities softmax(beta * Q), [B]."""
        return (torch.softmax(self.without_forbidden(beta * self.q_values), 1) * self.q_values).sum(1)

    def masked(self, action_mask: Any) -> Self:
        """Return the values, restricted to the actions that `action_mask` allows.

        Args:
            action_mask: True for allowed actions, a tensor or array [B, n_actions] or [n_actions].

        Raises:
            ValueError: If the shape of `action_mask` does not match.
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


class DistributionActionValue(DiscreteActionValue):
    """Base class of action values that are distributions of the return."""

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Elementwise = huber,
    ) -> Losses:
        """Return the loss of a minibatch, as in `ActionValue.td_loss`. `elementwise` is ignored."""
        return self._loss(action, reward, discount, next_value, next_action)

    @abstractmethod
    def _loss(self, action: Tensor, reward: Tensor, discount: Tensor, next_value: Any, next_action: Any) -> Losses:
        """Return the result of `td_loss`. If `next_action` is None, the greedy actions of `next_value` are used."""


class DistributionalDiscreteActionValue(DistributionActionValue):
    """Distributions of the returns of discrete actions over fixed atoms (arXiv:1707.06887).

    Args:
        q_dist: Probabilities of the atoms, [B, n_actions, n_atoms].
        z_values: Returns represented by the atoms, [n_atoms], increasing and evenly spaced.
        q_values_formatter: Function that formats the array of values in `repr`.
        action_mask: True for allowed actions, [B, n_actions], bool. The greedy action, `max` and `compute_expectation`
            use only allowed actions. If a row allows no action, for example in a terminal state, all actions are
            allowed in this row. None allows all actions.

    Raises:
        TypeError: If `q_dist` or `z_values` is not a tensor.
        ValueError: If the shapes of `q_dist` and `z_values` do not match.
    """

    def __init__(
        self, q_dist: Tensor, z_values: Tensor, q_values_formatter: Format = identity, action_mask: Tensor | None = None
    ) -> None:
        if not (isinstance(q_dist, Tensor) and isinstance(z_values, Tensor)):
            raise TypeError(f"q_dist and z_values are {type(q_dist)} and {type(z_values)}, expected tensors")
        if q_dist.ndim != 3 or z_values.shape != q_dist.shape[2:]:
            got = f"q_dist has shape {tuple(q_dist.shape)} and z_values {tuple(z_values.shape)}"
            raise ValueError(f"{got}, expected [B, n_actions, n_atoms] and [n_atoms]")
        self.q_dist, self.z_values = q_dist, z_values
        self.q_values = q_dist @ z_values
        self.q_values_formatter, self.action_mask = q_values_formatter, action_mask

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensor `q_dist`."""
        return (self.q_dist,)

    @property
    def max_as_distribution(self) -> Tensor:
        """Distributions of the returns of the greedy actions, [B, n_atoms]."""
        return self.evaluate_actions_as_distribution(self.greedy_actions)

    def evaluate_actions_as_distribution(self, actions: Tensor) -> Tensor:
        """Return the distribution of the return of one action per state, [B, n_atoms]."""
        index = actions.long()[:, None, None].expand(-1, 1, self.q_dist.shape[2])
        return self.q_dist.gather(1, index).squeeze(1)  # unlike indexing, `gather` rejects the action -1

    def _loss(self, action: Tensor, reward: Tensor, discount: Tensor, next_value: Any, next_action: Any) -> Losses:
        """Return the loss and the error of each row. Both are the cross entropy to the projected target distribution.

        Projection and cross entropy are defined in algorithm 1 of arXiv:1707.06887.
        """
        probs = self.evaluate_actions_as_distribution(action)
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            next_probs = next_value.evaluate_actions_as_distribution(next_action)
            values = td_target(reward.unsqueeze(1), discount.unsqueeze(1), next_value.z_values)
            target = categorical_projection(self.z_values, values, next_probs)
        loss = -(target * probs.clamp_min(1e-10).log()).sum(1)
        return loss, loss.detach(), probs.detach() @ self.z_values

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.q_dist[rows], self.z_values, self.q_values_formatter, action_mask)
