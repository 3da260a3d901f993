"""Distributional Q-functions Q(s, a).

Call a Q-function of this module as `q_function((obs, action))`. The result is an `ActionValue` with a single action, at
index 0. It is the action of the pair.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.action_value import DistributionalDiscreteActionValue, QuantileDiscreteActionValue
from pfrl_like.nn.concat_obs_and_action import ConcatObsAndAction
from pfrl_like.nn.lmbda import Lambda
from pfrl_like.nn.mlp import MLP
from pfrl_like.q_function import StateActionQFunction
from pfrl_like.q_functions import quantile_q_functions
from pfrl_like.q_functions.state_q_functions import concatenate, evenly_spaced_atoms, hidden_sizes_of
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training

Nonlinearity = Callable[[Tensor], Tensor]


@ignores_training
class QuantileFCSAQFunction(nn.Module, StateActionQFunction):
    """Fully connected Q-function with quantiles at (i + 0.5) / n_quantiles (arXiv:1710.10044, arXiv:2005.04269).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_quantiles: Number of quantiles, at least 1.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.

    Raises:
        ValueError: If `n_quantiles` is below 1.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_quantiles: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        super().__init__()
        check_counts(n_quantiles=n_quantiles)
        hidden_sizes = hidden_sizes_of(n_hidden_channels, n_hidden_layers)
        self.model = MLP(n_dim_obs + n_dim_action, n_quantiles, hidden_sizes, nonlinearity, last_wscale)

    def forward(self, x: Any, a: Any = None) -> QuantileDiscreteActionValue:
        """Return the quantiles of B pairs (observation, action), [B, n_quantiles, 1]."""
        return QuantileDiscreteActionValue(self.model(concatenate(x, a)).unsqueeze(2))


@ignores_training
class DistributionalFCSAQFunction(nn.Module, StateActionQFunction):
    """Fully connected Q-function that predicts probabilities of evenly spaced returns (arXiv:1707.06887).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_atoms: Number of atoms, at least 2.
        v_min: Return represented by the first atom.
        v_max: Return represented by the last atom.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.

    Raises:
        ValueError: If `n_atoms` is below 2, or if `v_min` is not below `v_max`.
    """

    z_values: Tensor

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_atoms: int,
        v_min: float,
        v_max: float,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        super().__init__()
        self.register_buffer("z_values", evenly_spaced_atoms(n_atoms, v_min, v_max), persistent=False)
        hidden_sizes = hidden_sizes_of(n_hidden_channels, n_hidden_layers)
        self.model = MLP(n_dim_obs + n_dim_action, n_atoms, hidden_sizes, nonlinearity, last_wscale)

    def forward(self, x: Any, a: Any = None) -> DistributionalDiscreteActionValue:
        """Return the probabilities of B pairs (observation, action), [B, 1, n_atoms]."""
        probs = self.model(concatenate(x, a)).softmax(1).unsqueeze(1)
        return DistributionalDiscreteActionValue(probs, self.z_values)


class ImplicitQuantileFCSAQFunction(quantile_q_functions.ImplicitQuantileQFunction):
    """Fully connected implicit quantile Q-function (arXiv:1806.06923).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        nonlinearity: Function applied after each hidden layer.
        n_cosines: Number of cosine functions that embed a fraction.
        counts: Numbers of sampled fractions: the arguments `quantile_thresholds_...` of `ImplicitQuantileQFunction`.

    Raises:
        ValueError: If a number is below 1.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        n_cosines: int = 64,
        **counts: int,
    ) -> None:
        size = n_dim_obs + n_dim_action
        psi, phi, f = _quantile_networks(size, n_hidden_channels, n_hidden_layers, nonlinearity, n_cosines)
        super().__init__(psi, phi, f, **counts)


class FullyParametrizedFCSAQFunction(quantile_q_functions.FullyParametrizedQFunction):
    """Fully connected quantile Q-function that proposes the fractions (arXiv:1911.02140).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_fractions: Number of intervals into which the fractions divide the probabilities [0, 1].
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        nonlinearity: Function applied after each hidden layer.
        n_cosines: Number of cosine functions that embed a fraction.
        entropy_coeff: Weight of the entropy term in the loss, at least 0. The entropy is that of the intervals'
            probabilities.

    Raises:
        ValueError: If a number is below 1, or `entropy_coeff` is negative.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_fractions: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        n_cosines: int = 64,
        entropy_coeff: float = 0.0,
    ) -> None:
        check_counts(n_fractions=n_fractions)
        size = n_dim_obs + n_dim_action
        parts = _quantile_networks(size, n_hidden_channels, n_hidden_layers, nonlinearity, n_cosines)
        super().__init__(*parts, nn.Linear(n_hidden_channels, n_fractions), entropy_coeff)


def _quantile_networks(
    size: int, n_hidden_channels: int, n_hidden_layers: int, nonlinearity: Nonlinearity, n_cosines: int
) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Return `psi`, `phi` and `f` of `ImplicitQuantileQFunction`; `size` is the sum of observation and action size."""
    check_counts(n_hidden_layers=n_hidden_layers, n_cosines=n_cosines)
    mlp = MLP(size, n_hidden_channels, [n_hidden_channels] * (n_hidden_layers - 1), nonlinearity)
    psi = nn.Sequential(ConcatObsAndAction(), mlp, Lambda(nonlinearity))
    phi = nn.Sequential(quantile_q_functions.CosineBasisLinear(n_cosines, n_hidden_channels), nn.ReLU())
    return psi, phi, nn.Linear(n_hidden_channels, 1)
