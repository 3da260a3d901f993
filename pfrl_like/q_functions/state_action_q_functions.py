"""Q-functions of state and action, with outputs [B, 1].

All of them are called as `q_function(obs, action)`, or as `q_function((obs, action))`, the form for modules that may be
recurrent.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.action_value import DiscreteActionValue, EnsembleActionValue
from pfrl_like.nn.concat_obs_and_action import ConcatObsAndAction
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.nn.lmbda import Lambda
from pfrl_like.nn.mlp import MLP
from pfrl_like.nn.mlp_bn import MLPBN
from pfrl_like.nn.recurrent_sequential import RecurrentSequential
from pfrl_like.q_function import StateActionQFunction
from pfrl_like.q_functions.state_q_functions import hidden_sizes_of, pair, side_by_side
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training


class DropoutFCSAQFunction(nn.Module, StateActionQFunction):
    """Fully connected Q-function with dropout and layer normalisation before each ReLU (DroQ, arXiv:2110.02034).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        dropout: Probability of dropout.
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


Nonlinearity = Callable[[Tensor], Tensor]


@ignores_training
class SingleModelStateActionQFunction(nn.Module, StateActionQFunction):
    """Q-function made of any model.

    Args:
        model: Module called as `model(obs, action)` that returns Q(s, a), [B, 1].
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any, a: Any = None) -> Tensor:
        """Q(s, a), [B, 1]."""
        out: Tensor = self.model(*pair(x, a))
        return out


@ignores_training
class FCSAQFunction(MLP, StateActionQFunction):
    """Fully connected Q-function of concatenated observation and action.

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        nonlinearity: Applied after each hidden layer.
        last_wscale: Factor on the initial weights of the last layer.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        hidden_sizes = hidden_sizes_of(n_hidden_channels, n_hidden_layers)
        super().__init__(n_dim_obs + n_dim_action, 1, hidden_sizes, nonlinearity, last_wscale)
        self.n_input_channels = n_dim_obs + n_dim_action
        self.n_hidden_channels = n_hidden_channels
        self.n_hidden_layers = n_hidden_layers

    def forward(self, x: Any, a: Any = None) -> Tensor:
        """Q(s, a), [B, 1]."""
        # `side_by_side`, without its call in the usual case
        both = x if a is None and isinstance(x, tuple) and len(x) == 2 else pair(x, a)
        return super().forward(torch.cat(both, dim=-1))


@ignores_training
class FCBNSAQFunction(MLPBN, StateActionQFunction):
    """`FCSAQFunction` with batch normalisation.

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        normalize_input: Normalise observations and actions as well.
        nonlinearity: Applied after each hidden layer.
        last_wscale: Factor on the initial weights of the last layer.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        normalize_input: bool = True,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        hidden_sizes = hidden_sizes_of(n_hidden_channels, n_hidden_layers)
        super().__init__(n_dim_obs + n_dim_action, 1, hidden_sizes, normalize_input, False, nonlinearity, last_wscale)
        self.n_input_channels = n_dim_obs + n_dim_action
        self.n_hidden_channels = n_hidden_channels
        self.n_hidden_layers = n_hidden_layers

    def forward(self, x: Any, a: Any = None) -> Tensor:
        """Q(s, a), [B, 1]."""
        return super().forward(side_by_side(x, a))


@ignores_training
class _LateAction(nn.Module, StateActionQFunction):
    """One layer for the observation, whose output is then concatenated with the action."""

    def __init__(
        self,
        obs_mlp: nn.Module,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity,
        last_wscale: float,
    ) -> None:
        super().__init__()
        self.n_input_channels = n_dim_obs + n_dim_action
        self.n_hidden_channels = n_hidden_channels
        self.n_hidden_layers = n_hidden_layers
        self.nonlinearity = nonlinearity
        self.obs_mlp = obs_mlp
        hidden_sizes = hidden_sizes_of(n_hidden_channels, n_hidden_layers - 1)
        self.mlp = MLP(n_hidden_channels + n_dim_action, 1, hidden_sizes, nonlinearity, last_wscale)
        self.output = self.mlp.output  # PFRL saves the layer under both names

    def forward(self, x: Any, a: Any = None) -> Tensor:
        """Q(s, a), [B, 1]."""
        obs, action = pair(x, a)
        out: Tensor = self.mlp(torch.cat((self.nonlinearity(self.obs_mlp(obs)), action), dim=-1))
        return out


class FCLateActionSAQFunction(_LateAction):
    """Fully connected Q-function whose action joins at the second layer (DDPG, arXiv:1509.02971, section 7).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        nonlinearity: Applied after each hidden layer.
        last_wscale: Factor on the initial weights of the last layer.

    Raises:
        ValueError: If a layer has no units, or there is no hidden layer.
        TypeError: If one of these numbers is not an integer.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        check_counts(n_hidden_channels=n_hidden_channels, n_hidden_layers=n_hidden_layers)
        obs_mlp = MLP(n_dim_obs, n_hidden_channels, [])
        super().__init__(
            obs_mlp, n_dim_obs, n_dim_action, n_hidden_channels, n_hidden_layers, nonlinearity, last_wscale
        )


class FCBNLateActionSAQFunction(_LateAction):
    """`FCLateActionSAQFunction` with batch normalisation of the first layer's output (arXiv:1509.02971, section 7).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        normalize_input: Normalise observations as well; actions never are.
        nonlinearity: Applied after each hidden layer.
        last_wscale: Factor on the initial weights of the last layer.

    Raises:
        ValueError: If a layer has no units, or there is no hidden layer.
        TypeError: If one of these numbers is not an integer.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        normalize_input: bool = True,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        check_counts(n_hidden_channels=n_hidden_channels, n_hidden_layers=n_hidden_layers)
        obs_mlp = MLPBN(n_dim_obs, n_hidden_channels, [], normalize_input, normalize_output=True)
        super().__init__(
            obs_mlp, n_dim_obs, n_dim_action, n_hidden_channels, n_hidden_layers, nonlinearity, last_wscale
        )
        self.normalize_input = normalize_input


class FCLSTMSAQFunction(RecurrentSequential, StateActionQFunction):
    """Recurrent Q-function of concatenated observation and action: fully connected layers, an LSTM, a linear layer.

    Like every `pfrl_like.nn.Recurrent` it is called with packed sequences and a state, as in
    `q_function((obs, action), state)`, and returns Q(s, a) of every step, packed, [N, 1], and the new state.

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer and of the LSTM.
        n_hidden_layers: Number of hidden layers before the LSTM.
        nonlinearity: Applied after each hidden layer.
        last_wscale: Factor on the initial weights of the last layer.
    """

    def __init__(
        self,
        n_dim_obs: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Nonlinearity = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        size = n_dim_obs + n_dim_action
        layers: list[nn.Module] = [ConcatObsAndAction()]
        if hidden_sizes := hidden_sizes_of(n_hidden_channels, n_hidden_layers):
            layers += [MLP(size, n_hidden_channels, hidden_sizes[1:], nonlinearity), Lambda(nonlinearity)]
            size = n_hidden_channels
        layers += [nn.LSTM(size, n_hidden_channels), MLP(n_hidden_channels, 1, [], last_wscale=last_wscale)]
        super().__init__(*layers)


@ignores_training
class QFunctionEnsemble(nn.Module):
    """Q-functions of one form that learn together, with one optimiser; they may share layers.

    An agent of DQN's family takes it as its Q-function. An actor-critic takes it in place of its critics; each member
    is then one critic.

    Args:
        members: Q-functions of the state that return a `DiscreteActionValue`, or critics of observation and action.
        bootstrap: True to let each member learn from random rows only, so that their values differ where data are
            scarce.
        pool: "mean" or "least" of the members: the value of the ensemble where a single number is needed, such as for a
            greedy choice. Targets always use the least.

    Raises:
        ValueError: If there is no member, or on another `pool`.
    """

    def __init__(self, members: Iterable[nn.Module], bootstrap: bool = False, pool: str = "mean") -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("members is empty, expected at least one Q-function")
        if pool not in ("mean", "least"):
            raise ValueError(f"pool is {pool!r}, expected 'mean' or 'least'")
        self.bootstrap, self.pool = bootstrap, pool

    @property
    def first(self) -> nn.Module:
        """The first member."""
        return self.members[0]

    def forward(self, x: Any) -> EnsembleActionValue:
        """Return the values of all members for B states, or for B pairs."""
        given = [fast_forward(member, x) for member in self.members]
        values = [DiscreteActionValue(each) if isinstance(each, Tensor) else each for each in given]
        return EnsembleActionValue(values, self.bootstrap, self.pool)


def members_of(q_function: Any) -> Iterable[Any]:
    """Return the members of an ensemble, or another Q-function alone."""
    return q_function.members if isinstance(q_function, QFunctionEnsemble) else (q_function,)


def members_by_name(q_functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return all members, those of an ensemble under its name with numbers from 1, others under their own name."""
    found: dict[str, Any] = {}
    for name, q_function in q_functions.items():
        is_one = not isinstance(q_function, QFunctionEnsemble)
        stem = name.rstrip("0123456789")
        found |= {name if is_one else f"{stem}{i}": each for i, each in enumerate(members_of(q_function), 1)}
    return found
