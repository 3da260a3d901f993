"""The convolutional networks of the DQN papers, for stacks of 84x84 frames."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import relu

from pfrl_like.initializers import init_chainer_default
from pfrl_like.utils.contexts import ignores_training

Activation = Callable[[Tensor], Tensor]
Layer = nn.Conv2d | nn.Linear


def constant_bias_initializer(bias: float = 0.0) -> Callable[[nn.Module], None]:
    """Return a function for `nn.Module.apply` that sets the bias of linear layers and 2D convolutions to a constant.

    Args:
        bias: The constant.
    """

    def init_bias(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.constant_(module.bias, bias)

    return init_bias


def large_convolutions(n_input_channels: int, bias: float) -> nn.ModuleList:
    """Return the three convolutions of the 2015 network, [B, n_input_channels, 84, 84] to [B, 64, 7, 7]."""
    layers = nn.Conv2d(n_input_channels, 32, 8, stride=4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3)
    return nn.ModuleList(_initialized(layer, bias) for layer in layers)


def features(convolutions: nn.ModuleList, activation: Activation, frames: Tensor) -> Tensor:
    """Apply convolutions, each followed by the activation, and return the flattened output, [B, n]."""
    for layer in convolutions:
        frames = activation(layer(frames))
    return frames.flatten(1)


@ignores_training
class _AtariCNN(nn.Module):
    """Convolutions and a linear layer, each followed by the activation."""

    def __init__(
        self, layers: nn.ModuleList, n_features: int, n_output_channels: int, activation: Activation, bias: float
    ) -> None:
        super().__init__()
        self.n_input_channels = layers[0].in_channels
        self.n_output_channels, self.activation, self.layers = n_output_channels, activation, layers
        self.output = _initialized(nn.Linear(n_features, n_output_channels), bias)

    def forward(self, state: Tensor) -> Tensor:
        """Map frames [B, n_input_channels, 84, 84] to features [B, n_output_channels]."""
        return self.activation(self.output(features(self.layers, self.activation, state)))


class SmallAtariCNN(_AtariCNN):
    """Two convolutions and a linear layer (Mnih et al. 2013, arXiv:1312.5602, section 4.1).

    Args:
        n_input_channels: Number of frames in the stack.
        n_output_channels: Number of features.
        activation: Function applied after each layer, including the last layer.
        bias: Initial value of the biases.
    """

    def __init__(
        self, n_input_channels: int = 4, n_output_channels: int = 256, activation: Activation = relu, bias: float = 0.1
    ) -> None:
        layers = nn.Conv2d(n_input_channels, 16, 8, stride=4), nn.Conv2d(16, 32, 4, 2)
        convolutions = nn.ModuleList(_initialized(layer, bias) for layer in layers)
        super().__init__(convolutions, 2592, n_output_channels, activation, bias)


class LargeAtariCNN(_AtariCNN):
    """Three convolutions and a linear layer (Mnih et al. 2015, doi:10.1038/nature14236, Methods).

    Args:
        n_input_channels: Number of frames in the stack.
        n_output_channels: Number of features.
        activation: Function applied after each layer, including the last layer.
        bias: Initial value of the biases.
    """

    def __init__(
        self, n_input_channels: int = 4, n_output_channels: int = 512, activation: Activation = relu, bias: float = 0.1
    ) -> None:
        super().__init__(large_convolutions(n_input_channels, bias), 3136, n_output_channels, activation, bias)


def _initialized(layer: Layer, bias: float) -> Layer:
    init_chainer_default(layer)
    constant_bias_initializer(bias)(layer)
    return layer
