"""Linear layer with noisy weights, for exploration."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.utils.contexts import ignores_training


def init_lecun_uniform(tensor: Tensor, scale: float = 1.0) -> Tensor:
    """Fill weights with uniform numbers in +-scale * sqrt(3 / n_in) (LeCun et al. 1998, doi:10.1007/3-540-49430-8_2).

    Args:
        tensor: Weights of a layer, [n_out, n_in] or [n_out, n_channels, ...], changed in place.
        scale: Factor of the bounds.

    Returns:
        `tensor`.
    """
    bound = scale * (3.0 / _fan_in(tensor)) ** 0.5
    return nn.init.uniform_(tensor, -bound, bound)


def init_variance_scaling_constant(tensor: Tensor, scale: float = 1.0) -> Tensor:
    """Fill weights or a bias with the constant scale / sqrt(n) (arXiv:1706.10295, section 3.2).

    Args:
        tensor: Weights of a layer, [n_out, n_in] or [n_out, n_channels, ...], changed in place. n is then the number of
            inputs of an output. Or a bias, [n].
        scale: Factor of the constant.

    Returns:
        `tensor`.
    """
    return nn.init.constant_(tensor, scale * _fan_in(tensor) ** -0.5)


def _fan_in(tensor: Tensor) -> int:
    return len(tensor) if tensor.ndim == 1 else tensor[0].numel()


@ignores_training
class FactorizedNoisyLinear(nn.Module):
    """Linear layer with factorised Gaussian noise (NoisyNet, Fortunato et al. 2017, arXiv:1706.10295, eq. 9 to 11).

    y = (mu_w + sigma_w * f(e_out) f(e_in)^T) x + mu_b + sigma_b * f(e_out), with f(e) = sign(e) sqrt(|e|). Every call
    samples new noise from torch's global stream, in training and in evaluation mode, as in PFRL. For reproducible
    actions in evaluation, seed torch. All rows of a batch have the same noise. The initial mu is uniform in +-1 /
    sqrt(in_features). The initial sigma_w is sigma_scale / sqrt(in_features), and the initial sigma_b is sigma_scale /
    sqrt(out_features).

    Args:
        mu_link: Linear layer with the sizes, device and dtype of the new layer, and with a bias if the new layer has a
            bias. Its weights are not used.
        sigma_scale: Scale of the initial noise, sigma_0 of the paper.

    Raises:
        TypeError: If `mu_link` is not a linear layer.
        ValueError: If `mu_link` is a lazy layer whose sizes are not known yet, or if `sigma_scale` is negative.
    """

    has_one_noise = True  # for all rows, see `random_streams.joined_noise`

    def __init__(self, mu_link: nn.Linear, sigma_scale: float = 0.4) -> None:
        super().__init__()
        if not isinstance(mu_link, nn.Linear):
            raise TypeError(f"mu_link is {type(mu_link).__name__}, expected a torch.nn.Linear")
        if not sigma_scale >= 0:
            raise ValueError(f"sigma_scale is {sigma_scale!r}, expected a number of at least 0")
        # int, because a compiler would trace NumPy integers
        in_size, out_size = int(mu_link.in_features), int(mu_link.out_features)
        if in_size < 1:
            raise ValueError(f"mu_link is {mu_link}, expected at least one input; call a lazy layer once first")
        weight = mu_link.weight
        self.in_features = in_size
        self.out_features = self.out_size = out_size  # `out_size` is PFRL's name
        self.hasbias = mu_link.bias is not None
        sizes = in_size, out_size, self.hasbias, weight.device, weight.dtype
        self.mu, self.sigma = nn.Linear(*sizes), nn.Linear(*sizes)
        # For mu, the paper uses the default initialisation of nn.Linear.
        init_variance_scaling_constant(self.sigma.weight, sigma_scale)
        if self.sigma.bias is not None:
            init_variance_scaling_constant(self.sigma.bias, sigma_scale)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., in_features] to [..., out_features]."""
        mu, sigma = self.mu, self.sigma
        noise = torch.randn(self.in_features + self.out_features, dtype=mu.weight.dtype, device=mu.weight.device)
        noise_in, noise_out = torch.split(noise.sign() * noise.abs().sqrt(), [self.in_features, self.out_features])
        weight = torch.addcmul(mu.weight, sigma.weight, torch.outer(noise_out, noise_in))
        bias = None if mu.bias is None else torch.addcmul(mu.bias, sigma.bias, noise_out)
        return F.linear(x, weight, bias)
