"""Gaussians of vectors with independent components, plain ones and those that tanh squashes into [-1, 1]."""

import math
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, constraints
from torch.nn.functional import softplus

D = TypeVar("D", bound=Distribution)
_SCALAR = "loc is a scalar, expected a tensor [..., n]"


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
    _validate_args = False

    def __init__(self, loc: Tensor) -> None:
        shape = loc.shape
        if not shape:
            raise ValueError(_SCALAR)
        self.loc = loc
        self._batch_shape = shape[:-1]
        self._event_shape = shape[-1:]

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
        if not loc.shape:
            raise ValueError(_SCALAR)
        self.loc, self.scale, self._log_scale = loc, scale, log_scale
        self._batch_shape, self._event_shape = loc.shape[:-1], loc.shape[-1:]

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
        sample = torch.addcmul(self.loc, self.scale, noise)
        log_scale = self.scale.log() if self._log_scale is None else self._log_scale  # `_log_volume`, without calls
        volume = log_scale.sum(-1) + self._event_shape[0] * _LOG_ROOT_2_PI
        return sample, -0.5 * noise.square().sum(-1) - volume

    def log_prob_and_entropy(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """What `log_prob` and `entropy` give, cheaper than one by one."""
        volume = self._log_volume()
        noise = (value - self.loc) / self.scale
        return -0.5 * noise.square().sum(-1) - volume, (volume + self._event_shape[0] / 2).expand(self._batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density at `value` [..., n], [...]."""
        volume = self._log_volume()
        return -0.5 * ((value - self.loc) / self.scale).square().sum(-1) - volume

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


class SquashedGaussian(Distribution):
    """tanh of a Gaussian of vectors with independent components (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    What it says of values at the bounds, which float numbers reach, is finite: they count as the last number before.
    A sample's own log-probability, from `rsample_with_log_prob` or from `log_prob` of the very tensor that `sample` or
    `rsample` gave last, is computed from what was squashed and exact everywhere.

    Args:
        loc: Mean before squashing, [..., n].
        scale: Standard deviation before squashing, positive, tensor [..., n] or [n] or [1], or a number.
        log_scale: Its logarithm, if it is at hand, in the shape of `scale`.
    """

    arg_constraints = {}  # noqa: RUF012 - as in torch
    support = constraints.independent(constraints.interval(-1.0, 1.0), 1)  # type: ignore[no-untyped-call]
    has_rsample = True
    _validate_args = False

    def __init__(self, loc: Tensor, scale: Tensor | float, log_scale: Tensor | None = None) -> None:
        self.base_dist = DiagonalGaussian(loc, scale, log_scale)
        self._batch_shape = self.base_dist._batch_shape
        self._event_shape = self.base_dist._event_shape
        self._drawn: tuple[Tensor, Tensor] | None = None

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(loc, scale), both [..., n]."""
        return self.base_dist.params

    def with_params(self, loc: Tensor, scale: Tensor) -> "SquashedGaussian":
        """A distribution like this one with other parameters."""
        return SquashedGaussian(loc, scale)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "SquashedGaussian":
        """The same distribution for a larger batch shape."""
        wide = self.base_dist.expand(batch_shape)
        return SquashedGaussian(wide.loc, wide.scale)

    @property
    def mode(self) -> Tensor:
        """Squashed mean, [..., n]: the median, and what Soft Actor-Critic does in evaluation."""
        return self.base_dist.loc.tanh()

    @property
    def mean(self) -> Tensor:
        """The mean, [..., n], by quadrature."""
        points, weights = self._quadrature()
        return points.tanh() @ weights

    @property
    def variance(self) -> Tensor:
        """The variance, [..., n], by quadrature."""
        points, weights = self._quadrature()
        return (points.tanh() - self.mean.unsqueeze(-1)).square() @ weights

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A sample that carries gradients, [*sample_shape, ..., n]."""
        return self._remember(self.base_dist.rsample(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """The same without a gradient."""
        return self._remember(self.base_dist.sample(sample_shape))

    def rsample_with_log_prob(self) -> tuple[Tensor, Tensor]:
        """A sample that carries gradients, [..., n], and its log-probability, [...], cheaper than one by one."""
        before, log_prob = self.base_dist.rsample_with_log_prob()
        return before.tanh(), log_prob - log_slope_of_tanh(before).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density at `value` [..., n], [...]."""
        before = self._before_squashing(value)
        return self.base_dist.log_prob(before) - log_slope_of_tanh(before).sum(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, [...], by quadrature; exact to 1e-6 for scales up to 2, to 3e-3 for those up to e**2."""
        points, weights = self._quadrature()
        return self.base_dist.entropy() + (log_slope_of_tanh(points) @ weights).sum(-1)

    def _remember(self, before: Tensor) -> Tensor:
        self._drawn = before.tanh(), before
        return self._drawn[0]

    def _before_squashing(self, value: Tensor) -> Tensor:
        if self._drawn is not None and value is self._drawn[0] and _is_as_it_was_made(value):
            return self._drawn[1]
        most = 1 - torch.finfo(value.dtype).eps / 2  # the last number before 1
        return value.clamp(-most, most).atanh()

    def _quadrature(self) -> tuple[Tensor, Tensor]:
        """Points before squashing, [..., n, K], and their weights, [K], by the trapezoidal rule under the Gaussian.

        The rule converges exponentially in the number of points, since the functions it is used for are smooth.
        """
        loc, scale = self.params
        normal = torch.linspace(-6, 6, 49, dtype=loc.dtype, device=loc.device)
        return torch.addcmul(loc.unsqueeze(-1), scale.unsqueeze(-1), normal), torch.softmax(-normal.square() / 2, 0)


def log_slope_of_tanh(x: Tensor) -> Tensor:
    """log(1 - tanh(x)**2) in a form that does not vanish for large x, in the shape of `x`.

    It is 2 * (log 2 - x - log(1 + exp(-2x))).
    """
    return 2 * (math.log(2) - x - softplus(-2 * x))


def _is_as_it_was_made(value: Tensor) -> bool:
    """Whether nobody has changed a tensor in place; of one of inference mode, or under a compiler, nobody can tell."""
    return torch.compiler.is_compiling() or value.is_inference() or value._version == 0
