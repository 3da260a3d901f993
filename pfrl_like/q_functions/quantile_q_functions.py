"""Quantile Q-functions Q(s, .) at fractions that are evenly spaced (QR-DQN), sampled (IQN) or learnt (FQF)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.action_value import (
    FullyParametrizedActionValue,
    ImplicitQuantileActionValue,
    QuantileDiscreteActionValue,
    QuantileThresholds,
)
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.nn.mlp import MLP
from pfrl_like.q_function import StateQFunction
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.recurrent import Recurrent, layer_outputs, unwrap_packed_sequences_recursive


def cosine_basis_functions(x: Tensor, n_basis_functions: int = 64) -> Tensor:
    """Embed fractions: cos(pi i x) for i = 1 to n (arXiv:1806.06923, eq. 4).

    In the paper i begins at 0, so that the first function is constant. Here i begins at 1, as in PFRL.

    Args:
        x: Fractions in [0, 1], any shape.
        n_basis_functions: Number of functions n.

    Returns:
        [..., n].
    """
    return torch.cos(x.unsqueeze(-1) * _frequencies(n_basis_functions, x.device))


def _frequencies(n: int, device: torch.device | None = None) -> Tensor:
    return torch.arange(1, n + 1, dtype=torch.float32, device=device) * math.pi


@ignores_training
class CosineBasisLinear(nn.Module):
    """Linear layer whose input is `cosine_basis_functions` of fractions.

    Args:
        n_basis_functions: Number of functions.
        out_size: Size of the output.
    """

    frequencies: Tensor

    def __init__(self, n_basis_functions: int, out_size: int) -> None:
        super().__init__()
        self.n_basis_functions, self.out_size = n_basis_functions, out_size
        self.linear = nn.Linear(n_basis_functions, out_size)
        self.register_buffer("frequencies", _frequencies(n_basis_functions), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map fractions of any shape to [..., out_size]."""
        out: Tensor = fast_forward(self.linear, torch.cos(x.unsqueeze(-1) * self.frequencies))
        return out


class _Quantiles(nn.Module):
    """Quantile function f(psi(s) * phi(tau)), where `psi`, `phi` and `f` are networks."""

    def __init__(self, psi: nn.Module, phi: nn.Module, f: nn.Module) -> None:
        super().__init__()
        self.psi, self.phi, self.f = psi, phi, f

    def quantiles(self, features: Tensor, taus: Tensor) -> Tensor:
        """Return quantiles of all actions, [B, n, n_actions], from features psi(s), [B, hidden], and fractions, [B, n].

        Raises:
            ValueError: If the shape of the output of `phi` is not [B, n, hidden].
        """
        embedding = fast_forward(self.phi, taus)
        expected = (*taus.shape, features.shape[1])
        if embedding.shape != expected:
            hint = f"expected {expected}, because psi returns features {tuple(features.shape)}"
            raise ValueError(f"phi returns {tuple(embedding.shape)} for fractions {tuple(taus.shape)}, {hint}")
        rows: Tensor = fast_forward(self.f, (features.unsqueeze(1) * embedding).flatten(0, 1))
        return rows.view(*taus.shape, -1)


@ignores_training
class ImplicitQuantileQFunction(_Quantiles, StateQFunction):
    """Implicit quantile Q-function, f(psi(s) * phi(tau)) (arXiv:1806.06923, section 3).

    Args:
        psi: Module from observations [B, ...] to features [B, hidden].
        phi: Module from fractions [B, n] to their embedding [B, n, hidden], for example `CosineBasisLinear` followed by
            a ReLU.
        f: Module from [B * n, hidden] to quantiles [B * n, n_actions].
        quantile_thresholds_N: Number of fractions sampled for the predictions in a loss.
        quantile_thresholds_N_prime: Number of fractions sampled for the targets in a loss.
        quantile_thresholds_K: Number of fractions sampled to select a greedy action.

    Raises:
        ValueError: If a number of fractions is below 1.
    """

    def __init__(
        self,
        psi: nn.Module,
        phi: nn.Module,
        f: nn.Module,
        *,
        quantile_thresholds_N: int = 64,
        quantile_thresholds_N_prime: int = 64,
        quantile_thresholds_K: int = 32,
    ) -> None:
        super().__init__(psi, phi, f)
        self.set_thresholds(N=quantile_thresholds_N, N_prime=quantile_thresholds_N_prime, K=quantile_thresholds_K)

    def set_thresholds(self, **counts: int) -> None:
        """Set numbers of sampled fractions. The keywords are `N`, `N_prime` and `K` (see the constructor's arguments).

        Raises:
            ValueError: If a number is below 1.
            TypeError: If a number is not an integer.
        """
        named: dict[str, Any] = {f"quantile_thresholds_{name}": count for name, count in counts.items()}
        check_counts(**named)
        self.thresholds = getattr(self, "thresholds", QuantileThresholds())._replace(**counts)

    def forward(self, x: Any) -> ImplicitQuantileActionValue:
        """Return the quantile functions of B states."""
        return self._value(fast_forward(self.psi, x))

    def _value(self, features: Tensor) -> ImplicitQuantileActionValue:
        return ImplicitQuantileActionValue(features, self.quantiles, self.thresholds)


@ignores_training
class RecurrentImplicitQuantileQFunction(Recurrent, ImplicitQuantileQFunction):
    """`ImplicitQuantileQFunction` whose `psi` is recurrent.

    Args:
        psi: A `pfrl_like.nn.Recurrent` or one of PyTorch's recurrent layers, from observations to features.
        phi: Module from fractions [B, n] to their embedding [B, n, hidden], for example `CosineBasisLinear` followed by
            a ReLU.
        f: Module from [B * n, hidden] to quantiles [B * n, n_actions].
        quantile_thresholds_N: Number of fractions sampled for the predictions in a loss.
        quantile_thresholds_N_prime: Number of fractions sampled for the targets in a loss.
        quantile_thresholds_K: Number of fractions sampled to select a greedy action.
    """

    def forward(self, x: Any, recurrent_state: Any) -> tuple[ImplicitQuantileActionValue, Any]:  # type: ignore[override]
        """Return the quantile functions of all steps, sorted by time, and the state of `psi` after the last step."""
        features, recurrent_state = self.psi(x, recurrent_state)
        return self._value(unwrap_packed_sequences_recursive(features)), recurrent_state

    def outputs(self, x: Any, recurrent_state: Any) -> ImplicitQuantileActionValue:
        """Return the quantile functions of all steps, sorted by time, without the state of `psi`."""
        return self._value(unwrap_packed_sequences_recursive(layer_outputs(self.psi, x, recurrent_state)))


@ignores_training
class FullyParametrizedQFunction(_Quantiles, StateQFunction):
    """Quantile Q-function that also proposes the fractions (arXiv:1911.02140, section 3).

    The loss is the sum of two losses. The quantile loss trains `psi`, `phi` and `f`. The fraction loss trains only
    `proposal`. One optimiser is enough: `fqf_parameter_groups` returns parameter groups with a separate learning rate
    for `proposal`.

    Args:
        psi: Module from observations [B, ...] to features [B, hidden].
        phi: Module from fractions [B, n] to their embedding [B, n, hidden], for example `CosineBasisLinear` followed by
            a ReLU.
        f: Module from [B * n, hidden] to quantiles [B * n, n_actions].
        proposal: Module from features [B, hidden] to logits [B, n_fractions]. Their softmax is the probability of each
            interval between two fractions.
        entropy_coeff: Weight of the entropy term in the loss, at least 0. The entropy is that of these probabilities.

    Raises:
        ValueError: If `entropy_coeff` is negative.
    """

    def __init__(
        self, psi: nn.Module, phi: nn.Module, f: nn.Module, proposal: nn.Module, entropy_coeff: float = 0.0
    ) -> None:
        if not 0 <= entropy_coeff < math.inf:
            raise ValueError(f"entropy_coeff is {entropy_coeff!r}, expected a finite number of at least 0")
        super().__init__(psi, phi, f)
        self.proposal, self.entropy_coeff = proposal, entropy_coeff

    def forward(self, x: Any) -> FullyParametrizedActionValue:
        """Return the quantiles of B states at the fractions that the network proposes."""
        features = fast_forward(self.psi, x)
        masses = fast_forward(self.proposal, features.detach()).softmax(1)
        return FullyParametrizedActionValue(features, self.quantiles, masses, self.entropy_coeff)


def fqf_parameter_groups(q_function: nn.Module, **options: Any) -> list[dict[str, Any]]:
    """Return parameter groups for an optimiser, with separate options for the fraction proposal network.

    For example `Adam(fqf_parameter_groups(q_function, lr=2.5e-9), lr=5e-5)`. The paper uses such a small learning rate,
    because steps of RMSprop and Adam do not become smaller if the gradient becomes smaller.

    Args:
        q_function: A `FullyParametrizedQFunction`, or a network that contains a `FullyParametrizedQFunction`.
        options: Options of the optimiser for the fraction proposal network.

    Returns:
        Two parameter groups: all other parameters, and the parameters of the fraction proposal network.

    Raises:
        ValueError: If `q_function` contains no `FullyParametrizedQFunction`.
    """
    proposals = [part.proposal for part in q_function.modules() if isinstance(part, FullyParametrizedQFunction)]
    if not proposals:
        kind = type(q_function).__name__
        raise ValueError(f"q_function is {kind}, expected a module that contains a FullyParametrizedQFunction")
    proposal_params = {param: None for proposal in proposals for param in proposal.parameters()}
    others = [param for param in q_function.parameters() if param not in proposal_params]
    return [{"params": others}, {"params": list(proposal_params), **options}]


@ignores_training
class QuantileSingleModelStateQFunctionWithDiscreteAction(nn.Module, StateQFunction):
    """Quantile Q-function for discrete actions that wraps any model.

    Args:
        model: Module from observations [B, ...] to quantiles [B, n_quantiles, n_actions], at (i + 0.5) / n_quantiles.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> QuantileDiscreteActionValue:
        """Return the quantiles of B states."""
        return QuantileDiscreteActionValue(fast_forward(self.model, x))


class QuantileFCStateQFunctionWithDiscreteAction(QuantileSingleModelStateQFunctionWithDiscreteAction):
    """Fully connected quantile Q-function for discrete actions.

    Args:
        ndim_obs: Size of an observation.
        n_actions: Number of actions.
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
        mlp = MLP(ndim_obs, n_actions * n_quantiles, hidden_sizes, nonlinearity, last_wscale)
        super().__init__(nn.Sequential(mlp, nn.Unflatten(1, (int(n_quantiles), int(n_actions)))))
