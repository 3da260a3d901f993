"""Q-functions Q(s, .) that return an `ActionValue`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.action_value import DiscreteActionValue, DistributionalDiscreteActionValue, QuadraticActionValue
from pfrl_like.functions.bound_by_tanh import bound_by_tanh
from pfrl_like.functions.lower_triangular_matrix import lower_triangular_matrix
from pfrl_like.initializers import init_chainer_default
from pfrl_like.nn.fast_forward import FUNCTIONS, fast_forward
from pfrl_like.nn.mlp import MLP
from pfrl_like.q_function import StateQFunction
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.old_names import old_names


def hidden_sizes_of(n_hidden_channels: int, n_hidden_layers: int) -> list[int]:
    """Return a list of the sizes of the hidden layers.

    Raises:
        TypeError: If a number is not an integer.
        ValueError: If `n_hidden_channels` is below 1, or if `n_hidden_layers` is below 0.
    """
    check_counts(n_hidden_channels=n_hidden_channels)
    check_counts(least=0, n_hidden_layers=n_hidden_layers)
    return [n_hidden_channels] * n_hidden_layers


def check_atoms(z_values: Tensor) -> None:
    """Check the support of a categorical distribution, [n_atoms]. Projections need evenly spaced atoms.

    Raises:
        ValueError: If the values are not increasing and evenly spaced.
    """
    if z_values.ndim != 1 or len(z_values) < 2:
        raise ValueError(f"z_values has shape {tuple(z_values.shape)}, expected [n_atoms] with at least 2 atoms")
    even = torch.linspace(float(z_values[0]), float(z_values[-1]), len(z_values), dtype=z_values.dtype)
    width = float(z_values[-1] - z_values[0])
    if not width > 0 or not torch.allclose(z_values.cpu(), even, rtol=0.0, atol=1e-3 * width / (len(z_values) - 1)):
        raise ValueError(f"z_values is {z_values.tolist()!r:.80}, expected increasing, evenly spaced numbers")


def evenly_spaced_atoms(n_atoms: int, v_min: float, v_max: float) -> Tensor:
    """Return evenly spaced values from `v_min` to `v_max`, [n_atoms], float32 (arXiv:1707.06887, section 4.1).

    Raises:
        ValueError: If `n_atoms` is below 2, or if `v_min` is not below `v_max`.
    """
    if n_atoms < 2:
        raise ValueError(f"n_atoms is {n_atoms!r}, expected at least 2")
    if not v_min < v_max:
        raise ValueError(f"v_min is {v_min!r} and v_max is {v_max!r}, expected v_min < v_max")
    return torch.from_numpy(np.linspace(v_min, v_max, n_atoms, dtype=np.float32))


def split_pair(x: Any, a: Any = None) -> tuple[Any, Any]:
    """Return (observations, actions). The arguments are either observations and actions, or one pair of them.

    Raises:
        TypeError: If the actions are missing.
    """
    if a is not None:
        return x, a
    if isinstance(x, tuple) and len(x) == 2:
        return x
    raise TypeError(f"got one {type(x).__name__}, expected an observation and an action, or a pair of them")


def concatenate(x: Any, a: Any = None) -> Tensor:
    """Concatenate observations and actions, [B, n]. The arguments are the same as those of `split_pair`.

    Raises:
        TypeError: If the actions are missing.
    """
    return torch.cat(split_pair(x, a), dim=-1)


@ignores_training
class DiscreteActionValueHead(nn.Module):
    """Last layer of a Q-network. It converts Q-values [B, n_actions] to a `DiscreteActionValue`."""

    def forward(self, q_values: Tensor) -> DiscreteActionValue:
        """Return the values of B states."""
        return DiscreteActionValue(q_values)


FUNCTIONS[DiscreteActionValueHead] = DiscreteActionValue


@ignores_training
class SingleModelStateQFunctionWithDiscreteAction(nn.Module, StateQFunction):
    """Q-function for discrete actions that wraps any model.

    Args:
        model: Module from observations [B, ...] to Q-values [B, n_actions].
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> DiscreteActionValue:
        """Return the values of B states."""
        return DiscreteActionValue(fast_forward(self.model, x))


class FCStateQFunctionWithDiscreteAction(SingleModelStateQFunctionWithDiscreteAction):
    """Fully connected Q-function for discrete actions.

    Args:
        ndim_obs: Size of an observation.
        n_actions: Number of actions.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers.
        nonlinearity: Function applied after each hidden layer.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.
    """

    def __init__(
        self,
        ndim_obs: int,
        n_actions: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Callable[[Tensor], Tensor] = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        super().__init__(MLP(ndim_obs, n_actions, [n_hidden_channels] * n_hidden_layers, nonlinearity, last_wscale))


@ignores_training
class DistributionalSingleModelStateQFunctionWithDiscreteAction(nn.Module, StateQFunction):
    """Distributional Q-function for discrete actions that wraps any model.

    Args:
        model: Module from observations [B, ...] to probabilities [B, n_actions, n_atoms].
        z_values: Returns represented by the atoms, [n_atoms], increasing and evenly spaced. If the argument is not a
            floating-point tensor, it is converted to a tensor of PyTorch's default dtype.
    """

    z_values: Tensor

    def __init__(self, model: nn.Module, z_values: Any) -> None:
        super().__init__()
        self.model = model
        is_float = isinstance(z_values, Tensor) and z_values.is_floating_point()
        dtype = None if is_float else torch.get_default_dtype()
        self.register_buffer("z_values", torch.as_tensor(z_values, dtype=dtype))
        check_atoms(self.z_values)

    def forward(self, x: Any) -> DistributionalDiscreteActionValue:
        """Return the return distributions of B states."""
        return DistributionalDiscreteActionValue(fast_forward(self.model, x), self.z_values)


class DistributionalFCStateQFunctionWithDiscreteAction(DistributionalSingleModelStateQFunctionWithDiscreteAction):
    """Fully connected distributional Q-function for discrete actions.

    Args:
        ndim_obs: Size of an observation.
        n_actions: Number of actions.
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

    def __init__(
        self,
        ndim_obs: int,
        n_actions: int,
        n_atoms: int,
        v_min: float,
        v_max: float,
        n_hidden_channels: int,
        n_hidden_layers: int,
        nonlinearity: Callable[[Tensor], Tensor] = F.relu,
        last_wscale: float = 1.0,
    ) -> None:
        z_values = evenly_spaced_atoms(n_atoms, v_min, v_max)
        hidden_sizes = [n_hidden_channels] * n_hidden_layers
        mlp = MLP(ndim_obs, n_actions * n_atoms, hidden_sizes, nonlinearity, last_wscale)
        unflatten = nn.Unflatten(1, (int(n_actions), int(n_atoms)))
        super().__init__(nn.Sequential(mlp, unflatten, nn.Softmax(dim=2)), z_values)


@ignores_training
class FCQuadraticStateQFunction(nn.Module, StateQFunction):
    """Fully connected Q-function, quadratic in continuous actions (NAF, Gu et al. 2016, arXiv:1603.00748).

    Args:
        n_input_channels: Size of an observation.
        n_dim_action: Size of an action.
        n_hidden_channels: Size of each hidden layer.
        n_hidden_layers: Number of hidden layers, at least 1.
        action_space: Box with the bounds of actions, `low` and `high`.
        scale_mu: True to bound mu(s), the action with the maximum value, with tanh. If False, mu(s) is not bounded, but
            the greedy action is clipped to the bounds.

    Raises:
        ValueError: If `n_hidden_layers` is below 1, if `scale_mu` is True and a bound is infinite, or if the bounds do
            not have the size `n_dim_action`.
        TypeError: If `action_space` is not a Box.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self,
        n_input_channels: int,
        n_dim_action: int,
        n_hidden_channels: int,
        n_hidden_layers: int,
        action_space: Any,
        scale_mu: bool = True,
    ) -> None:
        super().__init__()
        if n_hidden_layers < 1:
            raise ValueError(f"n_hidden_layers is {n_hidden_layers!r}, expected at least 1")
        if not (hasattr(action_space, "low") and hasattr(action_space, "high")):
            raise TypeError(f"action_space is {action_space!r}, expected a Box")
        self.n_input_channels, self.n_dim_action = n_input_channels, n_dim_action
        self.n_hidden_channels, self.n_hidden_layers = n_hidden_channels, n_hidden_layers
        self.action_space, self.scale_mu = action_space, scale_mu
        for name in ("low", "high"):
            bound = torch.as_tensor(getattr(action_space, name), dtype=torch.float32)
            if bound.shape != (n_dim_action,):
                shape = tuple(bound.shape)
                raise ValueError(f"n_dim_action is {n_dim_action}, but action_space.{name} has shape {shape}")
            if scale_mu and not bound.isfinite().all():
                raise ValueError(f"action_space.{name} is {bound.tolist()}, expected finite bounds for scale_mu=True")
            self.register_buffer(name, bound, persistent=False)

        sizes = [n_input_channels] + [n_hidden_channels] * n_hidden_layers
        self.hidden_layers = nn.ModuleList(_linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False))
        self.v = _linear(n_hidden_channels, 1)
        self.mu = _linear(n_hidden_channels, n_dim_action)
        self.mat_diag = _linear(n_hidden_channels, n_dim_action)
        if n_dim_action > 1:
            self.mat_non_diag = _linear(n_hidden_channels, n_dim_action * (n_dim_action - 1) // 2)

    def forward(self, state: Tensor) -> QuadraticActionValue:
        """Return the action values of B states from observations [B, n_input_channels]."""
        x = state
        for layer in self.hidden_layers:
            x = F.relu(layer(x))
        mu = self.mu(x)
        if self.scale_mu:
            mu = bound_by_tanh(mu, self.low, self.high)
        diag = torch.exp(self.mat_diag(x))
        if self.n_dim_action > 1:
            root = lower_triangular_matrix(diag, self.mat_non_diag(x))
            mat = root @ root.mT
        else:
            mat = diag.square().unsqueeze(2)
        return QuadraticActionValue(mu, mat, self.v(x), self.low, self.high)


def _linear(in_size: int, out_size: int) -> nn.Linear:
    return init_chainer_default(nn.Linear(in_size, out_size))


__getattr__ = old_names(__name__)
