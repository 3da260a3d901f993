"""Distributions of one of finitely many actions, some of which may be forbidden."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical as TorchCategorical

from pfrl_like.functions.action_masks import as_action_mask, without_forbidden


class Categorical(TorchCategorical):
    """Distribution of 0 to n - 1: that of torch, which it is to whoever asks, only cheaper.

    Arguments are not looked at; NaN in them shows up in what is computed from them. Entropy and divergence are finite,
    gradients included, where logits are minus infinity.

    Args:
        logits: Logarithms of probabilities up to a constant of each row, [..., n].

    Attributes:
        scores: The `logits` that it was made of, whereas those of torch, `logits`, are normalised.
    """

    def __init__(self, logits: Tensor) -> None:
        self._take(torch.log_softmax(logits, -1))
        self.scores = logits

    def _take(self, log_probs: Tensor) -> None:
        self.logits = self._param = self.scores = log_probs
        self._num_events = log_probs.shape[-1]
        self._batch_shape = log_probs.shape[:-1]
        self._event_shape = torch.Size()
        self._validate_args = False

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(logits,), the logarithms of the probabilities, [..., n]."""
        return (self.logits,)

    def with_params(self, logits: Tensor) -> "Categorical":
        """A distribution with other logarithms of probabilities, which are taken as they are."""
        other = object.__new__(Categorical)
        other._take(logits)
        return other

    def masked(self, action_mask: Any) -> "MaskedCategorical":
        """The same distribution with only some actions allowed.

        Args:
            action_mask: True where an action is allowed, tensor or array [..., n] or [n]. A row that allows nothing
                allows everything.

        Raises:
            ValueError: If its shape does not fit.
        """
        return MaskedCategorical(self.logits, action_mask)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Categorical":
        """The same distribution for a larger batch shape."""
        return self.with_params(self.logits.expand(*batch_shape, self._num_events))

    @property
    def mode(self) -> Tensor:
        """Likeliest action, [...], int64."""
        return self.logits.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Actions, [*sample_shape, ...], int64; the same as torch draws from the same random numbers."""
        with torch.no_grad():
            drawn = torch.multinomial(self.probs.reshape(-1, self._num_events), math.prod(sample_shape), True)
        return drawn.T.reshape((*sample_shape, *self._batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of each action [...], [...]."""
        logits = self.logits
        if value.shape != self._batch_shape:
            shape = torch.broadcast_shapes(value.shape, self._batch_shape)  # type: ignore[no-untyped-call]
            value, logits = value.expand(shape), logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, [...]."""
        entropy: Tensor = -torch.linalg.vecdot(self.probs, finite(self.logits))
        return entropy


class MaskedCategorical(Categorical):
    """Distribution of 0 to n - 1 of which some are forbidden.

    A forbidden action has the probability 0. As the logarithm of that it has a quarter of the least number of the
    dtype rather than minus infinity, so that sums over all actions, p * (log p - ...), and their gradients are finite.

    Args:
        logits: Logarithms of probabilities up to a constant of each row, [..., n].
        action_mask: True where an action is allowed, tensor or array [..., n] or [n]. A row that allows nothing (a
            terminal state has nothing to choose) allows everything.

    Raises:
        ValueError: If the shape of `action_mask` does not fit.
    """

    def __init__(self, logits: Tensor, action_mask: Any) -> None:
        self.action_mask = as_action_mask(action_mask, logits.shape, logits.device)
        super().__init__(without_forbidden(logits, self.action_mask, least(logits.dtype)))


def least(dtype: torch.dtype) -> float:
    """What stands for the logarithm of 0."""
    return torch.finfo(dtype).min / 4


def finite(log_probs: Tensor) -> Tensor:
    """The same numbers with the least finite one instead of minus infinity, whose product with 0 is NaN."""
    return log_probs.clamp_min(torch.finfo(log_probs.dtype).min)
