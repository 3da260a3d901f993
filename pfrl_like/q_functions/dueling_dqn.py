"""Dueling networks. They have one stream for the values V(s) and one for the advantages A(s, a)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.action_value import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.initializers import init_chainer_default
from pfrl_like.nn.atari_cnn import Activation, features, large_convolutions
from pfrl_like.nn.atari_cnn import constant_bias_initializer as constant_bias_initializer
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.nn.mlp import MLP
from pfrl_like.q_function import StateQFunction
from pfrl_like.q_functions.state_q_functions import evenly_spaced_atoms
from pfrl_like.utils.contexts import ignores_training


def dueling(value: Tensor, advantage: Tensor, dim: int = 1) -> Tensor:
    """Compute Q = V + A - mean_a A (Wang et al. 2016, arXiv:1511.06581, eq. 9).

    Args:
        value: V(s), [B, 1], or [B, 1, n_atoms] for distributions.
        advantage: A(s, a), [B, n_actions] or [B, n_actions, n_atoms].
        dim: Axis of the actions.

    Returns:
        Q(s, a), same shape as `advantage`.
    """
    return value + advantage - advantage.mean(dim, keepdim=True)


@ignores_training
class DuelingStreams(nn.Module):
    """Last layers of a dueling network: V + A - mean_a A, of any two modules (arXiv:1511.06581, eq. 9).

    Args:
        advantage: Module from features [B, n] to advantages, for example [B, n_actions] or [B, n_actions, n_atoms].
        value: Module from features [B, n] to values, of the same shape, but with 1 in place of `n_actions`.
        dim: Axis of the actions.
    """

    def __init__(self, advantage: nn.Module, value: nn.Module, dim: int = 1) -> None:
        super().__init__()
        self.advantage, self.value, self.dim = advantage, value, dim

    def forward(self, hidden: Tensor) -> Tensor:
        """Return Q-values, or the logits of distributions, of the shape of the advantages."""
        advantage = fast_forward(self.advantage, hidden)
        return dueling(fast_forward(self.value, hidden), advantage, self.dim)


@ignores_training
class DuelingDQN(nn.Module, StateQFunction):
    """Dueling network (Wang et al. 2016, arXiv:1511.06581, section 4.2).

    Args:
        n_actions: Number of actions.
        n_input_channels: Number of frames in the stack.
        activation: Function applied after each convolution.
        bias: Initial value of the convolutions' biases.
    """

    def __init__(
        self, n_actions: int, n_input_channels: int = 4, activation: Activation = F.relu, bias: float = 0.1
    ) -> None:
        super().__init__()
        self.n_actions, self.n_input_channels, self.activation = n_actions, n_input_channels, activation
        self.conv_layers = large_convolutions(n_input_channels, bias)
        self.a_stream = MLP(3136, n_actions, [512])
        self.v_stream = MLP(3136, 1, [512])

    def forward(self, x: Tensor) -> DiscreteActionValue:
        """Return the action values of B states from frames [B, n_input_channels, 84, 84]."""
        hidden = features(self.conv_layers, self.activation, x)
        advantage = self.a_stream(hidden)
        return DiscreteActionValue(dueling(self.v_stream(hidden), advantage))


@ignores_training
class DistributionalDuelingDQN(nn.Module, StateQFunction):
    """Dueling network for return distributions, as in Rainbow (Hessel et al. 2017, arXiv:1710.02298, section 3).

    Args:
        n_actions: Number of actions.
        n_atoms: Number of atoms, at least 2.
        v_min: Return represented by the first atom.
        v_max: Return represented by the last atom.
        n_input_channels: Number of frames in the stack.
        activation: Function applied after each hidden layer.
        bias: Initial value of the convolutions' biases.

    Raises:
        ValueError: If `n_atoms` is below 2, or if `v_min` is not below `v_max`.
    """

    z_values: Tensor

    def __init__(
        self,
        n_actions: int,
        n_atoms: int,
        v_min: float,
        v_max: float,
        n_input_channels: int = 4,
        activation: Activation = torch.relu,
        bias: float = 0.1,
    ) -> None:
        super().__init__()
        self.register_buffer("z_values", evenly_spaced_atoms(n_atoms, v_min, v_max), persistent=False)
        # int, because a compiler would trace NumPy integers
        self.n_actions, self.n_atoms = int(n_actions), int(n_atoms)
        self.n_input_channels, self.activation = n_input_channels, activation
        self.conv_layers = large_convolutions(n_input_channels, bias)
        self.main_stream = init_chainer_default(nn.Linear(3136, 1024))
        self.a_stream = init_chainer_default(nn.Linear(512, n_actions * n_atoms))
        self.v_stream = init_chainer_default(nn.Linear(512, n_atoms))

    def forward(self, x: Any) -> DistributionalDiscreteActionValue:
        """Return the return distributions of B states from frames [B, n_input_channels, 84, 84]."""
        hidden = self.activation(fast_forward(self.main_stream, features(self.conv_layers, self.activation, x)))
        for_advantage, for_value = hidden.chunk(2, dim=1)
        advantage = fast_forward(self.a_stream, for_advantage).unflatten(1, (self.n_actions, self.n_atoms))
        logits = dueling(fast_forward(self.v_stream, for_value).unsqueeze(1), advantage)
        return DistributionalDiscreteActionValue(logits.softmax(2), self.z_values)
