"""Distributions of several choices at once, each of finitely many actions."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.nn.functional import pad

from pfrl_like.distributions.categorical import Categorical, least
from pfrl_like.functions.action_masks import as_action_mask


class ProductOfCategoricals(Distribution):
    """Distribution of n independent choices, actions [..., n] of a MultiDiscrete space.

    Args:
        logits: One tensor [..., k] for each choice, or all of them beside each other, [..., sum(nvec)].
        nvec: Number of actions of each choice; only where `logits` is one tensor.

    Raises:
        ValueError: If `nvec` is missing, is given beside a list, is not positive, or does not add up to the logits.
    """

    arg_constraints = {}  # noqa: RUF012 - as in torch
    support = constraints.independent(constraints.nonnegative_integer, 1)  # type: ignore[no-untyped-call]
    has_rsample = False

    def __init__(self, logits: Tensor | Sequence[Tensor], nvec: Sequence[int] | None = None) -> None:
        if (nvec is None) == isinstance(logits, Tensor):
            raise ValueError("nvec has to be given if logits is one tensor, and only then")
        sizes = tuple(int(n) for n in ([part.shape[-1] for part in logits] if nvec is None else nvec))
        if not isinstance(logits, Tensor):
            logits = torch.cat(tuple(logits), -1)
        if not sizes or min(sizes) < 1 or sum(sizes) != logits.shape[-1]:
            raise ValueError(f"nvec is {sizes}, expected positive numbers that add up to {logits.shape[-1]} logits")
        self._take(Categorical(_beside_each_other(logits, sizes, least(logits.dtype))), sizes)

    def _take(self, choices: Categorical, nvec: tuple[int, ...]) -> None:
        self.choices = choices
        self.nvec = nvec
        self._batch_shape = choices._batch_shape[:-1]
        self._event_shape = choices._batch_shape[-1:]
        self._validate_args = False

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(logits,), the logarithms of the probabilities, [..., n, max(nvec)]; minus immense where there is none."""
        return self.choices.params

    def with_params(self, logits: Tensor) -> "ProductOfCategoricals":
        """A distribution with other logarithms of probabilities, which are taken as they are."""
        other = object.__new__(ProductOfCategoricals)
        other._take(self.choices.with_params(logits), self.nvec)
        return other

    def masked(self, action_mask: Any) -> "ProductOfCategoricals":
        """The same distribution with only some actions allowed.

        Args:
            action_mask: True where an action is allowed, the choices beside each other, tensor or array
                [..., sum(nvec)] or [sum(nvec)]. A choice that allows nothing allows everything.

        Raises:
            ValueError: If its shape does not fit.
        """
        shape = torch.Size((*self._batch_shape, sum(self.nvec)))
        mask = as_action_mask(action_mask, shape, self.choices.logits.device)
        other = object.__new__(ProductOfCategoricals)
        other._take(self.choices.masked(_beside_each_other(mask, self.nvec, False)), self.nvec)
        return other

    def expand(self, batch_shape: Any, _instance: Any = None) -> "ProductOfCategoricals":
        """The same distribution for a larger batch shape."""
        return self.with_params(self.choices.expand((*batch_shape, *self._event_shape)).logits)

    @property
    def mode(self) -> Tensor:
        """Likeliest actions, [..., n], int64."""
        return self.choices.mode

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Actions, [*sample_shape, ..., n], int64."""
        return self.choices.sample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of actions [..., n], [...]."""
        return self.choices.log_prob(value).sum(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, [...]."""
        return self.choices.entropy().sum(-1)


def _beside_each_other(row: Tensor, nvec: tuple[int, ...], filler: float) -> Tensor:
    """Numbers [..., sum(nvec)] as [..., n, max(nvec)]."""
    if len(set(nvec)) == 1:
        return row.reshape(*row.shape[:-1], len(nvec), nvec[0])
    places = _places.__wrapped__ if torch.compiler.is_compiling() else _places  # which does not follow caches
    flat = pad(row, (0, 1), value=filler).index_select(-1, places(nvec, row.device))
    return flat.reshape(*row.shape[:-1], len(nvec), max(nvec))


@functools.lru_cache(maxsize=32)
def _places(nvec: tuple[int, ...], device: torch.device) -> Tensor:
    """Where in a row each choice's numbers are, [n * max(nvec)]; the place after the row where there is none."""
    starts = [sum(nvec[:i]) for i in range(len(nvec))]
    places = [
        start + j if j < size else sum(nvec) for start, size in zip(starts, nvec, strict=True) for j in range(max(nvec))
    ]
    with torch.inference_mode(False):
        return torch.tensor(places, device=device)
