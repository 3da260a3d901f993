"""PFRL's functions of ACER for one step, over `agents/acer_losses.py`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, kl_divergence

from pfrl_like.agents.acer_losses import bias_correction, policy_loss
from pfrl_like.distributions import detached, parameters_of
from pfrl_like.functions.losses import trust_region_gradient


def compute_importance(pi: Distribution, mu: Distribution, x: Tensor) -> float:
    """Return the importance ratio pi(x) / mu(x) of an action.

    Args:
        pi: Target policy, batch shape [1].
        mu: Behaviour policy, batch shape [1].
        x: Action, [1, ...].
    """
    with torch.no_grad():
        return float((pi.log_prob(x) - mu.log_prob(x)).exp())


def compute_full_importance(pi: Any, mu: Any) -> Tensor:
    """Return the importance ratios pi(a) / mu(a) of all actions, [N, n_actions].

    Args:
        pi: Categorical distributions of the target policy, batch shape [N].
        mu: Categorical distributions of the behaviour policy, batch shape [N].
    """
    with torch.no_grad():
        return (pi.logits - mu.logits).exp()  # type: ignore[no-any-return]


def compute_policy_gradient_full_correction(
    action_distrib: Any, action_distrib_mu: Any, action_value: Any, v: float, truncation_threshold: float
) -> Tensor:
    """Return the bias correction of the truncated policy loss, over all actions, [1].

    Args:
        action_distrib: Categorical distribution of the policy, batch shape [1].
        action_distrib_mu: Categorical distribution of the behaviour policy.
        action_value: Q(s, .), with `q_values` [1, n_actions].
        v: V(s).
        truncation_threshold: Maximum importance weight.
    """
    value = action_distrib.logits.new_full((1,), v)
    return bias_correction(action_distrib, action_distrib_mu, action_value, value, truncation_threshold)


def compute_policy_gradient_sample_correction(
    action_distrib: Any, action_distrib_mu: Any, action_value: Any, v: float, truncation_threshold: float
) -> Tensor:
    """Return the bias correction of the truncated policy loss, with one sampled action, [1].

    Args:
        action_distrib: Distribution of the policy, batch shape [1].
        action_distrib_mu: Distribution of the behaviour policy.
        action_value: Q(s, .).
        v: V(s).
        truncation_threshold: Maximum importance weight.
    """
    with torch.no_grad():
        action = action_distrib.sample()
        inverse_ratio = compute_importance(action_distrib_mu, action_distrib, action)
        weight = max(0.0, 1 - truncation_threshold * inverse_ratio)
        weight *= float(action_value.evaluate_actions(action)) - v
    return -weight * action_distrib.log_prob(action)  # type: ignore[no-any-return]


def compute_policy_gradient_loss(
    action: Tensor,
    advantage: float,
    action_distrib: Any,
    action_distrib_mu: Any,
    action_value: Any,
    v: float,
    truncation_threshold: float | None,
) -> Tensor:
    """Return the policy loss of one step with its bias correction, [1] (arXiv:1611.01224, eq. 7).

    Args:
        action: Action taken, [1, ...].
        advantage: Advantage of the action.
        action_distrib: Distribution of the policy, batch shape [1].
        action_distrib_mu: Distribution of the behaviour policy. None if it is the same policy.
        action_value: Q(s, .).
        v: V(s).
        truncation_threshold: Maximum importance weight. None disables truncation and bias correction.
    """
    ratio = None
    if action_distrib_mu is not None:
        ratio = torch.tensor(compute_importance(action_distrib, action_distrib_mu, action))
    loss = policy_loss(action_distrib, action, torch.tensor(advantage), ratio, truncation_threshold)
    if ratio is None or truncation_threshold is None:
        return loss
    is_categorical = isinstance(action_distrib, torch.distributions.Categorical)
    correct = compute_policy_gradient_full_correction if is_categorical else compute_policy_gradient_sample_correction
    return loss + correct(action_distrib, action_distrib_mu, action_value, v, truncation_threshold)


def get_params_of_distribution(distrib: Any) -> tuple[Tensor, ...]:
    """Return the tensors that define a distribution: (loc, scale) of Gaussians, (logits,) or (probs,) of categoricals.

    Args:
        distrib: The distribution.

    Raises:
        TypeError: If the parameters of the distribution are not known.
    """
    if isinstance(distrib, Independent):
        return get_params_of_distribution(distrib.base_dist)
    return (distrib._param,) if hasattr(distrib, "_param") else parameters_of(distrib)


def deepcopy_distribution(distrib: Any) -> Any:
    """Return a copy of a distribution with detached parameters.

    Args:
        distrib: The distribution.

    Raises:
        TypeError: If the parameters of the distribution are not known.
    """
    return detached(distrib)


def compute_loss_with_kl_constraint(
    distrib: Any, another_distrib: Any, original_loss: Tensor, delta: float
) -> tuple[Tensor, float]:
    """Return a loss whose step keeps the distribution near another one, and the KL divergence from the other one.

    Args:
        distrib: Distribution of the trained policy, batch shape [1].
        another_distrib: Distribution of the average policy.
        original_loss: Loss that depends on the parameters of `distrib`, a scalar or [1].
        delta: Bound of the linearised KL divergence.

    Returns:
        The loss, in the shape of `original_loss`, and the KL divergence. Only the gradient of the loss is meaningful.

    Raises:
        ValueError: If `distrib` contains several distributions.
    """
    params = get_params_of_distribution(distrib)
    if any(param.shape[0] != 1 for param in params):
        raise ValueError(
            f"distrib has parameters of shapes {[tuple(p.shape) for p in params]}, expected 1 distribution"
        )
    kl = kl_divergence(another_distrib, distrib)
    gradient = torch.autograd.grad(original_loss, params, retain_graph=True)
    kl_gradient = torch.autograd.grad(-kl, params, retain_graph=True)
    direction = trust_region_gradient(_flat(gradient), _flat(kl_gradient), delta)
    return (direction * _flat(params)).sum().reshape(original_loss.shape), float(kl.detach())


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten(1) for tensor in tensors], dim=1)
