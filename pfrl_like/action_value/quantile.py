"""Distributions of the return as quantiles, at evenly spaced (QR-DQN), sampled (IQN) or learnt (FQF) fractions."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from pfrl_like.action_value.base import Losses, lazy_attribute
from pfrl_like.action_value.discrete import DistributionActionValue, Format, identity
from pfrl_like.functions.losses import even_fractions, quantile_huber, td_target


class QuantileDiscreteActionValue(DistributionActionValue):
    """Quantiles of the returns of discrete actions (arXiv:1710.10044).

    Args:
        quantiles: Values of the quantiles, [B, n_taus, n_actions].
        q_values_formatter: Function that formats the array of values in `repr`.
        action_mask: True for allowed actions, [B, n_actions], bool. The greedy action, `max` and `compute_expectation`
            use only allowed actions. If a row allows no action, for example in a terminal state, all actions are
            allowed in this row. None allows all actions.
        taus: Fractions of the quantiles, in (0, 1), [B, n_taus]. If None, the fractions are (i + 0.5) / n_taus.
        masses: Probability represented by each quantile, [B, n_taus]. If None, each mass is 1 / n_taus.

    Attributes:
        interpolates: True if `soft_min_of` interpolates between quantiles, False if it selects a distribution.

    Raises:
        TypeError: If `quantiles` is not a tensor.
        ValueError: If `quantiles` does not have three dimensions.
    """

    #: True if agents average quantiles over critics and actions, as in d3rlpy 2.8. False if they sample one
    #: distribution.
    averages: bool = False

    def __init__(
        self,
        quantiles: Tensor,
        q_values_formatter: Format = identity,
        action_mask: Tensor | None = None,
        taus: Tensor | None = None,
        masses: Tensor | None = None,
    ) -> None:
        if not isinstance(quantiles, Tensor):
            raise TypeError(f"quantiles is {type(quantiles).__name__}, expected a tensor [B, n_taus, n_actions]")
        if quantiles.ndim != 3:
            raise ValueError(f"quantiles has shape {tuple(quantiles.shape)}, expected [B, n_taus, n_actions]")
        self.quantiles, self.q_values_formatter, self.action_mask = quantiles, q_values_formatter, action_mask
        self.taus, self.masses = taus, masses

    @lazy_attribute
    def q_values(self) -> Tensor:
        """Mean returns, [B, n_actions]."""
        return self.mean_of(self.quantiles)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.quantiles.shape[2]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensor `quantiles`."""
        return (self.quantiles,)

    def sampled(self) -> "QuantileDiscreteActionValue":
        """Return the quantiles of a target, which are these."""
        return self

    def evaluate_actions_as_quantiles(self, actions: Tensor) -> Tensor:
        """Return the quantiles of one action per state, [B, n_taus]."""
        index = actions.long()[:, None, None].expand(-1, self.quantiles.shape[1], 1)
        return self.quantiles.gather(2, index).squeeze(2)  # unlike indexing, `gather` rejects the action -1

    def mean_of(self, quantiles: Tensor) -> Tensor:
        """Return the mean over the quantiles, weighted with `masses`. The shape [B, n_taus, ...] becomes [B, ...]."""
        return quantiles.mean(1) if self.masses is None else torch.einsum("bn...,bn->b...", quantiles, self.masses)

    def _loss(self, action: Tensor, reward: Tensor, discount: Tensor, next_value: Any, next_action: Any) -> Losses:
        """Return the quantile Huber loss (arXiv:1710.10044, eq. 10). The error is |mean of targets - mean|."""
        prediction = self.evaluate_actions_as_quantiles(action)
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            next_quantiles = next_value.evaluate_actions_as_quantiles(next_action)
            target = td_target(reward.unsqueeze(1), discount.unsqueeze(1), next_quantiles)
            taus = even_fractions(prediction.shape[1], prediction) if self.taus is None else self.taus
            value = self.mean_of(prediction)
            error = (next_value.mean_of(target) - value).abs()
        return quantile_huber(prediction, target, taus, next_value.masses), error, value

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        taus, masses = (None if each is None else each[rows] for each in (self.taus, self.masses))
        return type(self)(self.quantiles[rows], self.q_values_formatter, action_mask, taus, masses)


QuantileFunction = Callable[[Tensor, Tensor], Tensor]


class QuantileThresholds(NamedTuple):
    """Numbers of fractions that are sampled for a state (arXiv:1806.06923, section 3.1).

    Args:
        N: Number of fractions for the predicted quantiles.
        N_prime: Number of fractions for the quantiles of the next state. These quantiles are the targets.
        K: Number of fractions for the greedy action and the mean return.
    """

    N: int = 64
    N_prime: int = 64
    K: int = 32


_DEFAULT_THRESHOLDS = QuantileThresholds()


class ImplicitQuantileActionValue(DistributionActionValue):
    """Distributions of the returns of discrete actions, represented by quantile functions (arXiv:1806.06923).

    Call the object with fractions to get the quantiles at these fractions. All means (`q_values`, `greedy_actions`,
    `max`, ...) are computed from the same K fractions. Indexing and `masked` keep these fractions.

    Args:
        features: Input of the quantile function, [B, hidden].
        quantile_function: Function from features, [B, hidden], and fractions in (0, 1), [B, n], to quantiles, [B, n,
            n_actions].
        thresholds: Numbers of fractions to sample.
        action_mask: True for allowed actions, [B, n_actions], bool. The greedy action, `max` and `compute_expectation`
            use only allowed actions. If a row allows no action, for example in a terminal state, all actions are
            allowed in this row. None allows all actions.
        taus: The K fractions, [B, K]. If None, they are sampled when a mean is first computed.

    Raises:
        ValueError: If `features` does not have two dimensions.
    """

    #: True if agents average quantiles over critics and actions, as in d3rlpy 2.8. False if they sample one
    #: distribution.
    averages: bool = False

    def __init__(
        self,
        features: Tensor,
        quantile_function: QuantileFunction,
        thresholds: QuantileThresholds = _DEFAULT_THRESHOLDS,
        action_mask: Tensor | None = None,
        taus: Tensor | None = None,
    ) -> None:
        if features.ndim != 2:
            raise ValueError(f"features have shape {tuple(features.shape)}, expected [B, hidden]")
        self.features, self.quantile_function, self.thresholds = features, quantile_function, thresholds
        self.action_mask = action_mask
        if taus is not None:
            self.taus = taus

    def __call__(self, taus: Tensor) -> QuantileDiscreteActionValue:
        """Return the quantiles at fractions [B, n]."""
        quantiles = self.quantile_function(self.features, taus)
        return QuantileDiscreteActionValue(quantiles, action_mask=self.action_mask, taus=taus)

    @lazy_attribute
    def taus(self) -> Tensor:
        """Fractions from which means are computed, [B, K]."""
        return self.draw(self.thresholds.K)

    @lazy_attribute
    def quantile_value(self) -> QuantileDiscreteActionValue:
        """Quantiles from which means are computed."""
        return self(self.taus)

    @lazy_attribute
    def q_values(self) -> Tensor:
        """Mean returns, [B, n_actions]."""
        return self.quantile_value.q_values

    @lazy_attribute
    def n_actions(self) -> int:
        """Number of actions."""
        with torch.no_grad():  # one quantile of one state is enough
            state = self.features[:1]
            return self.quantile_function(state, state.new_full((1, 1), 0.5)).shape[2]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensor `features`."""
        return (self.features,)

    def draw(self, n: int) -> Tensor:
        """Sample n fractions for every state, [B, n], uniform in [0, 1), with PyTorch's global random generator."""
        return torch.rand(self.features.shape[0], n, dtype=self.features.dtype, device=self.features.device)

    def sampled(self) -> QuantileDiscreteActionValue:
        """Return the quantiles of a target, at N' sampled fractions for every state."""
        value = self(self.draw(self.thresholds.N_prime))
        value.averages = self.averages
        return value

    def at_even_fractions(self) -> Self:
        """Return deterministic values: their means are computed from evenly spaced fractions."""
        taus = even_fractions(self.thresholds.K, self.features).expand(self.features.shape[0], -1)
        return type(self)(self.features, self.quantile_function, self.thresholds, self.action_mask, taus)

    def _loss(self, action: Tensor, reward: Tensor, discount: Tensor, next_value: Any, next_action: Any) -> Losses:
        """Return the quantile Huber loss of N quantiles and N' targets (arXiv:1806.06923, eq. 2, 3), summed over N.

        The error of a row is |mean of targets - mean|.
        """
        value = self(self.draw(self.thresholds.N))
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            next_quantiles = next_value.sampled()
        return value.td_loss(action, reward, discount, next_quantiles, next_action)

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.features[rows], self.quantile_function, self.thresholds, action_mask, self.taus[rows])

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.quantile_value!r}"


class FullyParametrizedActionValue(ImplicitQuantileActionValue):
    """Distributions of discrete actions' returns: quantiles at fractions that a network proposes (arXiv:1911.02140).

    The fractions divide the probability into n intervals. The network proposes the masses of the intervals. The
    quantile at the midpoint of an interval represents the interval. The greedy action and both sides of a TD error are
    computed from these quantiles.

    Args:
        features: Input of the quantile function, [B, hidden].
        quantile_function: Function from features, [B, hidden], and fractions in (0, 1), [B, n], to quantiles, [B, n,
            n_actions].
        masses: Proposed probability of each interval, [B, n], positive, with sum 1.
        entropy_coeff: Weight of the entropy of the masses. The entropy prevents masses near 0.
        action_mask: True for allowed actions, [B, n_actions], bool. The greedy action, `max` and `compute_expectation`
            use only allowed actions. If a row allows no action, for example in a terminal state, all actions are
            allowed in this row. None allows all actions.
    """

    def __init__(
        self,
        features: Tensor,
        quantile_function: QuantileFunction,
        masses: Tensor,
        entropy_coeff: float = 0.0,
        action_mask: Tensor | None = None,
    ) -> None:
        super().__init__(features, quantile_function, action_mask=action_mask)
        self.masses, self.entropy_coeff = masses, entropy_coeff

    @lazy_attribute
    def edges(self) -> Tensor:
        """Upper ends of the intervals, tau_1 to tau_n = 1, [B, n]."""
        return self.masses.cumsum(1)

    @lazy_attribute
    def taus(self) -> Tensor:
        """Midpoints of the intervals, [B, n], detached."""
        return (self.edges - self.masses / 2).detach()

    @lazy_attribute
    def quantile_value(self) -> QuantileDiscreteActionValue:
        """Quantiles at the midpoints of the intervals."""
        value = self(self.taus)
        value.masses = self.masses.detach()
        return value

    def at_even_fractions(self) -> Self:
        """Return the values unchanged, because they are already deterministic."""
        return self

    def _loss(self, action: Tensor, reward: Tensor, discount: Tensor, next_value: Any, next_action: Any) -> Losses:
        """Return the quantile Huber loss plus `fraction_loss`.

        No gradient of the quantile Huber loss flows into the proposed fractions. A quantile of the next state is
        weighted with the mass of its interval. With equal weights, as in the paper, the means of the target
        distributions would differ from `q_values`.
        """
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            next_quantiles = next_value.quantile_value
        loss, error, value = self.quantile_value.td_loss(action, reward, discount, next_quantiles, next_action)
        return loss + self.fraction_loss(action), error, value

    def fraction_loss(self, action: Tensor) -> Tensor:
        """Return a loss, [B]. Its gradient for the fractions is that of a Wasserstein distance (section 3.2).

        The distance is measured between the quantile function F and its step approximation. The derivative of the
        distance with respect to tau_i is 2 F(tau_i) - F(midpoint before tau_i) - F(midpoint after tau_i). The weighted
        entropy of the masses is subtracted from the loss.
        """
        inner = self.edges[:, :-1]
        with torch.no_grad():
            middle = self.quantile_value.evaluate_actions_as_quantiles(action)
            edge = self(inner).evaluate_actions_as_quantiles(action)
            slope = 2 * edge - middle[:, :-1] - middle[:, 1:]
        loss: Tensor = torch.linalg.vecdot(slope, inner)
        return loss - self.entropy_coeff * torch.special.entr(self.masses).sum(1) if self.entropy_coeff else loss

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        features, masses = self.features[rows], self.masses[rows]
        return type(self)(features, self.quantile_function, masses, self.entropy_coeff, action_mask)
