"""Networks as compositions: first layers for each kind of observation, hidden layers, policies and critics."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.env_values import space_kind
from pfrl_like.zoo.composition import parts

_own = parts.pfrl_like.nn
#: Names of activations, modules of `torch.nn`.
ACTIVATIONS = ("ReLU", "Tanh", "GELU", "SiLU")
#: Convolutions (channels, kernel size, stride) for images of at least 36 pixels (doi:10.1038/nature14236), and for
#: smaller ones (arXiv:1903.03176).
_LARGE, _SMALL = ((32, 8, 4), (64, 4, 2), (64, 3, 1)), ((16, 3, 1),)


@dataclasses.dataclass(frozen=True)
class Body:
    """Layers from an observation to features.

    Attributes:
        layers: The layers, as compositions.
        size: Number of features.
        is_vector: True if the observations are float vectors, which need no first layers.
        has_images: True if the observations are images, or Dicts with images.
    """

    layers: tuple[Any, ...]
    size: int
    is_vector: bool = False
    has_images: bool = False


def first_layers(space: Any, embedding_size: int = 64) -> Body:
    """Return the layers that make one float vector of an observation.

    Args:
        space: Observation space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of these.
        embedding_size: Number of features of a Discrete observation.

    Raises:
        ValueError: If there are no layers for the space.
    """
    kind = space_kind(space)
    if kind == "dict":
        bodies = {key: first_layers(part, embedding_size) for key, part in space.spaces.items()}
        encoders = {key: in_sequence(body.layers) for key, body in bodies.items()}
        size, has_images = sum(body.size for body in bodies.values()), any(body.has_images for body in bodies.values())
        return Body((_own.DictEncoder(encoders),), size, has_images=has_images)
    if kind == "discrete" and getattr(space, "start", None):
        raise ValueError(
            f"the observation space is {space}, expected a start of 0: subtract {space.start} in a wrapper"
        )
    if kind == "discrete":
        return Body((parts.nn.Embedding(int(space.n), embedding_size),), embedding_size)
    if kind in ("multi_discrete", "multi_binary") and len(space.shape) == 1:
        return Body((_own.ToFloat(),), space.shape[0])
    if kind != "box" or not space.shape:
        raise ValueError(
            f"the observation space is {space}, expected a Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of "
            "them: a wrapper of the environment can return one of these"
        )
    if len(space.shape) == 3 and min(space.shape[:2] if _is_channels_last(space) else space.shape[1:]) >= 3:
        return _convolutions(space)
    cast = () if space.dtype == np.float32 else (_own.ToFloat(),)
    flat = () if len(space.shape) == 1 else (parts.nn.Flatten(),)
    return Body((*cast, *flat), math.prod(space.shape), is_vector=not cast and not flat)


def _is_channels_last(space: Any) -> bool:
    """True if the last axis of images is shorter than the first one."""
    return bool(space.shape[-1] < space.shape[0])


def _convolutions(space: Any) -> Body:
    channels_last = _is_channels_last(space)
    *sides, channels = space.shape if channels_last else (*space.shape[1:], space.shape[0])
    divisor = 255 if np.min(space.low) == 0 and 1 < np.max(space.high) <= 255 else 1
    layers = [_own.ToFloat(divisor, channels_last=channels_last)]
    for n_out, kernel, stride in _LARGE if min(sides) >= 36 else _SMALL:
        layers += [parts.nn.Conv2d(channels, n_out, kernel, stride), parts.nn.ReLU()]
        channels, sides = n_out, [(side - kernel) // stride + 1 for side in sides]
    return Body((*layers, parts.nn.Flatten()), channels * math.prod(sides), has_images=True)


def says_channels_last(space: Any) -> bool:
    """True if the space, or a part of it, has images whose channels are turned to the front."""
    if space_kind(space) == "dict":
        return any(says_channels_last(part) for part in space.spaces.values())
    return space_kind(space) == "box" and len(space.shape) == 3 and _is_channels_last(space)


@dataclasses.dataclass(frozen=True)
class Layers:
    """Settings of layers, and methods that compose layers.

    Attributes:
        hidden_sizes: Sizes of the hidden layers.
        activation: One of `ACTIVATIONS`.
        layer_norm: True to normalise each hidden layer before its activation (arXiv:1607.06450).
        orthogonal: True for orthogonal initial weights.
        noise: Initial scale of the noise of linear layers (arXiv:1706.10295). None for layers without noise.
        recurrent: True for a GRU in place of the last hidden layer.
        batch_norm: True for batch normalisation of each hidden layer, and of the input of critics (arXiv:1902.05605).
        standardize: Layer that standardises observations. None if observations remain as they are.
    """

    hidden_sizes: Sequence[int]
    activation: str = "ReLU"
    layer_norm: bool = False
    orthogonal: bool = False
    noise: float | None = None
    recurrent: bool = False
    batch_norm: bool = False
    standardize: Any = None

    def __post_init__(self) -> None:
        """Check the settings of the caller.

        Raises:
            TypeError: If `hidden_sizes` is no list of integers.
            ValueError: If a size is not positive, or the activation is unknown.
        """
        if isinstance(self.hidden_sizes, str) or not isinstance(self.hidden_sizes, Sequence):
            raise TypeError(
                f"hidden_sizes is {self.hidden_sizes!r:.80}, expected a list of sizes, for example [64, 64]"
            )
        for size in self.hidden_sizes:
            check_counts(1, hidden_sizes=size)
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r:.80}, expected one of {', '.join(ACTIVATIONS)}")

    def linear(self, n_in: int, n_out: int, gain: float = math.sqrt(2)) -> Any:
        """Return a linear layer. `gain` is the factor of orthogonal initial weights."""
        layer = parts.nn.Linear(n_in, n_out)
        if self.orthogonal:
            return parts.initializers.init_orthogonal(layer, gain)
        return layer if self.noise is None else _own.FactorizedNoisyLinear(layer, self.noise)

    def hidden(self, n_in: int) -> tuple[list[Any], int]:
        """Return the hidden layers and the number of their outputs.

        Raises:
            ValueError: If a recurrent network has no hidden layer.
        """
        if self.recurrent and not self.hidden_sizes:
            raise ValueError("hidden_sizes is empty, expected at least the size of the recurrent layer")
        layers: list[Any] = []
        for n_out in self.hidden_sizes[:-1] if self.recurrent else self.hidden_sizes:
            norm = [parts.nn.LayerNorm(n_out)] if self.layer_norm else []
            norm += [parts.nn.BatchNorm1d(n_out)] if self.batch_norm else []
            layers += [self.linear(n_in, n_out), *norm, getattr(parts.nn, self.activation)()]
            n_in = n_out
        if self.recurrent:
            layers.append(parts.nn.GRU(n_in, self.hidden_sizes[-1]))
            n_in = self.hidden_sizes[-1]
        return layers, n_in

    def sequence(self, layers: Any) -> Any:
        """Return the layers as one module, which is a `RecurrentSequential` if the hidden layers are recurrent."""
        return _own.RecurrentSequential(*layers) if self.recurrent else in_sequence(layers)

    def first(self, space: Any) -> Body:
        """Return the layers that make one float vector of an observation."""
        first = first_layers(space)
        return first if self.standardize is None else Body((*first.layers, self.standardize), first.size)

    def body(self, space: Any) -> Body:
        """Return the first layers and the hidden layers for an observation space."""
        first = self.first(space)
        layers, size = self.hidden(first.size)
        return Body((*first.layers, *layers), size, first.is_vector, first.has_images)

    def critic_body(self, obs_space: Any, action_size: int) -> Body:
        """Return the first layers and the hidden layers for pairs (observation, action)."""
        first = self.first(obs_space)
        encoder = () if first.is_vector else (_own.ObsEncoder(in_sequence(first.layers)),)
        n_in = first.size + action_size
        norm = (parts.nn.BatchNorm1d(n_in),) if self.batch_norm else ()
        layers, size = self.hidden(n_in)
        return Body((*encoder, _own.ConcatObsAndAction(), *norm, *layers), size)

    def critic(self, obs_space: Any, action_size: int, n_out: int = 1) -> Any:
        """Return a network of (observation, action), with `n_out` outputs."""
        body = self.critic_body(obs_space, action_size)
        return self.sequence([*body.layers, self.linear(body.size, n_out, 1.0)])


def in_sequence(layers: Any) -> Any:
    """Return the layers as one module."""
    layers = [*layers] or [parts.nn.Identity()]
    return layers[0] if len(layers) == 1 else parts.nn.Sequential(*layers)
