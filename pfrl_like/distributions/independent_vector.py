"""What distributions of vectors with independent components around a location have in common."""

from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, constraints

D = TypeVar("D", bound=Distribution)


class IndependentVector(Independent[D]):
    """`Independent(base_dist, 1)` of torch, which it is to whoever asks, without its constructors and checks.

    A class of it says what `base_dist` and `rsample` are. Arguments are not looked at; NaN in them shows up in what is
    computed from them.

    Args:
        loc: Mean and mode, [..., n].

    Raises:
        ValueError: If `loc` is a scalar.
    """

    arg_constraints = {}  # noqa: RUF012 - as in torch
    support = constraints.real_vector
    has_rsample = True
    has_enumerate_support = False
    reinterpreted_batch_ndims = 1

    def __init__(self, loc: Tensor) -> None:
        shape = loc.shape
        if not shape:
            raise ValueError("loc is a scalar, expected a tensor [..., n]")
        self.loc = loc
        self._batch_shape = shape[:-1]
        self._event_shape = shape[-1:]
        self._validate_args = False

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """`rsample` without its gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)
