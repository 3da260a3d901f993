"""Policies: networks from observations to distributions of actions in [-1, 1], or of discrete actions."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.d3rlpy.models.encoders import EncoderFactory
from pfrl_like.d3rlpy.models.heads import Head, LatentDecoder, LatentEncoder, LinearHead, encoder_and_size
from pfrl_like.distributions import Categorical, ClippedGaussian, DeltaVector, SquashedGaussian
from pfrl_like.nn import ConditionalVAE
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class DeterministicPolicy(LinearHead):
    """Deterministic policy with actions tanh(mu). The arguments are those of `LinearHead`."""

    def forward(self, x: Any) -> DeltaVector:
        """Return distributions without variance, of batch shape [B] and event shape [n_outputs]."""
        return DeltaVector(self.outputs(x).tanh())


@ignores_training
class CategoricalPolicy(LinearHead):
    """Policy of discrete actions. The arguments are those of `LinearHead`."""

    def forward(self, x: Any) -> Categorical:
        """Return distributions of batch shape [B]."""
        return Categorical(self.outputs(x).log_softmax(-1))  # `scores` are the log-probabilities


@ignores_training
class GaussianPolicy(Head):
    """Policy of actions tanh(x) for a Gaussian x, or of clipped Gaussian actions with the mean tanh(mu).

    Args:
        encoder: Encoder of observations.
        n_features: Number of features of the encoder.
        action_size: Size of an action.
        scaler: Scaler of the observations. If None, they are not scaled.
        squashes_samples: True for the distribution of tanh(x), False for clipped actions with the mean tanh(mu).
        min_logstd: Minimum log deviation.
        max_logstd: Maximum log deviation.
        has_common_std: True if the deviation does not depend on the observation. Its logarithm is then min_logstd +
            (max_logstd - min_logstd) sigmoid(p) for a parameter p. If False, the output of a layer is clamped.
    """

    _logstd: nn.Linear | nn.Parameter

    def __init__(
        self,
        encoder: nn.Module,
        n_features: int,
        action_size: int,
        scaler: Any = None,
        *,
        squashes_samples: bool = True,
        min_logstd: float = -20.0,
        max_logstd: float = 2.0,
        has_common_std: bool = False,
    ) -> None:
        super().__init__(encoder, scaler, takes_action=False)
        self.squashes_samples, self.has_common_std = squashes_samples, has_common_std
        self.min_logstd, self.max_logstd = min_logstd, max_logstd
        self._mu = nn.Linear(n_features, action_size)
        common = nn.Parameter(torch.zeros(1, action_size))
        self._logstd = common if has_common_std else nn.Linear(n_features, action_size)

    def forward(self, x: Any) -> SquashedGaussian | ClippedGaussian:
        """Return distributions of batch shape [B] and event shape [action_size]."""
        features = self.features(x, self._mu.weight.dtype)
        mean, log_std = self._mu(features), self._log_std(features)
        if self.squashes_samples:
            return SquashedGaussian(mean, log_std.exp(), log_std)
        return ClippedGaussian(mean.tanh(), log_std.exp(), log_std)

    def squashed(self) -> "GaussianPolicy":
        """Return the policy of actions tanh(x), with the parameters of this policy."""
        policy = copy.copy(self)
        policy.squashes_samples = True
        return policy

    def _log_std(self, features: Tensor) -> Tensor:
        if isinstance(self._logstd, nn.Linear):
            log_std: Tensor = self._logstd(features)
            return log_std.clamp(self.min_logstd, self.max_logstd)
        log_std = self.min_logstd + (self.max_logstd - self.min_logstd) * self._logstd.sigmoid()
        return log_std.expand(features.shape[0], -1)


def conditional_vae(
    encoder_factory: EncoderFactory, observation_shape: Any, action_size: int, scaler: Any = None
) -> ConditionalVAE:
    """Return a model of recorded actions. Its `encoder` and `decoder` are d3rlpy's `vae_encoder` and `vae_decoder`.

    The latent vector has twice the size of an action.

    Args:
        encoder_factory: Factory of the encoders of both networks.
        observation_shape: Shape of an observation.
        action_size: Size of an action.
        scaler: Scaler of the observations. If None, they are not scaled.
    """
    latent_size = 2 * action_size
    encoder = LatentEncoder(*encoder_and_size(encoder_factory, observation_shape, action_size), latent_size, scaler)
    parts = encoder_and_size(encoder_factory, observation_shape, latent_size)
    return ConditionalVAE(encoder, LatentDecoder(*parts, action_size, scaler, takes_action=True), latent_size)
