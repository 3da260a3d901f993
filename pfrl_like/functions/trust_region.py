"""How a gradient is kept within a trust region."""

import torch
from torch import Tensor


def trust_region_gradient(gradient: Tensor, kl_gradient: Tensor, delta: float) -> Tensor:
    """The vector nearest to a gradient along which a divergence grows by at most delta (arXiv:1611.01224, eq. 12).

    z = g - max(0, (k . g - delta) / |k|**2) k, which minimises |g - z|**2 / 2 subject to k . z <= delta.

    Args:
        gradient: Gradient g of what is maximised, with respect to the statistics of each distribution, [N, P].
        kl_gradient: Gradient k of its divergence from the distribution that it may not leave, [N, P].
        delta: Bound of the product.

    Returns:
        z, [N, P]; g itself where k is 0.
    """
    excess = (torch.linalg.vecdot(kl_gradient, gradient) - delta).clamp_min(0.0)
    square = torch.linalg.vecdot(kl_gradient, kl_gradient)
    factor = torch.where(square > 0, excess / square, 0.0)
    return gradient - factor.unsqueeze(-1) * kl_gradient
