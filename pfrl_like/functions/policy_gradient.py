"""Functions of policy gradient methods: trust regions and conjugate gradients included."""

from collections.abc import Callable

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


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], b: Tensor, max_iter: int = 10, tolerance: float = 1e-10
) -> Tensor:
    """Solve A x = b for a symmetric positive definite A (Hestenes and Stiefel 1952, doi:10.6028/jres.049.044, eq. 3:1).

    Args:
        product: Gives A v for a vector v, [n].
        b: [n].
        max_iter: Most iterations; after n of them the solution is exact but for rounding.
        tolerance: Squared norm of b - A x that is small enough to stop.

    Returns:
        x, [n].
    """
    x = torch.zeros_like(b)
    residual = direction = b
    square = residual.dot(residual)
    for _ in range(max_iter):
        if square <= tolerance:
            break
        image = product(direction)
        step = square / direction.dot(image)
        x = x + step * direction
        residual = residual - step * image
        previous, square = square, residual.dot(residual)
        direction = residual + (square / previous) * direction
    return x


def actor_critic_loss(
    log_prob: Tensor,
    advantage: Tensor,
    entropy: Tensor,
    value: Tensor,
    returns: Tensor,
    *,
    pi_loss_coef: float,
    v_loss_coef: float,
    entropy_coef: float,
) -> Tensor:
    """Loss of each step, -c_pi A log pi(a | s) + c_v (R - V)**2 - c_H H (arXiv:1602.01783, section 4, sign reversed).

    Args:
        log_prob: log pi(a | s), [N].
        advantage: A, [N]; takes no gradient.
        entropy: H, [N].
        value: V, [N].
        returns: R, [N]; takes no gradient.
        pi_loss_coef: c_pi.
        v_loss_coef: c_v.
        entropy_coef: c_H.

    Returns:
        [N].
    """
    return v_loss_coef * (returns - value).square() - pi_loss_coef * advantage * log_prob - entropy_coef * entropy


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_eps: float) -> Tensor:
    """What PPO maximises of each step, min(r A, clip(r, 1 - eps, 1 + eps) A) (arXiv:1707.06347, eq. 7).

    Args:
        ratio: Probability of the action, divided by that under the policy that acted, [N].
        advantage: [N].
        clip_eps: eps.

    Returns:
        [N].
    """
    # The clipped gain is at most (1 + eps) A where A is positive and (1 - eps) A where it is negative.
    return (ratio * advantage).clamp(max=torch.add(advantage, advantage.abs(), alpha=clip_eps))


def estimated_kl(log_ratio: Tensor) -> Tensor:
    """Divergence of a policy from the one that acted, from samples: the mean of r - 1 - log r, a scalar.

    It is unbiased and never negative (Schulman 2020, joschu.net/blog/kl-approx.html).

    Args:
        log_ratio: log r, how much larger the log-probabilities of the actions are under the policy, [N].
    """
    return (log_ratio.exp() - 1 - log_ratio).mean()


def standardized(advantage: Tensor) -> Tensor:
    """The same numbers with mean 0 and standard deviation (of the population) 1; 1e-8 is added to what divides."""
    std, mean = torch.std_mean(advantage, correction=0)
    return (advantage - mean) / (std + 1e-8)


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """1 - Var(returns - value) / Var(returns), a scalar; NaN if all returns are the same.

    Args:
        value: Predictions, [N].
        returns: What they were to predict, [N].
    """
    spread = returns.var(correction=0)
    return torch.where(spread > 0, 1 - (returns - value).var(correction=0) / spread, torch.nan)
