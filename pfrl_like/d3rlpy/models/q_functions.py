"""Q-functions, and the factories that build them."""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.action_value import (
    DiscreteActionValue,
    ImplicitQuantileActionValue,
    QuantileDiscreteActionValue,
    QuantileThresholds,
)
from pfrl_like.d3rlpy.models.encoders import EncoderFactory
from pfrl_like.d3rlpy.models.heads import LinearHead, encoder_and_size
from pfrl_like.d3rlpy.serializable import Config
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class MeanQFunction(LinearHead):
    """Expected return. The arguments are those of `LinearHead`: one output per discrete action, or one of a pair."""

    def forward(self, x: Any) -> Any:
        """Return the `DiscreteActionValue` of B states, or the values [B, 1] of B pairs (observation, action)."""
        values = self.outputs(x)
        return values if self.takes_action else DiscreteActionValue(values)


@ignores_training
class QuantileQFunction(LinearHead):
    """Quantiles of the return at the fractions (2 i + 1) / 2n (arXiv:1710.10044).

    The arguments are those of `LinearHead`. The outputs are n quantiles of the first action, n of the second, and so
    on. A pair (observation, action) has one action.

    Attributes:
        n_quantiles: Number of quantiles, n.
    """

    n_quantiles: int

    def forward(self, x: Any) -> QuantileDiscreteActionValue:
        """Return the quantiles of B states, or of B pairs (observation, action)."""
        outputs = self.outputs(x)
        value = QuantileDiscreteActionValue(outputs.view(outputs.shape[0], -1, self.n_quantiles).transpose(1, 2))
        value.averages = True
        return value


class ImplicitQuantileQFunction(LinearHead):
    """Quantiles of the return at sampled fractions (arXiv:1806.06923).

    In evaluation mode, means are computed from fractions that are evenly spaced from 0 to 1, both included.

    Args:
        encoder: Encoder.
        n_features: Number of features of the encoder.
        n_outputs: Number of discrete actions, or 1 for pairs (observation, action).
        factory: Factory with the numbers of fractions and the size of the embedding.
        takes_action: True if the input is a pair (observation, action).
    """

    def __init__(
        self, encoder: nn.Module, n_features: int, n_outputs: int, factory: "IQNQFunctionFactory", takes_action: bool
    ) -> None:
        super().__init__(encoder, n_features, n_outputs, takes_action=takes_action)
        n = factory.n_quantiles
        self.thresholds = QuantileThresholds(N=n, N_prime=n, K=n)
        self.n_greedy_quantiles = factory.n_greedy_quantiles
        self._embed = nn.Linear(factory.embed_size, n_features)

    def forward(self, x: Any) -> ImplicitQuantileActionValue | QuantileDiscreteActionValue:
        """Return the quantile functions of B states, or the quantiles of B pairs at one set of fractions."""
        features, taus = self.features(x, self._fc.weight.dtype), None
        if not self.training:
            taus = torch.linspace(0, 1, self.n_greedy_quantiles, dtype=features.dtype, device=features.device)
            taus = taus.expand(features.shape[0], -1)
        value = ImplicitQuantileActionValue(features, self.quantiles, self.thresholds, taus=taus)
        value.averages = True
        return value

    def quantiles(self, features: Tensor, taus: Tensor) -> Tensor:
        """Return quantiles, [B, n, n_outputs], from features [B, n_features] and fractions [B, n]."""
        frequencies = math.pi * torch.arange(1, self._embed.in_features + 1, dtype=taus.dtype, device=taus.device)
        embedded = self._embed(torch.cos(taus.unsqueeze(2) * frequencies)).relu()
        quantiles: Tensor = self._fc(features.unsqueeze(1) * embedded)
        return quantiles


@dataclasses.dataclass
class QFunctionFactory(Config, family=True):
    """Base class of factories of Q-functions.

    Args:
        share_encoder: True if all critics share one encoder. Its gradient is the mean over the critics.
    """

    share_encoder: bool = False

    def create_discrete(self, encoder: nn.Module, hidden_size: int, action_size: int) -> LinearHead:
        """Return a Q-function of observations with one value per discrete action.

        Args:
            encoder: Encoder of observations.
            hidden_size: Number of features of the encoder.
            action_size: Number of discrete actions.
        """
        return self._build(encoder, hidden_size, action_size, False)

    def create_continuous(self, encoder: nn.Module, hidden_size: int) -> LinearHead:
        """Return a Q-function of pairs (observation, action).

        Args:
            encoder: Encoder of observations and actions.
            hidden_size: Number of features of the encoder.
        """
        return self._build(encoder, hidden_size, 1, True)

    def _build(self, encoder: nn.Module, n_features: int, n_actions: int, takes_action: bool) -> LinearHead:
        raise NotImplementedError(f"{type(self).__name__} does not define create_discrete and create_continuous")


@dataclasses.dataclass
class MeanQFunctionFactory(QFunctionFactory, type_name="mean"):
    """Factory of Q-functions that predict the expected return.

    Args:
        share_encoder: True if all critics share one encoder. Its gradient is the mean over the critics.
    """

    def _build(self, encoder: nn.Module, n_features: int, n_actions: int, takes_action: bool) -> LinearHead:
        return MeanQFunction(encoder, n_features, n_actions, takes_action=takes_action)


@dataclasses.dataclass
class QRQFunctionFactory(QFunctionFactory, type_name="qr"):
    """Factory of Q-functions that predict quantiles of the return (arXiv:1710.10044).

    Args:
        share_encoder: True if all critics share one encoder. Its gradient is the mean over the critics.
        n_quantiles: Number of quantiles.
    """

    n_quantiles: int = 32

    def _build(self, encoder: nn.Module, n_features: int, n_actions: int, takes_action: bool) -> LinearHead:
        q_function = QuantileQFunction(encoder, n_features, n_actions * self.n_quantiles, takes_action=takes_action)
        q_function.n_quantiles = self.n_quantiles
        return q_function


@dataclasses.dataclass
class IQNQFunctionFactory(QFunctionFactory, type_name="iqn"):
    """Factory of Q-functions that predict quantiles of the return at sampled fractions (arXiv:1806.06923).

    Args:
        share_encoder: True if all critics share one encoder. Its gradient is the mean over the critics.
        n_quantiles: Number of sampled fractions in a loss, of predictions and of targets.
        n_greedy_quantiles: Number of evenly spaced fractions in evaluation mode.
        embed_size: Number of cosines that embed a fraction.
    """

    n_quantiles: int = 64
    n_greedy_quantiles: int = 32
    embed_size: int = 64

    def _build(self, encoder: nn.Module, n_features: int, n_actions: int, takes_action: bool) -> LinearHead:
        return ImplicitQuantileQFunction(encoder, n_features, n_actions, self, takes_action)


def critics(
    q_func_factory: QFunctionFactory,
    encoder_factory: EncoderFactory,
    observation_shape: Any,
    action_size: int,
    *,
    discrete: bool,
    n_critics: int = 1,
    scaler: Any = None,
) -> QFunctionEnsemble:
    """Return an ensemble of Q-functions. The state dict of its `members` is d3rlpy's `q_funcs`.

    Args:
        q_func_factory: Factory of the Q-functions.
        encoder_factory: Factory of their encoders.
        observation_shape: Shape of an observation.
        action_size: Number of discrete actions, or size of an action vector.
        discrete: True for Q-functions of observations, False for Q-functions of pairs (observation, action).
        n_critics: Number of Q-functions.
        scaler: Scaler of the observations. If None, they are not scaled.
    """
    size = None if discrete else action_size
    shared = encoder_and_size(encoder_factory, observation_shape, size) if q_func_factory.share_encoder else None
    if shared:
        for parameter in shared[0].parameters():
            parameter.register_hook(lambda gradient: gradient / n_critics)  # type: ignore[no-untyped-call]
    members = []
    for _ in range(n_critics):
        parts = shared or encoder_and_size(encoder_factory, observation_shape, size)
        make = q_func_factory.create_discrete if discrete else q_func_factory.create_continuous
        member = make(*parts, *([action_size] if discrete else []))
        member.scaler = scaler
        members.append(member)
    return QFunctionEnsemble(members, pool="mean")
