"""How probable recorded actions are under a policy."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from pfrl_like.distributions import mode_of
from pfrl_like.ope.policies import certain
from pfrl_like.ope.policy_actions import check_actions, distribution_of
from pfrl_like.ope.rows import Array, in_parts
from pfrl_like.utils.contexts import evaluating_readers


def log_probs(
    policy: nn.Module, obs: Any, action: Any, agent: Any = None, *, modes: bool = False, argument: str = "policy"
) -> Array:
    """Log-probabilities (densities) of actions under a policy, [n].

    Args:
        policy: Module from features to distributions of actions.
        obs: Observations, [n, ...]; what has a length and gives slices is enough.
        action: Actions, [n, A] or [n].
        agent: Whose `features` and `device` come before the policy; None for none.
        modes: Whether the policy is certain of its modes; for discrete actions.
        argument: What errors call the policy.

    Raises:
        TypeError: If it gives no distributions, or actions of the other kind, or has no densities.
        ValueError: If it cannot take the observations, its actions are of another size, there are not as many of one
            as of the other, or modes of continuous actions are asked for.
    """
    action = np.asarray(action)
    discrete = action.ndim == 1
    if len(action) != len(obs):
        raise ValueError(f"there are {len(obs)} observations in obs and {len(action)} actions, expected as many")
    if modes and not discrete:
        raise ValueError("modes is True, but modes of continuous actions have no probabilities")

    def of_some(obs: Any, action: Array) -> Array:
        distribution: Any = distribution_of(policy, agent, obs, argument)
        size = int(action.max(initial=-1)) + 1 if discrete else math.prod(action.shape[1:])
        check_actions(distribution, discrete, size, argument)
        if not has_density(distribution):
            raise TypeError(f"{argument} gives {type(distribution).__name__}, which has no density")
        if modes:
            distribution = certain(mode_of(distribution), distribution.probs.shape[-1])
        taken = torch.as_tensor(action, device=getattr(agent, "device", "cpu"))
        return np.asarray(distribution.log_prob(taken if discrete else taken.float()).cpu(), np.float64)

    with torch.no_grad(), evaluating_readers(policy):
        return in_parts(of_some, obs, action)


def has_density(distribution: Any) -> bool:
    """Whether a distribution tells how probable an action is, and is not certain of one of continuous ones."""
    return getattr(distribution, "has_density", True)
