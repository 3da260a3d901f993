"""Q-functions of the state that give the quantiles of the returns at even fractions (QR-DQN, arXiv:1710.10044)."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.nn.mlp import MLP
from pfrl_like.q_function import StateQFunction
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.declared import declares_input_of
from pfrl_like.utils.direct_call import call


@declares_input_of("model")
@ignores_training
class QuantileSingleModelStateQFunctionWithDiscreteAction(nn.Module, StateQFunction):
    """Quantile Q-function of discrete actions made of any model.

    Args:
        model: Module from observations [B, ...] to quantiles [B, n_quantiles, n_actions], at (i + 0.5) / n_quantiles.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> QuantileDiscreteActionValue:
        """The quantiles of B states."""
        return QuantileDiscreteActionValue(call(self.model, x))


class QuantileFCStateQFunctionWithDiscreteAction(QuantileSingleModelStateQFunctionWithDiscreteAction):
    """Fully connected quantile Q-function of discrete actions.

    Args:
        ndim_obs: Size of an observation.
        n_actions: Number of actions.
        n_quantiles: Number of quantiles, at least 1.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        nonlinearity: Applied after each hidden layer.
        last_wscale: Factor on the initial weights of the last layer.

    Raises:
        ValueError: If there is no quantile.
    """

    def __init__(
        self,
        ndim_obs: int,
        n_actions: int,
        n_quantiles: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Callable[[Tensor], Tensor] = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        if n_quantiles < 1:
            raise ValueError(f"n_quantiles is {n_quantiles!r}, expected at least 1")
        hidden_sizes = [n_hidden_channels] * n_hidden_layers
        model = nn.Sequential(
            MLP(ndim_obs, n_actions * n_quantiles, hidden_sizes, nonlinearity, last_wscale),
            nn.Unflatten(1, (int(n_quantiles), int(n_actions))),
        )
        super().__init__(model)
