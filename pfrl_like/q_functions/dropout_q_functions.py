"""Q-functions of state and action with dropout."""

from typing import Any

from torch import Tensor, nn

from pfrl_like.q_function import StateActionQFunction
from pfrl_like.q_functions.hidden_sizes import hidden_sizes_of
from pfrl_like.q_functions.pairs import side_by_side


class DropoutFCSAQFunction(nn.Module, StateActionQFunction):
    """Fully connected Q-function with dropout and layer normalisation before each ReLU (DroQ, arXiv:2110.02034).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        dropout: Probability with which a unit is left out.
    """

    def __init__(
        self, n_dim_obs: int, n_dim_action: int, n_hidden_channels: int, n_hidden_layers: int, dropout: float = 0.01
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        size = n_dim_obs + n_dim_action
        for hidden in hidden_sizes_of(n_hidden_channels, n_hidden_layers):
            layers += [nn.Linear(size, hidden), nn.Dropout(dropout), nn.LayerNorm(hidden), nn.ReLU()]
            size = hidden
        self.model = nn.Sequential(*layers, nn.Linear(size, 1))

    def forward(self, x: Any, a: Any = None) -> Tensor:
        """Q(s, a), [B, 1]."""
        out: Tensor = self.model(side_by_side(x, a))
        return out
