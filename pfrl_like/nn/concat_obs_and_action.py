"""Concatenation of observation and action into one vector."""

import functools

import torch
from torch import Tensor, nn

from pfrl_like.nn.fast_forward import FUNCTIONS
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class ConcatObsAndAction(nn.Module):
    """Concatenates a pair (observation, action) to one vector, for Q-functions Q(s, a)."""

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        """Concatenate [..., n_dim_obs] and [..., n_dim_action] to [..., n_dim_obs + n_dim_action]."""
        return torch.cat(x, dim=-1)


FUNCTIONS[ConcatObsAndAction] = functools.partial(torch.cat, dim=-1)
