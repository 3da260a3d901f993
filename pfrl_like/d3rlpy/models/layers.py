"""Encoder networks: modules from observations, or observations and actions, to features."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.checks import check_choice
from pfrl_like.utils.contexts import evaluating, ignores_training

#: Classes of activations, keyed by their names in configs.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "swish": nn.SiLU, "none": nn.Identity,
}  # fmt: skip


def activation_of(name: str) -> nn.Module:
    """Return the activation for its name in a config.

    Raises:
        ValueError: If the name is unknown. The message names the known activations.
    """
    check_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


def regularized(layers: Sequence[nn.Module], *regularizers: nn.Module | None) -> list[nn.Module]:
    """Return layers followed by those regularisers that are not None."""
    return [*layers, *(each for each in regularizers if each is not None)]


@ignores_training
class VectorEncoder(nn.Module):
    """Encoder of vectors.

    Args:
        layers: Layers from vectors to features. If the encoder takes actions, their input is [observation, action].
        n_actions: Number of discrete actions, which are inputs as one-hot vectors. If None, actions are vectors.
    """

    def __init__(self, layers: Sequence[nn.Module], n_actions: int | None = None) -> None:
        super().__init__()
        self.n_actions = n_actions
        self._layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, action: Tensor | None = None) -> Tensor:
        """Return the features, [B, feature size]."""
        features: Tensor = fast_forward(self._layers, joined(x, action, self.n_actions))
        return features


@ignores_training
class PixelEncoder(nn.Module):
    """Encoder of images.

    Args:
        cnn_layers: Convolutional layers.
        last_layers: Layers after the convolutions. If the encoder takes actions, their input is [outputs of the
            convolutions, action].
        n_actions: Number of discrete actions, which are inputs as one-hot vectors. If None, actions are vectors.
    """

    def __init__(self, cnn_layers: nn.Module, last_layers: Sequence[nn.Module], n_actions: int | None = None) -> None:
        super().__init__()
        self.n_actions = n_actions
        self._cnn_layers = cnn_layers
        self._last_layers = nn.Sequential(*last_layers)

    def forward(self, x: Tensor, action: Tensor | None = None) -> Tensor:
        """Return the features, [B, feature size], of images [B, channels, height, width]."""
        outputs = fast_forward(self._cnn_layers, x).flatten(1)
        features: Tensor = fast_forward(self._last_layers, joined(outputs, action, self.n_actions))
        return features


@ignores_training
class SimBaBlock(nn.Module):
    """Residual block of SimBa: x + linear(relu(linear(norm(x)))) (arXiv:2410.09754).

    Args:
        feature_size: Size of the input and of the output.
        hidden_size: Size of the hidden layer.
    """

    def __init__(self, feature_size: int, hidden_size: int) -> None:
        super().__init__()
        first, second = nn.Linear(feature_size, hidden_size), nn.Linear(hidden_size, feature_size)
        self._layers = nn.Sequential(nn.LayerNorm(feature_size), first, nn.ReLU(), second)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output, with the shape of `x`."""
        out: Tensor = x + fast_forward(self._layers, x)
        return out


def joined(x: Tensor, action: Tensor | None, n_actions: int | None) -> Tensor:
    """Return `x`, [B, n], concatenated with actions, if there are any.

    Args:
        x: Rows, [B, n].
        action: Vectors [B, A], or indices of discrete actions, [B] or [B, 1]. If None, there are no actions.
        n_actions: Number of discrete actions. If None, actions are vectors.
    """
    if action is None:
        return x
    if n_actions is not None:
        action = F.one_hot(action.reshape(-1).long(), n_actions).to(x.dtype)
    return torch.cat((x, action), dim=1)


def output_size(encoder: nn.Module, observation_shape: Any, *action_shape: int) -> int:
    """Return the number of features of an encoder, which may be a module of the user.

    Args:
        encoder: Module that is called with observations, or with observations and actions.
        observation_shape: Shape of an observation, or a sequence of the shapes of the parts of a tuple observation.
        action_shape: Size of an action. If empty, the encoder takes no actions.

    Raises:
        ValueError: If the encoder does not return features [B, n].
    """
    is_tuple = any(isinstance(part, list | tuple) for part in observation_shape)
    obs: Any = [torch.zeros(2, *part) for part in observation_shape] if is_tuple else torch.zeros(2, *observation_shape)
    with torch.no_grad(), evaluating(encoder):
        features = encoder(obs, torch.zeros(2, *action_shape)) if action_shape else encoder(obs)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"{type(encoder).__name__} returns {got} for 2 observations, expected features (2, n)")
    return features.shape[1]
