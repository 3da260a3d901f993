"""Samples of a policy, as estimators and fitted Q evaluation draw them."""

from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.agents.model_outputs import allowed
from pfrl_like.utils.contexts import evaluating_readers


def sampled(policy: nn.Module, obs: Any, action_mask: Any = None) -> Tensor:
    """Samples of a policy.

    Args:
        policy: Module from features to distributions of actions.
        obs: Features, [N, ...].
        action_mask: True where a discrete action is allowed, [N, n_actions] or [n_actions]; None for everywhere.

    Returns:
        Actions, [N, ...].

    Raises:
        TypeError: On a mask of continuous actions.
    """
    with torch.no_grad(), evaluating_readers(policy):
        drawn: Tensor = allowed(policy(obs), action_mask).sample()
    return drawn
