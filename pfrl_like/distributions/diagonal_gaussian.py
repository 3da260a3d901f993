"""Gaussians of vectors with independent components."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal

from pfrl_like.distributions.independent_vector import IndependentVector

_LOG_ROOT_2_PI = math.log(2 * math.pi) / 2


class DiagonalGaussian(IndependentVector[Normal]):
    """Gaussian of vectors: `Independent(Normal(loc, scale), 1)` of torch, only cheaper.

    Args:
        loc: Mean, [..., n].
        scale: Standard deviation, positive, tensor [..., n] or [n] or [1], or a number.
        log_scale: Its logarithm, if it is at hand, in the shape of `scale`.

    Raises:
        ValueError: If `loc` is a scalar.
    """

    def __init__(self, loc: Tensor, scale: Tensor | float, log_scale: Tensor | None = None) -> None:
        shape = loc.shape
        if not isinstance(scale, Tensor):
            scale = torch.full(shape[-1:], scale, dtype=loc.dtype, device=loc.device)
        elif scale.shape != shape and scale.shape != shape[-1:]:
            log_scale = None
            if scale.numel() == 1:
                scale = scale.reshape(1).expand(shape[-1:])
            else:
                both: tuple[Tensor, Tensor] = torch.broadcast_tensors(loc, scale)  # type: ignore[no-untyped-call]
                loc, scale = both
        super().__init__(loc)
        self.scale = scale
        self._log_scale = log_scale

    @property
    def base_dist(self) -> Normal:  # type: ignore[override]
        """The distribution of torch of the single components."""
        return Normal(self.loc, self.scale, validate_args=False)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(loc, scale), both [..., n]."""
        return self.loc, self.scale.expand_as(self.loc)

    def with_params(self, loc: Tensor, scale: Tensor) -> "DiagonalGaussian":
        """A distribution like this one with other parameters."""
        return DiagonalGaussian(loc, scale)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "DiagonalGaussian":
        """The same distribution for a larger batch shape."""
        shape = (*batch_shape, *self._event_shape)
        return DiagonalGaussian(self.loc.expand(shape), self.scale.expand(shape))

    @property
    def stddev(self) -> Tensor:
        """`scale`, [..., n]."""
        return self.scale.expand_as(self.loc)

    @property
    def variance(self) -> Tensor:
        """Square of `scale`, [..., n]."""
        return self.stddev.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A sample that carries gradients, [*sample_shape, ..., n]."""
        return torch.addcmul(self.loc, self.scale, self._noise(sample_shape))

    def rsample_with_log_prob(self) -> tuple[Tensor, Tensor]:
        """A sample that carries gradients, [..., n], and its log-probability, [...], cheaper than one by one."""
        noise = self._noise()
        return torch.addcmul(self.loc, self.scale, noise), _log_prob(self._log_volume(), noise)

    def log_prob_and_entropy(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """What `log_prob` and `entropy` give, cheaper than one by one."""
        volume = self._log_volume()
        noise = (value - self.loc) / self.scale
        return _log_prob(volume, noise), (volume + self._event_shape[0] / 2).expand(self._batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density at `value` [..., n], [...]."""
        return _log_prob(self._log_volume(), (value - self.loc) / self.scale)

    def entropy(self) -> Tensor:
        """Entropy in nats, [...]."""
        return (self._log_volume() + self._event_shape[0] / 2).expand(self._batch_shape)

    @property
    def log_scale(self) -> Tensor:
        """Logarithm of `scale`, in its shape."""
        return self.scale.log() if self._log_scale is None else self._log_scale

    def _noise(self, sample_shape: Any = ()) -> Tensor:
        shape = (*sample_shape, *self.loc.shape)
        return torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def _log_volume(self) -> Tensor:
        """Minus the logarithm of the density at the mean, [...] or a scalar."""
        return self.log_scale.sum(-1) + self._event_shape[0] * _LOG_ROOT_2_PI


def _log_prob(volume: Tensor, noise: Tensor) -> Tensor:
    return -0.5 * noise.square().sum(-1) - volume
