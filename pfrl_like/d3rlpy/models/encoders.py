"""Factories of encoders. Users may write their own."""

import dataclasses
from typing import Any

import torch
from torch import nn

from pfrl_like.d3rlpy.models.layers import PixelEncoder, SimBaBlock, VectorEncoder, activation_of, regularized
from pfrl_like.d3rlpy.serializable import Config, register
from pfrl_like.d3rlpy.types import Shape
from pfrl_like.utils.checks import check_counts


@dataclasses.dataclass
class EncoderFactory(Config, family=True):
    """Base class of factories of encoders.

    A factory of a user defines `create`, `create_with_action` and the static method `get_type`. The encoders may be any
    modules that return features [B, n].
    """

    def create(self, observation_shape: Shape) -> nn.Module:
        """Return an encoder of observations, called as `encoder(x)`.

        Args:
            observation_shape: Shape of an observation.

        Raises:
            NotImplementedError: If the subclass does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define create(observation_shape)")

    def create_with_action(
        self, observation_shape: Shape, action_size: int, discrete_action: bool = False
    ) -> nn.Module:
        """Return an encoder of observations and actions, called as `encoder(x, action)`.

        Args:
            observation_shape: Shape of an observation.
            action_size: Size of an action, or number of discrete actions.
            discrete_action: True if actions are indices.

        Raises:
            NotImplementedError: If the subclass does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define create_with_action(observation_shape, ...)")


class LayerEncoderFactory(EncoderFactory):
    """Base class of the factories of this library, for which an action is a part of the input of a layer."""

    def create(self, observation_shape: Shape) -> nn.Module:
        return self._build(observation_shape, 0, None)

    def create_with_action(
        self, observation_shape: Shape, action_size: int, discrete_action: bool = False
    ) -> nn.Module:
        return self._build(observation_shape, action_size, action_size if discrete_action else None)

    def _build(self, observation_shape: Any, action_size: int, n_actions: int | None) -> nn.Module:
        """Return an encoder; `n_actions` is None if actions are vectors."""
        raise NotImplementedError(f"{type(self).__name__} does not define _build")


@dataclasses.dataclass
class VectorEncoderFactory(LayerEncoderFactory, type_name="vector"):
    """Factory of fully connected encoders of vectors.

    Args:
        hidden_units: Sizes of the layers. The last size is the number of features.
        activation: Activation after each layer: "relu", "gelu", "tanh", "swish" or "none".
        use_batch_norm: True to apply batch normalisation after each activation.
        use_layer_norm: True to apply layer normalisation after each activation.
        dropout_rate: Probability that a feature is set to 0 in training. If None, there is no dropout layer.
        exclude_last_activation: True to have no activation after the last layer.
        last_activation: Activation after the last layer. If None, it is `activation`.
    """

    hidden_units: list[int] = dataclasses.field(default_factory=lambda: [256, 256])
    activation: str = "relu"
    use_batch_norm: bool = False
    use_layer_norm: bool = False
    dropout_rate: float | None = None
    exclude_last_activation: bool = False
    last_activation: str | None = None

    def _build(self, observation_shape: Any, action_size: int, n_actions: int | None) -> nn.Module:
        sizes = [_vector_size(observation_shape) + action_size, *self.hidden_units]
        last = len(sizes) - 2
        layers: list[nn.Module] = []
        for i, (n_in, n_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            name = self.last_activation if i == last and self.last_activation else self.activation
            layers += regularized(
                [nn.Linear(n_in, n_out)],
                None if i == last and self.exclude_last_activation else activation_of(name),
                nn.BatchNorm1d(n_out) if self.use_batch_norm else None,
                nn.LayerNorm(n_out) if self.use_layer_norm else None,
                None if self.dropout_rate is None else nn.Dropout(self.dropout_rate),
            )
        return VectorEncoder(layers, n_actions)


@dataclasses.dataclass
class PixelEncoderFactory(LayerEncoderFactory, type_name="pixel"):
    """Factory of convolutional encoders of images. The defaults are those of Mnih et al. 2015.

    Args:
        filters: (channels, kernel size, stride) of each convolutional layer.
        feature_size: Size of the linear layer after the convolutions, the number of features.
        activation: Activation after each layer: "relu", "gelu", "tanh", "swish" or "none".
        use_batch_norm: True to apply batch normalisation after each activation.
        dropout_rate: Probability that a channel or feature is set to 0 in training. If None, there is no dropout layer.
        exclude_last_activation: True to have no activation after the last layer.
        last_activation: Activation after the last layer. If None, it is `activation`.
    """

    filters: list[list[int]] = dataclasses.field(default_factory=lambda: [[32, 8, 4], [64, 4, 2], [64, 3, 1]])
    feature_size: int = 512
    activation: str = "relu"
    use_batch_norm: bool = False
    dropout_rate: float | None = None
    exclude_last_activation: bool = False
    last_activation: str | None = None

    def _build(self, observation_shape: Any, action_size: int, n_actions: int | None) -> nn.Module:
        cnn_layers = self._convolutions(observation_shape)
        with torch.no_grad():
            n_outputs = nn.Sequential(*cnn_layers).eval()(torch.zeros(1, *observation_shape)).numel()
        last_layers = regularized(
            [nn.Linear(n_outputs + action_size, self.feature_size)],
            None if self.exclude_last_activation else activation_of(self.last_activation or self.activation),
            nn.BatchNorm1d(self.feature_size) if self.use_batch_norm else None,
            None if self.dropout_rate is None else nn.Dropout(self.dropout_rate),
        )
        return PixelEncoder(nn.Sequential(*cnn_layers).train(), last_layers, n_actions)

    def _convolutions(self, observation_shape: Any) -> list[nn.Module]:
        if len(observation_shape) != 3 or not all(isinstance(side, int) for side in observation_shape):
            raise ValueError(f"observation_shape is {observation_shape}, expected (channels, height, width)")
        layers: list[nn.Module] = []
        channels, sides = observation_shape[0], observation_shape[1:]
        for n_out, kernel, stride in self.filters:
            check_counts(channels=n_out, kernel=kernel, stride=stride)
            sides = [(side - kernel) // stride + 1 for side in sides]
            if min(sides) < 1:
                raise ValueError(f"observation_shape is {observation_shape}, too small for filters {self.filters}")
            layers += regularized(
                [nn.Conv2d(channels, n_out, kernel, stride), activation_of(self.activation)],
                nn.BatchNorm2d(n_out) if self.use_batch_norm else None,
                None if self.dropout_rate is None else nn.Dropout2d(self.dropout_rate),
            )
            channels = n_out
        return layers


@dataclasses.dataclass
class DefaultEncoderFactory(LayerEncoderFactory, type_name="default"):
    """Factory that builds the encoder of `PixelEncoderFactory` for images, of `VectorEncoderFactory` otherwise.

    Args:
        activation: Activation after each layer: "relu", "gelu", "tanh", "swish" or "none".
        use_batch_norm: True to apply batch normalisation after each activation.
        dropout_rate: Probability that a feature is set to 0 in training. If None, there is no dropout layer.
    """

    activation: str = "relu"
    use_batch_norm: bool = False
    dropout_rate: float | None = None

    def _build(self, observation_shape: Any, action_size: int, n_actions: int | None) -> nn.Module:
        factory = PixelEncoderFactory if len(observation_shape) == 3 else VectorEncoderFactory
        chosen = factory(activation=self.activation, use_batch_norm=self.use_batch_norm, dropout_rate=self.dropout_rate)
        return chosen._build(observation_shape, action_size, n_actions)


@dataclasses.dataclass
class SimBaEncoderFactory(LayerEncoderFactory, type_name="simba"):
    """Factory of SimBa encoders of vectors: a linear layer, residual blocks and a normalisation (arXiv:2410.09754).

    Args:
        feature_size: Number of features.
        hidden_size: Size of the hidden layer of a block.
        n_blocks: Number of residual blocks.
    """

    feature_size: int = 256
    hidden_size: int = 1024
    n_blocks: int = 1

    def _build(self, observation_shape: Any, action_size: int, n_actions: int | None) -> nn.Module:
        first = nn.Linear(_vector_size(observation_shape) + action_size, self.feature_size)
        blocks = [SimBaBlock(self.feature_size, self.hidden_size) for _ in range(self.n_blocks)]
        return VectorEncoder([first, *blocks, nn.LayerNorm(self.feature_size)], n_actions)


def register_encoder_factory(cls: type[EncoderFactory]) -> None:
    """Let files name a user's factory of encoders.

    Args:
        cls: Subclass of `EncoderFactory`, a dataclass. Its static method `get_type` returns its name in files.

    Raises:
        TypeError: If `cls` is no subclass of `EncoderFactory`, or has no name.
        ValueError: If another class has this name.
    """
    register(EncoderFactory, cls)


def _vector_size(observation_shape: Any) -> int:
    """Return the size of a vector.

    Raises:
        ValueError: If the shape is not (n,).
    """
    if len(observation_shape) != 1 or not isinstance(observation_shape[0], int):
        advice = "write an EncoderFactory for other observations"
        raise ValueError(f"observation_shape is {observation_shape}, expected (n,) for this encoder; {advice}")
    return observation_shape[0]
