"""Networks that end in one or two linear layers: their common base, and the models of values and latent vectors."""

from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.batch import map_nested
from pfrl_like.d3rlpy.models.encoders import EncoderFactory
from pfrl_like.d3rlpy.models.layers import output_size
from pfrl_like.utils.contexts import ignores_training


def encoder_and_size(
    factory: EncoderFactory, observation_shape: Any, action_size: int | None = None
) -> tuple[nn.Module, int]:
    """Return a new encoder and its number of features.

    Args:
        factory: Factory of the encoder.
        observation_shape: Shape of an observation.
        action_size: Size of the vector that the encoder takes beside the observation. If None, it takes none.
    """
    if action_size is None:
        encoder = factory.create(observation_shape)
        return encoder, output_size(encoder, observation_shape)
    encoder = factory.create_with_action(observation_shape, action_size)
    return encoder, output_size(encoder, observation_shape, action_size)


class Head(nn.Module):
    """Base class of networks that have an encoder, whose observations they scale and convert to the layers' dtype.

    Args:
        encoder: Encoder.
        scaler: Scaler of the observations. If None, they are not scaled.
        takes_action: True if the input is a pair (observation, action).
    """

    _encoder: nn.Module

    def __init__(self, encoder: nn.Module, scaler: Any, takes_action: bool) -> None:
        super().__init__()
        self.scaler, self.takes_action = scaler, takes_action
        self._encoder = encoder

    def features(self, x: Any, dtype: torch.dtype) -> Tensor:
        """Return the features, [B, n].

        Args:
            x: Observations, or a pair (observations, actions).
            dtype: Dtype of the layers.
        """
        obs, action = x if self.takes_action else (x, None)
        obs = obs if self.scaler is None else self.scaler.transform(obs)
        obs = map_nested(lambda leaf: leaf.to(dtype), obs)
        features: Tensor = self._encoder(obs) if action is None else self._encoder(obs, action.to(dtype))
        return features


class LinearHead(Head):
    """Base class of networks with an encoder and one linear layer.

    Args:
        encoder: Encoder.
        n_features: Number of features of the encoder.
        n_outputs: Number of outputs of the linear layer.
        scaler: Scaler of the observations. If None, they are not scaled.
        takes_action: True if the input is a pair (observation, action).
    """

    def __init__(
        self, encoder: nn.Module, n_features: int, n_outputs: int, scaler: Any = None, takes_action: bool = False
    ) -> None:
        super().__init__(encoder, scaler, takes_action)
        self._fc = nn.Linear(n_features, n_outputs)

    def outputs(self, x: Any) -> Tensor:
        """Return the outputs of the linear layer, [B, n_outputs]."""
        outputs: Tensor = self._fc(self.features(x, self._fc.weight.dtype))
        return outputs


@ignores_training
class ValueFunction(LinearHead):
    """State value V(s), [B, 1]. The arguments are those of `LinearHead`, with one output."""

    def forward(self, x: Any) -> Tensor:
        """Return the values, [B, 1]."""
        return self.outputs(x)


@ignores_training
class Perturbation(LinearHead):
    """Perturbation of actions, in [-1, 1]. The arguments are those of `LinearHead`, with `takes_action=True`."""

    def forward(self, x: Any) -> Tensor:
        """Return tanh of the outputs for pairs (observation, action), [B, n_outputs]."""
        return self.outputs(x).tanh()


@ignores_training
class LatentDecoder(LinearHead):
    """Decoder of a VAE. The arguments are those of `LinearHead`, with `takes_action=True`.

    The actions have no bounds, as in d3rlpy 2.8, except for the behaviour's actions in the loss of BEAR.
    """

    def forward(self, x: Any) -> Tensor:
        """Return actions for pairs (observation, latent vector), [B, n_outputs]."""
        return self.outputs(x)


@ignores_training
class LatentEncoder(Head):
    """Encoder of a VAE: from pairs (observation, action) to the mean and log deviation of the latent vector.

    Args:
        encoder: Encoder of observations and actions.
        n_features: Number of features of the encoder.
        latent_size: Size of the latent vector.
        scaler: Scaler of the observations. If None, they are not scaled.
    """

    def __init__(self, encoder: nn.Module, n_features: int, latent_size: int, scaler: Any = None) -> None:
        super().__init__(encoder, scaler, takes_action=True)
        self._mu = nn.Linear(n_features, latent_size)
        self._logstd = nn.Linear(n_features, latent_size)

    def forward(self, x: Any) -> Tensor:
        """Return the means and the log deviations, [B, 2 * latent_size]."""
        features = self.features(x, self._mu.weight.dtype)
        return torch.cat((self._mu(features), self._logstd(features)), dim=1)
