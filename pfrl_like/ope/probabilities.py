"""How probable recorded actions are under a policy."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.distributions import mode_of
from pfrl_like.ope.policies import certain, features_of
from pfrl_like.ope.rows import Array, in_parts
from pfrl_like.utils.contexts import evaluating_readers


def log_probs(policy: nn.Module, obs: Any, action: Array, agent: Any = None, *, modes: bool = False) -> Array:
    """Log-probabilities (densities) of actions under a policy, [n].

    Args:
        policy: Module from features to distributions of actions.
        obs: Observations, [n, ...]; what has a length and gives slices is enough.
        action: Actions, [n, A] or [n].
        agent: Whose `features` and `device` come before the policy; None for none.
        modes: Whether the policy is certain of its modes; for discrete actions.

    Raises:
        TypeError: If the distributions have no density.
    """
    device = getattr(agent, "device", "cpu")

    def of_some(obs: Any, action: Array) -> Array:
        distribution = policy(features_of(agent, obs))
        if not has_density(distribution):
            raise TypeError(f"the policy gives {type(distribution).__name__}, which has no density")
        if modes:
            distribution = certain(mode_of(distribution), distribution.probs.shape[-1])
        taken: Tensor = torch.as_tensor(action, device=device)
        return np.asarray(distribution.log_prob(taken if taken.ndim == 1 else taken.float()).cpu(), np.float64)

    with torch.no_grad(), evaluating_readers(policy):
        return in_parts(of_some, obs, action)


def has_density(distribution: Any) -> bool:
    """Whether a distribution tells how probable an action is, and is not certain of one of continuous ones."""
    return getattr(distribution, "has_density", True)
