"""Distributions of discrete actions, and of vectors of discrete actions."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Distribution, constraints
from torch.nn.functional import pad

from pfrl_like.functions.action_masks import as_action_mask, without_forbidden


class Categorical(TorchCategorical):
    """Categorical distribution over 0 to n - 1; a faster subclass of torch's `Categorical`.

    Arguments are not checked, and NaN in an argument causes NaN in the results. If a logit is minus infinity, the
    entropy, the KL divergence and their gradients are still finite.

    Args:
        logits: Unnormalised log-probabilities, [..., n].

    Attributes:
        scores: The argument `logits`, unchanged. The attribute `logits` contains normalised log-probabilities, as in
            torch.
    """

    _event_shape = torch.Size()
    _validate_args = False

    def __init__(self, logits: Tensor) -> None:
        self.logits = self._param = torch.log_softmax(logits, -1)
        self.scores = logits
        self._num_events, self._batch_shape = logits.shape[-1], logits.shape[:-1]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensor `logits`, the log-probabilities, [..., n]."""
        return (self.logits,)

    def with_params(self, logits: Tensor) -> "Categorical":
        """Return a distribution with the given log-probabilities, which must be normalised."""
        other = object.__new__(Categorical)
        other.logits = other._param = other.scores = logits
        other._num_events, other._batch_shape = logits.shape[-1], logits.shape[:-1]
        return other

    def masked(self, action_mask: Any) -> "MaskedCategorical":
        """Return the distribution in which masked actions have probability 0. The other probabilities are renormalised.

        Args:
            action_mask: True for allowed actions, a tensor or array [..., n] or [n]. If a row allows no action, all its
                actions are treated as allowed.

        Raises:
            ValueError: If the shape of `action_mask` does not match.
        """
        return MaskedCategorical(self.logits, action_mask)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Categorical":
        """Return the distribution expanded to a larger batch shape."""
        return self.with_params(self.logits.expand(*batch_shape, self._num_events))

    @property
    def mode(self) -> Tensor:
        """Most probable action, [...], int64."""
        return self.logits.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample actions, [*sample_shape, ...], int64, equal to torch's samples for the same random numbers."""
        with torch.no_grad():
            samples = torch.multinomial(self.probs.reshape(-1, self._num_events), math.prod(sample_shape), True)
        return samples.T.reshape((*sample_shape, *self._batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probabilities, [...], of the actions `value`, [...]."""
        logits = self.logits
        if value.shape != self._batch_shape:
            shape = torch.broadcast_shapes(value.shape, self._batch_shape)  # type: ignore[no-untyped-call]
            value, logits = value.expand(shape), logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, [...]."""
        finite = self.logits.clamp_min(torch.finfo(self.logits.dtype).min)  # as in the function `finite`
        entropy: Tensor = -torch.linalg.vecdot(self.probs, finite)
        return entropy


class MaskedCategorical(Categorical):
    """Categorical distribution over 0 to n - 1 with masked actions.

    A masked action has probability 0. Its log-probability is a quarter of the dtype's minimum instead of minus
    infinity, so that the entropy, the KL divergence and their gradients are finite.

    Args:
        logits: Unnormalised log-probabilities, [..., n].
        action_mask: True for allowed actions, a tensor or array [..., n] or [n]. If a row allows no action, for example
            in a terminal state, all its actions are treated as allowed.

    Raises:
        ValueError: If the shape of `action_mask` does not match.
    """

    def __init__(self, logits: Tensor, action_mask: Any) -> None:
        self.action_mask = as_action_mask(action_mask, logits.shape, logits.device)
        super().__init__(without_forbidden(logits, self.action_mask, log_of_zero(logits.dtype)))


def log_of_zero(dtype: torch.dtype) -> float:
    """Return a large negative number of this dtype, which replaces the logarithm of 0."""
    return torch.finfo(dtype).min / 4


def finite(log_probs: Tensor) -> Tensor:
    """Replace minus infinity by the minimum finite number, because minus infinity times 0 is NaN."""
    return log_probs.clamp_min(torch.finfo(log_probs.dtype).min)


class ProductOfCategoricals(Distribution):
    """Distribution of n independent discrete numbers, for actions [..., n] of a MultiDiscrete space.

    Args:
        logits: One tensor [..., k] for each dimension, or one concatenated tensor [..., sum(nvec)].
        nvec: Number of actions in each dimension. Required if `logits` is one tensor, otherwise None.

    Raises:
        ValueError: If `nvec` is missing, if `nvec` is passed together with a list of logits, if a number is not
            positive, or if the sum of `nvec` is not the number of logits.
    """

    arg_constraints = {}  # noqa: RUF012 - as in torch
    support = constraints.independent(constraints.nonnegative_integer, 1)  # type: ignore[no-untyped-call]
    has_rsample = False

    def __init__(self, logits: Tensor | Sequence[Tensor], nvec: Sequence[int] | None = None) -> None:
        if (nvec is None) == isinstance(logits, Tensor):
            raise ValueError("nvec must be passed if logits is one tensor, and only then")
        sizes = tuple(int(n) for n in ([part.shape[-1] for part in logits] if nvec is None else nvec))
        if not isinstance(logits, Tensor):
            logits = torch.cat(tuple(logits), -1)
        if not sizes or min(sizes) < 1 or sum(sizes) != logits.shape[-1]:
            raise ValueError(f"nvec is {sizes}, expected positive numbers that add up to {logits.shape[-1]} logits")
        self._set(Categorical(_padded_rows(logits, sizes, log_of_zero(logits.dtype))), sizes)

    def _set(self, choices: Categorical, nvec: tuple[int, ...]) -> None:
        self.choices, self.nvec = choices, nvec
        self._batch_shape = choices._batch_shape[:-1]
        self._event_shape = choices._batch_shape[-1:]
        self._validate_args = False

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the log-probabilities, [..., n, max(nvec)]; unused entries are large negative numbers."""
        return self.choices.params

    def with_params(self, logits: Tensor) -> "ProductOfCategoricals":
        """Return a distribution with the given log-probabilities, which must be normalised."""
        other = object.__new__(ProductOfCategoricals)
        other._set(self.choices.with_params(logits), self.nvec)
        return other

    def masked(self, action_mask: Any) -> "ProductOfCategoricals":
        """Return the distribution in which masked actions have probability 0. The other probabilities are renormalised.

        Args:
            action_mask: True for allowed actions, concatenated over the dimensions, a tensor or array [..., sum(nvec)]
                or [sum(nvec)]. If a dimension allows no action, all its actions are treated as allowed.

        Raises:
            ValueError: If the shape of `action_mask` does not match.
        """
        shape = torch.Size((*self._batch_shape, sum(self.nvec)))
        mask = as_action_mask(action_mask, shape, self.choices.logits.device)
        other = object.__new__(ProductOfCategoricals)
        other._set(self.choices.masked(_padded_rows(mask, self.nvec, False)), self.nvec)
        return other

    def expand(self, batch_shape: Any, _instance: Any = None) -> "ProductOfCategoricals":
        """Return the distribution expanded to a larger batch shape."""
        return self.with_params(self.choices.expand((*batch_shape, *self._event_shape)).logits)

    @property
    def mode(self) -> Tensor:
        """Most probable actions, [..., n], int64."""
        return self.choices.mode

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample actions, [*sample_shape, ..., n], int64."""
        return self.choices.sample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probabilities, [...], of the actions `value`, [..., n]."""
        return self.choices.log_prob(value).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, [...]."""
        return self.choices.entropy().sum(-1)


def _padded_rows(numbers: Tensor, nvec: tuple[int, ...], filler: float) -> Tensor:
    """Reshape numbers [..., sum(nvec)] to [..., n, max(nvec)]; unused entries are `filler`."""
    if len(set(nvec)) == 1:
        return numbers.reshape(*numbers.shape[:-1], len(nvec), nvec[0])
    indices = _indices.__wrapped__ if torch.compiler.is_compiling() else _indices  # a compiler cannot trace a cache
    flat = pad(numbers, (0, 1), value=filler).index_select(-1, indices(nvec, numbers.device))
    return flat.reshape(*numbers.shape[:-1], len(nvec), max(nvec))


@functools.lru_cache(maxsize=32)
def _indices(nvec: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the index in the unpadded row of each entry of a padded row, [n * max(nvec)].

    The index of an unused entry is sum(nvec).
    """
    indices: list[int] = []
    for i, size in enumerate(nvec):
        indices += [sum(nvec[:i]) + k if k < size else sum(nvec) for k in range(max(nvec))]
    with torch.inference_mode(False):
        return torch.tensor(indices, device=device)
