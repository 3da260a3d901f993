"""Delta distributions, whose samples always equal one point."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from pfrl_like.distributions.gaussian import IndependentVector


class Delta(Distribution):
    """Distribution whose samples are always `loc`; the output of a deterministic policy.

    Args:
        loc: Location, a tensor or number. Gradients flow from the samples of `rsample` to `loc`.
        validate_args: True to check the arguments. If None, torch's default applies.
    """

    arg_constraints = {"loc": constraints.real}  # noqa: RUF012 - as in torch
    support = constraints.real
    has_rsample = True
    has_density = False

    def __init__(self, loc: Tensor | float, validate_args: bool | None = None) -> None:
        (self.loc,) = broadcast_all(loc)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """Zeros."""
        return torch.zeros_like(self.loc)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Delta":
        """Return the distribution expanded to a larger batch shape."""
        new: Delta = self._get_checked_instance(Delta, _instance)  # type: ignore[no-untyped-call]
        new.loc = self.loc.expand(torch.Size(batch_shape))
        super(Delta, new).__init__(new.loc.shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return `loc`, [*sample_shape, *batch_shape]."""
        return self.loc.expand(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return the detached result of `rsample`."""
        return self.rsample(sample_shape).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        """Raise an error, because the distribution has no density.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_NO_DENSITY)

    def entropy(self) -> Tensor:
        """Raise an error, because the distribution has no density.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_NO_DENSITY)


class DeltaVector(IndependentVector[Delta]):
    """Delta distribution of vectors; faster than `Independent(Delta(loc), 1)`.

    Args:
        loc: Location, [..., n]. Gradients flow from the samples of `rsample` to `loc`.

    Raises:
        ValueError: If `loc` is a scalar.
    """

    has_density = False

    @property
    def base_dist(self) -> Delta:  # type: ignore[override]
        """The distribution of the components."""
        return Delta(self.loc, validate_args=False)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the tensor `loc`."""
        return (self.loc,)

    def with_params(self, loc: Tensor) -> "DeltaVector":
        """Return a distribution with another `loc`."""
        return DeltaVector(loc)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "DeltaVector":
        """Return the distribution expanded to a larger batch shape."""
        return DeltaVector(self.loc.expand(*batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return `loc`, [*sample_shape, ..., n]."""
        return self.loc.expand(*sample_shape, *self.loc.shape) if sample_shape else self.loc

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return the detached result of `rsample`."""
        return self.rsample(sample_shape).detach()


_NO_DENSITY = "a Delta distribution has no density, so it has no log-probability and no entropy: use a Gaussian head"
