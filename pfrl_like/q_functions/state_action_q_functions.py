"""Q-functions Q(s, a) with outputs [B, 1].

Call a Q-function of this module as `q_function(obs, action)` or as `q_function((obs, action))`. The agents use the
second form, because recurrent modules support only this form.
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
from pfrl_like.q_functions.state_q_functions import concatenate, hidden_sizes_of, split_pair
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training


class DropoutFCSAQFunction(nn.Module, StateActionQFunction):
    """Fully connected Q-function with dropout and layer normalisation before each ReLU (DroQ, arXiv:2110.02034).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        dropout: Probability that an activation is set to 0.
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
        """Return Q(s, a), [B, 1]."""
        out: Tensor = self.model(concatenate(x, a))
        return out


Nonlinearity = Callable[[Tensor], Tensor]


@ignores_training
class SingleModelStateActionQFunction(nn.Module, StateActionQFunction):
    """Q-function that wraps any model.

    Args:
        model: Module called as `model(obs, action)` that returns Q(s, a), [B, 1].
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any, a: Any = None) -> Tensor:
        """Return Q(s, a), [B, 1]."""
        out: Tensor = self.model(*split_pair(x, a))
        return out


@ignores_training
class FCSAQFunction(MLP, StateActionQFunction):
    """Fully connected Q-function whose input is the concatenation of observation and action.

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.
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
        self.n_hidden_channels, self.n_hidden_layers = n_hidden_channels, n_hidden_layers

    def forward(self, state: Any, action: Any = None) -> Tensor:
        """Return Q(s, a), [B, 1]."""
        # The same result as `concatenate`. In the usual case this is faster, because it needs no function calls.
        both = state if action is None and isinstance(state, tuple) and len(state) == 2 else split_pair(state, action)
        return super().forward(torch.cat(both, dim=-1))


@ignores_training
class FCBNSAQFunction(MLPBN, StateActionQFunction):
    """`FCSAQFunction` with batch normalisation.

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        normalize_input: True to apply batch normalisation also to the input, which contains observations and actions.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.
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
        self.n_hidden_channels, self.n_hidden_layers = n_hidden_channels, n_hidden_layers

    def forward(self, state: Any, action: Any = None) -> Tensor:
        """Return Q(s, a), [B, 1]."""
        return super().forward(concatenate(state, action))


@ignores_training
class _LateAction(nn.Module, StateActionQFunction):
    """Q-function whose first layer takes only the observation. The second layer takes its output and the action."""

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
        self.n_hidden_channels, self.n_hidden_layers = n_hidden_channels, n_hidden_layers
        self.nonlinearity, self.obs_mlp = nonlinearity, obs_mlp
        hidden_sizes = hidden_sizes_of(n_hidden_channels, n_hidden_layers - 1)
        self.mlp = MLP(n_hidden_channels + n_dim_action, 1, hidden_sizes, nonlinearity, last_wscale)
        self.output = self.mlp.output  # PFRL saves the layer under both names

    def forward(self, state: Any, action: Any = None) -> Tensor:
        """Return Q(s, a), [B, 1]."""
        state, action = split_pair(state, action)
        out: Tensor = self.mlp(torch.cat((self.nonlinearity(self.obs_mlp(state)), action), dim=-1))
        return out


class FCLateActionSAQFunction(_LateAction):
    """Fully connected Q-function that takes the action at the second layer (DDPG, arXiv:1509.02971, section 7).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.

    Raises:
        ValueError: If a number is below 1.
        TypeError: If a number is not an integer.
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
        mlp = MLP(n_dim_obs, n_hidden_channels, [])
        super().__init__(mlp, n_dim_obs, n_dim_action, n_hidden_channels, n_hidden_layers, nonlinearity, last_wscale)


class FCBNLateActionSAQFunction(_LateAction):
    """`FCLateActionSAQFunction` with batch normalisation of the first layer's output (arXiv:1509.02971, section 7).

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        normalize_input: True to apply batch normalisation to observations, too. Actions are not normalised.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.

    Raises:
        ValueError: If a number is below 1.
        TypeError: If a number is not an integer.
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
        mlp = MLPBN(n_dim_obs, n_hidden_channels, [], normalize_input, normalize_output=True)
        super().__init__(mlp, n_dim_obs, n_dim_action, n_hidden_channels, n_hidden_layers, nonlinearity, last_wscale)
        self.normalize_input = normalize_input


class FCLSTMSAQFunction(RecurrentSequential, StateActionQFunction):
    """Recurrent Q-function of observation and action: fully connected layers, then an LSTM, then a linear layer.

    The module is a `pfrl_like.nn.Recurrent`. Call it as `q_function((obs, action), state)`, where `obs` and `action`
    are packed sequences and `state` is a recurrent state. The results are Q(s, a) of every step, a packed sequence
    with data [N, 1], and the new recurrent state.

    Args:
        n_dim_obs: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer and of the LSTM.
        n_hidden_layers: Number of hidden layers before the LSTM.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.
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
    """Ensemble of Q-functions of one class, trained by one optimiser. The members may share layers.

    Pass the ensemble to an agent like DQN as its Q-function, or to an actor-critic agent in place of its critics. Each
    member is then one critic.

    Args:
        members: Q-functions Q(s, .) that return a `DiscreteActionValue`, or critics Q(s, a).
        bootstrap: True to train each member on its own random subset of each minibatch. In states with few data, the
            members' values then differ.
        pool: Reduction of the members' values to one value, for example to select the greedy action: "mean", or "least"
            for the minimum. Targets always use the minimum.

    Raises:
        ValueError: If `members` is empty, or if `pool` is not "mean" or "least".
    """

    def __init__(self, members: Iterable[nn.Module], bootstrap: bool = False, pool: str = "mean") -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("members is empty, expected at least one Q-function")
        if pool not in ("mean", "least"):
            raise ValueError(f"pool is {pool!r}, expected 'mean' or 'least'")
        self.bootstrap, self.pool = bootstrap, pool

    def forward(self, x: Any) -> EnsembleActionValue:
        """Return the values of all members for B states, or for B pairs (observation, action)."""
        outputs = [fast_forward(member, x) for member in self.members]
        values = [DiscreteActionValue(each) if isinstance(each, Tensor) else each for each in outputs]
        return EnsembleActionValue(values, self.bootstrap, self.pool)


def members_of(q_function: Any) -> Iterable[Any]:
    """Return the members of an ensemble, or a tuple with the Q-function itself if it is no ensemble."""
    return q_function.members if isinstance(q_function, QFunctionEnsemble) else (q_function,)


def members_by_name(q_functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return all Q-functions, keyed by name. Member i of the ensemble "q" or "q1" has the name "q{i}", from 1."""
    named: dict[str, Any] = {}
    for name, q_function in q_functions.items():
        is_single = not isinstance(q_function, QFunctionEnsemble)
        stem = name.rstrip("0123456789")
        named |= {name if is_single else f"{stem}{i}": each for i, each in enumerate(members_of(q_function), 1)}
    return named
