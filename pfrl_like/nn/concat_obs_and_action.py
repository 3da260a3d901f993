"""Concatenation of observation and action into one vector."""

import functools

import torch
from torch import Tensor, nn

from pfrl_like.nn.fast_forward import stands_for
from pfrl_like.utils.contexts import ignores_training


@stands_for(functools.partial(torch.cat, dim=-1))
@ignores_training
class ConcatObsAndAction(nn.Module):
    """First layer of a Q-function Q(s, a) whose other layers take a single vector."""

    def forward(self, obs_and_action: tuple[Tensor, Tensor]) -> Tensor:
        """Concatenate [..., n_dim_obs] and [..., n_dim_action] to [..., n_dim_obs + n_dim_action]."""
        return torch.cat(obs_and_action, dim=-1)
