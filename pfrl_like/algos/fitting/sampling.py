"""Actions of a policy, greedy ones and samples, as estimators and fitted Q evaluation give them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pfrl_like.learning.model_outputs import allowed
from pfrl_like.utils.action_masks import mask_keyword
from pfrl_like.utils.contexts import evaluating_readers

Array = NDArray[Any]


def greedy(agent: Any, obs: Array, action_mask: Any, discrete_action: bool, action_size: int | None) -> Array:
    """Greedy actions of an agent, of no observation as well.

    Args:
        agent: The agent.
        obs: Observations, [n, ...].
        action_mask: True where a discrete action is allowed, [n, n_actions] or [n_actions]; None for everywhere.
        discrete_action: Whether actions are indices.
        action_size: Numbers of an action, or how many discrete actions there are; None if that is not known.

    Returns:
        Actions, [n, action_size], or [n] if discrete.

    Raises:
        ValueError: If the mask has another shape.
        TypeError: On a mask of continuous actions.
    """
    if not len(obs) and action_size is not None:
        return np.zeros(0, np.int64) if discrete_action else np.zeros((0, action_size), np.float32)
    with agent.eval_mode():
        return np.asarray(agent.batch_act(obs, **mask_keyword(action_mask)))


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
