"""Policy heads (last layers of networks) for Gaussian policies."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.distributions.gaussian import DiagonalGaussian, SquashedGaussian
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class GaussianHeadWithStateIndependentCovariance(nn.Module):
    """Gaussian head whose input is the means [..., n]. The variance is a parameter that does not depend on the state.

    PPO and TRPO often use this head (Henderson et al. 2017, arXiv:1709.06560).

    Args:
        action_size: Number of dimensions of actions, n.
        var_type: "spherical" for one variance for all dimensions, or "diagonal" for one variance per dimension.
        var_func: Function from the parameter `var_param` to variances, for example `variance_of_log_scale`.
        var_param_init: Initial value of the parameter, a number or an array [n].

    Raises:
        ValueError: If `var_type` is not "spherical" or "diagonal".
    """

    def __init__(
        self,
        action_size: int,
        var_type: str = "spherical",
        var_func: Callable[[Tensor], Tensor] = nn.functional.softplus,
        var_param_init: float = 0,
    ) -> None:
        super().__init__()
        if var_type not in ("spherical", "diagonal"):
            raise ValueError(f"var_type is {var_type!r}, expected 'spherical' or 'diagonal'")
        self.var_func = var_func
        size = 1 if var_type == "spherical" else action_size
        self.var_param = nn.Parameter(torch.tensor(np.broadcast_to(var_param_init, size), dtype=torch.float))

    def forward(self, mean: Tensor) -> DiagonalGaussian:
        """Return a distribution of batch shape [...] and event shape [n]."""
        return DiagonalGaussian(mean, root_of_variance(self.var_func(self.var_param)))


@ignores_training
class GaussianHeadWithDiagonalCovariance(nn.Module):
    """Gaussian head whose input [..., 2n] contains n means and n numbers that `var_func` converts to variances.

    Args:
        var_func: Function from the second half of the input, on the last axis, to variances.
    """

    def __init__(self, var_func: Callable[[Tensor], Tensor] = nn.functional.softplus) -> None:
        super().__init__()
        self.var_func = var_func

    def forward(self, mean_and_var: Tensor) -> DiagonalGaussian:
        """Return a distribution of batch shape [...] and event shape [n], for an input [..., 2n].

        Raises:
            ValueError: If the size of the input's last axis is odd.
        """
        if mean_and_var.shape[-1] % 2:
            raise odd_number_of_columns(mean_and_var)
        mean, var_param = mean_and_var.chunk(2, -1)
        return DiagonalGaussian(mean, root_of_variance(self.var_func(var_param)))


@ignores_training
class GaussianHeadWithFixedCovariance(nn.Module):
    """Gaussian head whose input is the means [..., n]. The standard deviation is fixed.

    Args:
        scale: Standard deviation in every dimension, or a tensor [n].

    Raises:
        ValueError: If `scale` is not positive.
    """

    def __init__(self, scale: float | Tensor = 1) -> None:
        super().__init__()
        if not (torch.as_tensor(scale) > 0).all():
            raise ValueError(f"scale is {scale!r}, expected a positive number")
        if isinstance(scale, Tensor):
            self.register_buffer("scale", scale, persistent=False)  # not in the state dict, as in PFRL
        else:
            self.scale = scale

    def forward(self, mean: Tensor) -> DiagonalGaussian:
        """Return a distribution of batch shape [...] and event shape [n]."""
        return DiagonalGaussian(mean, self.scale)


def odd_number_of_columns(parameters: Tensor) -> ValueError:
    """Return the exception for an input whose last axis has an odd size."""
    return ValueError(f"input has shape {tuple(parameters.shape)}, expected [..., 2n]: n means, then n spreads")


def variance_of_log_scale(log_scale: Tensor) -> Tensor:
    """Return the variance, exp(2 log_scale), for the logarithm of a standard deviation. It may be a head's `var_func`.

    Args:
        log_scale: Logarithm of the standard deviation, any shape.
    """
    return torch.exp(2 * log_scale)


def root_of_variance(variance: Tensor) -> Tensor:
    """Return the standard deviation, at least the machine epsilon of the dtype, so that gradients are finite."""
    return variance.clamp_min(torch.finfo(variance.dtype).eps ** 2).sqrt()


@ignores_training
class SquashedGaussianHead(nn.Module):
    """Squashed Gaussian head whose input [..., 2n] contains n means and n logarithms of scales, both before squashing.

    Actions are in [-1, 1]. The default bounds of the scale are those of the authors of Soft Actor-Critic.

    Args:
        min_log_scale: Minimum logarithm of the standard deviation before squashing. Smaller values are clamped.
        max_log_scale: Maximum logarithm of the standard deviation before squashing. Larger values are clamped.

    Raises:
        ValueError: If `min_log_scale` is not less than `max_log_scale`.
    """

    def __init__(self, min_log_scale: float = -20.0, max_log_scale: float = 2.0) -> None:
        super().__init__()
        if not min_log_scale < max_log_scale:
            raise ValueError(f"min_log_scale is {min_log_scale!r}, expected less than max_log_scale, {max_log_scale!r}")
        self.min_log_scale = min_log_scale
        self.max_log_scale = max_log_scale

    def forward(self, loc_and_log_scale: Tensor) -> SquashedGaussian:
        """Return a distribution of batch shape [...] and event shape [n], for an input [..., 2n].

        Raises:
            ValueError: If the size of the input's last axis is odd.
        """
        if loc_and_log_scale.shape[-1] % 2:
            raise odd_number_of_columns(loc_and_log_scale)
        loc, log_scale = loc_and_log_scale.chunk(2, -1)
        log_scale = log_scale.clamp(self.min_log_scale, self.max_log_scale)
        return SquashedGaussian(loc, log_scale.exp(), log_scale)
