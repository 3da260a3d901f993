"""What a Q-function says of a state: the value of every action, in one of several forms.

Each form also says how it is learnt: `td_loss` compares the values of the actions taken with targets made of the
next states' values. Everything works on a batch.
"""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.functions.distributional import categorical_projection, even_fractions
from pfrl_like.functions.losses import huber, quantile_huber
from pfrl_like.functions.td import td_target
from pfrl_like.utils.once import once

Formatter = Callable[[Any], Any]


def _unchanged(values: Any) -> Any:
    return values


class ActionValue(ABC):
    """Q(s, .) of a batch of states."""

    @property
    @abstractmethod
    def greedy_actions(self) -> Tensor:
        """argmax_a Q(s, a), [B, ...], detached where actions are discrete."""

    @property
    @abstractmethod
    def max(self) -> Tensor:
        """max_a Q(s, a), [B]."""

    @abstractmethod
    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Q(s, a) of one action for each state, [B]."""

    @property
    @abstractmethod
    def params(self) -> tuple[Tensor, ...]:
        """The tensors from which everything else is computed."""

    def __getitem__(self, i: Any) -> "ActionValue":
        """The values of some states; an integer gives a batch of one.

        Raises:
            TypeError: If this form cannot be taken apart.
        """
        raise TypeError(f"{type(self).__name__} cannot be indexed")

    def compute_advantage(self, actions: Tensor) -> Tensor:
        """Q(s, a) - max_b Q(s, b), [B]."""
        return self.evaluate_actions(actions) - self.max

    def compute_double_advantage(self, actions: Any, argmax_actions: Tensor) -> Tensor:
        """Q(s, a) - Q(s, b), with b the actions that another Q-function holds for the best, [B]."""
        return self.evaluate_actions(actions) - self.evaluate_actions(argmax_actions)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss of a minibatch against one- or n-step targets.

        Args:
            action: Actions taken, [B, ...].
            reward: Sum of the n discounted rewards, [B].
            discount: gamma**n, or 0 where the n steps ended in a terminal state, [B].
            next_value: Value of the states after the n steps, of the same form as this one; takes no gradient.
            next_action: Actions to bootstrap from; None for the greedy ones of `next_value`.
            elementwise: Loss of a TD error. Distributional forms have losses of their own and do without it.

        Returns:
            Loss, [B], and detached: how wrong each row is (target - Q(s, a), or what the form holds for that; for
            priorities), and Q(s, a), both [B].
        """
        value = self.evaluate_actions(action)
        with torch.no_grad():
            bootstrap = next_value.max if next_action is None else next_value.evaluate_actions(next_action)
            target = td_target(reward, discount, bootstrap)
        error = target - value  # as in target_loss; a call of it would cost more than these lines
        return elementwise(error), error.detach(), value.detach()

    def target_loss(
        self, action: Tensor, target: Tensor, elementwise: Callable[[Tensor], Tensor] = huber
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss of Q(s, a) against numbers; distributional forms compare their means with them.

        Args:
            action: Actions taken, [B, ...].
            target: What Q(s, a) should be, [B]; takes no gradient.
            elementwise: Loss of a TD error.

        Returns:
            As `td_loss`.
        """
        value = self.evaluate_actions(action)
        error = target - value
        return elementwise(error), error.detach(), value.detach()


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
        self, q_values: Tensor, q_values_formatter: Formatter = _unchanged, action_mask: Tensor | None = None
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
        return self.q_values.device

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
        mask = self.action_mask
        if mask is None:
            return logits
        return logits.masked_fill(~(mask | ~mask.any(1, keepdim=True)), -torch.inf)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Value of one action for each state, [B]."""
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
        mask = torch.as_tensor(action_mask, dtype=torch.bool, device=self.device)
        n_rows, n_actions = len(self.params[0]), self.n_actions
        if mask.shape not in {(n_actions,), (n_rows, n_actions)}:
            raise ValueError(
                f"action_mask has shape {tuple(mask.shape)}, expected {(n_rows, n_actions)} or {(n_actions,)}"
            )
        return self._rows(slice(None), mask.expand(n_rows, n_actions))

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.q_values[rows], self.q_values_formatter, action_mask)

    def __getitem__(self, i: Any) -> Self:
        rows = _as_rows(i)
        return self._rows(rows, None if self.action_mask is None else self.action_mask[rows])

    def __repr__(self) -> str:
        q_values = self.q_values_formatter(self.q_values.detach().cpu().numpy())
        return f"{type(self).__name__} greedy_actions:{self.greedy_actions.cpu().numpy()} q_values:{q_values}"


class DistributionalDiscreteActionValue(DiscreteActionValue):
    """Return distributions of finitely many actions over fixed atoms (arXiv:1707.06887).

    Args:
        q_dist: Probabilities of the atoms, [B, n_actions, n_atoms].
        z_values: Returns that the atoms stand for, [n_atoms], rising and evenly spaced.
        q_values_formatter: As in `DiscreteActionValue`.
        action_mask: As in `DiscreteActionValue`.

    Raises:
        TypeError: If `q_dist` or `z_values` is no tensor.
        ValueError: If their shapes do not fit.
    """

    def __init__(
        self,
        q_dist: Tensor,
        z_values: Tensor,
        q_values_formatter: Formatter = _unchanged,
        action_mask: Tensor | None = None,
    ) -> None:
        if not (isinstance(q_dist, Tensor) and isinstance(z_values, Tensor)):
            raise TypeError(f"q_dist and z_values are {type(q_dist)} and {type(z_values)}, expected tensors")
        if q_dist.ndim != 3 or z_values.shape != q_dist.shape[2:]:
            raise ValueError(
                f"q_dist has shape {tuple(q_dist.shape)} and z_values {tuple(z_values.shape)}, expected "
                "[B, n_actions, n_atoms] and [n_atoms]"
            )
        self.q_dist = q_dist
        self.z_values = z_values
        self.q_values = q_dist @ z_values
        self.q_values_formatter = q_values_formatter
        self.action_mask = action_mask

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.q_dist.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the distributions are."""
        return self.q_dist.device

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(q_dist,)."""
        return (self.q_dist,)

    @property
    def max_as_distribution(self) -> Tensor:
        """Return distributions of the greedy actions, [B, n_atoms]."""
        return self.evaluate_actions_as_distribution(self.greedy_actions)

    def evaluate_actions_as_distribution(self, actions: Tensor) -> Tensor:
        """Return distribution of one action for each state, [B, n_atoms]."""
        return self.q_dist[torch.arange(len(actions), device=actions.device), actions.long()]

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cross entropy to the projected target distribution (Algorithm 1), which is also the measure of error."""
        probs = self.evaluate_actions_as_distribution(action)
        with torch.no_grad():
            if next_action is None:
                next_action = next_value.greedy_actions
            next_probs = next_value.evaluate_actions_as_distribution(next_action)
            values = td_target(reward.unsqueeze(1), discount.unsqueeze(1), next_value.z_values)
            target = categorical_projection(self.z_values, values, next_probs)
        loss = -(target * probs.clamp_min(1e-10).log()).sum(1)
        return loss, loss.detach(), probs.detach() @ self.z_values

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.q_dist[rows], self.z_values, self.q_values_formatter, action_mask)


class QuantileDiscreteActionValue(DiscreteActionValue):
    """Quantiles of the returns of finitely many actions (arXiv:1710.10044).

    Args:
        quantiles: Values of the quantiles, [B, n_taus, n_actions].
        q_values_formatter: As in `DiscreteActionValue`.
        action_mask: As in `DiscreteActionValue`.
        taus: Which quantiles they are, in (0, 1), [B, n_taus]; None for the midpoints (i + 0.5) / n_taus.
        masses: Probability that each quantile stands for, [B, n_taus]; None for the same, 1 / n_taus.

    Raises:
        TypeError: If `quantiles` is no tensor.
        ValueError: If `quantiles` has another number of dimensions.
    """

    def __init__(
        self,
        quantiles: Tensor,
        q_values_formatter: Formatter = _unchanged,
        action_mask: Tensor | None = None,
        taus: Tensor | None = None,
        masses: Tensor | None = None,
    ) -> None:
        if not isinstance(quantiles, Tensor):
            raise TypeError(f"quantiles is a {type(quantiles).__name__}, expected a tensor [B, n_taus, n_actions]")
        if quantiles.ndim != 3:
            raise ValueError(f"quantiles has shape {tuple(quantiles.shape)}, expected [B, n_taus, n_actions]")
        self.quantiles = quantiles
        self.q_values_formatter = q_values_formatter
        self.action_mask = action_mask
        self.taus = taus
        self.masses = masses

    @once
    def q_values(self) -> Tensor:
        """Means of the returns, [B, n_actions]."""
        return self.mean_of(self.quantiles)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.quantiles.shape[2]

    @property
    def device(self) -> torch.device:
        """Where the quantiles are."""
        return self.quantiles.device

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(quantiles,)."""
        return (self.quantiles,)

    def evaluate_actions_as_quantiles(self, actions: Tensor) -> Tensor:
        """Quantiles of one action for each state, [B, n_taus]."""
        return self.quantiles[torch.arange(len(actions), device=actions.device), :, actions.long()]

    def mean_of(self, quantiles: Tensor) -> Tensor:
        """Mean of other distributions with quantiles of the same masses, [B, n_taus, ...] to [B, ...]."""
        return quantiles.mean(1) if self.masses is None else torch.einsum("bn...,bn->b...", quantiles, self.masses)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Quantile Huber loss (eq. 10); the measure of error is the distance of the means."""
        prediction = self.evaluate_actions_as_quantiles(action)
        with torch.no_grad():
            if next_action is None:
                next_action = next_value.greedy_actions
            next_quantiles = next_value.evaluate_actions_as_quantiles(next_action)
            target = td_target(reward.unsqueeze(1), discount.unsqueeze(1), next_quantiles)
            taus = even_fractions(prediction.shape[1], prediction) if self.taus is None else self.taus
            value = self.mean_of(prediction)
            error = (next_value.mean_of(target) - value).abs()
        return quantile_huber(prediction, target, taus, next_value.masses), error, value

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        taus, masses = (None if each is None else each[rows] for each in (self.taus, self.masses))
        return type(self)(self.quantiles[rows], self.q_values_formatter, action_mask, taus, masses)


class QuadraticActionValue(ActionValue):
    """Q(s, a) = V(s) - (a - mu(s))^T P(s) (a - mu(s)) / 2 (Gu et al. 2016, arXiv:1603.00748).

    Args:
        mu: Actions that maximise Q, [B, n].
        mat: P(s), positive definite, [B, n, n].
        v: V(s), [B] or [B, 1].
        min_action: Smallest action allowed, a number or [n], not batched; None for no bound.
        max_action: Largest action allowed, likewise.
    """

    def __init__(self, mu: Tensor, mat: Tensor, v: Tensor, min_action: Any = None, max_action: Any = None) -> None:
        self.mu = mu
        self.mat = mat
        self.v = v
        self.min_action = _as_bound(min_action, mu)
        self.max_action = _as_bound(max_action, mu)
        self.device = mu.device
        self.batch_size = mu.shape[0]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(mu, mat, v)."""
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
        """Value of one action, [n], for each state, [B]."""
        distance = (actions - self.mu).unsqueeze(2)  # [B, n, 1]
        return self.v.reshape(self.batch_size) - 0.5 * (distance.mT @ self.mat @ distance)[:, 0, 0]

    def __getitem__(self, i: Any) -> "QuadraticActionValue":
        rows = _as_rows(i)
        return QuadraticActionValue(self.mu[rows], self.mat[rows], self.v[rows], self.min_action, self.max_action)

    def __repr__(self) -> str:
        greedy, v = self.greedy_actions.detach().cpu().numpy(), self.v.detach().cpu().numpy()
        return f"QuadraticActionValue greedy_actions:{greedy} v:{v}"


class SingleActionValue(ActionValue):
    """Value of whatever action is asked for.

    Args:
        evaluator: Function from actions [B, ...] to values [B].
        maximizer: Function without arguments that gives the greedy actions [B, ...]; without it there are none.
    """

    def __init__(self, evaluator: Callable[[Any], Tensor], maximizer: Callable[[], Tensor] | None = None) -> None:
        self.evaluator = evaluator
        self.maximizer = maximizer

    @property
    def params(self) -> tuple[Tensor, ...]:
        """Empty: nothing is computed before an action is evaluated."""
        return ()

    @property
    def greedy_actions(self) -> Tensor:
        """What the maximizer gives.

        Raises:
            ValueError: If there is no maximizer.
        """
        if self.maximizer is None:
            raise ValueError("maximizer is None, so that this SingleActionValue has no greedy actions")
        return self.maximizer()

    @property
    def max(self) -> Tensor:
        """Value of the greedy actions, [B]."""
        return self.evaluator(self.greedy_actions)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Value of one action for each state, [B]."""
        return self.evaluator(actions)

    def __repr__(self) -> str:
        return "SingleActionValue"


def _as_bound(bound: Any, mu: Tensor) -> Tensor | None:
    if bound is None:
        return None
    return torch.as_tensor(bound, dtype=mu.dtype, device=mu.device).reshape(-1)


def _as_rows(i: Any) -> Any:
    """An index that keeps the batch axis."""
    return slice(i, i + 1 or None) if isinstance(i, numbers.Integral) else i
