"""Concatenation of observation and action into one vector."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pfrl_like.nn.fast_forward import FUNCTIONS
from pfrl_like.utils.contexts import ignores_training


def concat_obs_and_action(obs_and_action: Sequence[Tensor]) -> Tensor:
    """Concatenate [..., n_dim_obs] and [..., n_dim_action] to [..., n_dim_obs + n_dim_action].

    Args:
        obs_and_action: Observations and actions, a pair.

    Raises:
        ValueError: If there are not two tensors.
    """
    if len(obs_and_action) != 2:
        raise ValueError(f"obs_and_action has {len(obs_and_action)} parts, expected observations and actions")
    return torch.cat(tuple(obs_and_action), dim=-1)


@ignores_training
class ConcatObsAndAction(nn.Module):
    """Concatenates a pair (observation, action) to one vector, for Q-functions Q(s, a)."""

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        """Concatenate [..., n_dim_obs] and [..., n_dim_action] to [..., n_dim_obs + n_dim_action]."""
        return torch.cat(x, dim=-1)


FUNCTIONS[ConcatObsAndAction] = functools.partial(torch.cat, dim=-1)
