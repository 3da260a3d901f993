"""Ensembles of networks that predict Gaussians (Chua et al. 2018, arXiv:1805.12114)."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: First bounds of the logarithm of a variance (arXiv:1805.12114, appendix A.1).
MAX_LOG_VARIANCE, MIN_LOG_VARIANCE = 0.5, -10.0


def softly_bounded(log_variance: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The logarithms of variances between bounds, near which they bend smoothly (arXiv:1805.12114, appendix A.1).

    Args:
        log_variance: Any shape [..., n].
        low: Lower bounds, [n].
        high: Upper bounds, [n].
    """
    below = high - F.softplus(high - log_variance)
    return low + F.softplus(below - low)


def gaussian_loss(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """(target - mean)^2 / variance + log variance, [...]: twice the negative log-likelihood, less a constant.

    Args:
        mean: Any shape [...].
        log_variance: The same shape.
        target: The same shape.
    """
    return (target - mean).square() * torch.exp(-log_variance) + log_variance


class ProbabilisticEnsemble(nn.Module):
    """Several members, each of which predicts means and variances of the same numbers.

    The bounds of the logarithms of variances are learnt with the rest, each number having its own.

    Args:
        encoders: The first part of each member: a module from what it is called with to features [B, feature_size].
        feature_size: Size of the features.
        n_outputs: How many numbers are predicted.

    Raises:
        ValueError: If there is no member.
    """

    def __init__(self, encoders: Sequence[nn.Module], feature_size: int, n_outputs: int) -> None:
        super().__init__()
        if not encoders:
            raise ValueError("encoders: got none, expected one for each member")
        self.n_outputs = n_outputs
        self.encoders = nn.ModuleList(encoders)
        self.heads = nn.ModuleList(nn.Linear(feature_size, 2 * n_outputs) for _ in encoders)
        self.max_log_variance = nn.Parameter(torch.full((n_outputs,), MAX_LOG_VARIANCE))
        self.min_log_variance = nn.Parameter(torch.full((n_outputs,), MIN_LOG_VARIANCE))

    def __len__(self) -> int:
        return len(self.heads)

    def forward(self, x: Any) -> tuple[Tensor, Tensor]:
        """Means and logarithms of the variances by all members, [members, B, n_outputs] each."""
        outputs = [head(encoder(x)) for encoder, head in zip(self.encoders, self.heads, strict=True)]
        means, log_variances = torch.stack(outputs).chunk(2, dim=-1)
        return means, softly_bounded(log_variances, self.min_log_variance, self.max_log_variance)

    def bounds(self) -> tuple[nn.Parameter, nn.Parameter]:
        """The bounds, the lower ones first."""
        return self.min_log_variance, self.max_log_variance

    def layers(self) -> Iterator[nn.Parameter]:
        """All other parameters."""
        yield from self.encoders.parameters()
        yield from self.heads.parameters()
