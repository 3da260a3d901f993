"""Encoders: modules that compute features of observations, or of pairs of observation and action."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.preprocessing import Scaler
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training

#: Keys of `encoder_params` for images, with their defaults.
PIXEL_PARAMS: Mapping[str, Any] = {"filters": ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "feature_size": 512}
#: Keys of `encoder_params` for vectors, with their defaults.
VECTOR_PARAMS: Mapping[str, Any] = {"hidden_units": (256, 256)}


@ignores_training
class Encoder(nn.Module):
    """Module from observations, or pairs (observation, action), to features [B, feature_size].

    Args:
        body: Module that takes the observations. If None, `head` takes the observations.
        head: Module that takes the result of `body`, concatenated with the actions if there are actions.
        feature_size: Number of features.
        takes_action: True if the input is a pair (observation, action).
        scaler: Fitted scaler that is applied to the observations first. If None, observations are not scaled.
    """

    def __init__(
        self, body: nn.Module | None, head: nn.Module, feature_size: int, takes_action: bool, scaler: Scaler | None
    ) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.feature_size, self.takes_action = feature_size, takes_action
        self.scaler, self.dtype = scaler, torch.get_default_dtype()

    def forward(self, x: Any) -> Tensor:
        """Return the features, [B, feature_size]; observations are converted to the dtype of the layers."""
        obs, action = x if self.takes_action else (x, None)
        obs = obs if self.scaler is None else self.scaler.transform(obs)
        obs = obs.to(self.dtype)
        features = obs if self.body is None else fast_forward(self.body, obs)
        out: Tensor = fast_forward(self.head, features if action is None else torch.cat((features, action), dim=-1))
        return out


class TupleEncoder(Encoder):
    """Module from observations that are tuples, or pairs (observation, action), to features [B, feature_size].

    Args:
        parts: One encoder for each element of the tuple. The result is their features, one after the other.
    """

    def __init__(self, parts: Sequence[Encoder]) -> None:
        size = sum(part.feature_size for part in parts)
        super().__init__(None, nn.ModuleList(parts), size, parts[0].takes_action, None)

    def forward(self, x: Any) -> Tensor:
        """Return the features, [B, feature_size]."""
        obs, *action = x if self.takes_action else (x,)
        pairs = zip(self.head, obs, strict=True)  # type: ignore[call-overload]  # a list of encoders
        return torch.cat([encoder((part, *action) if action else part) for encoder, part in pairs], dim=-1)


def make_encoder(
    observation_shape: Sequence[Any],
    encoder_params: Mapping[str, Any] | None = None,
    *,
    action_size: int = 0,
    use_batch_norm: bool = False,
    scaler: Scaler | None = None,
) -> Encoder:
    """Make an encoder for vectors, for images, or for tuples of these.

    Args:
        observation_shape: (n,), or (channels, height, width), or a tuple of such shapes. For a tuple, `encoder_params`
            may contain the keys for vectors and the keys for images, and `scaler` must be None.
        encoder_params: Sizes of the layers. The key for vectors is "hidden_units", the sizes of the linear layers. The
            keys for images are "filters", a list of (channels, kernel size, stride) of the convolutions, and
            "feature_size", the size of the linear layer after the convolutions.
        action_size: Size of the action that is concatenated to each vector, or to the outputs of the convolutions. If
            0, the encoder takes no actions.
        use_batch_norm: True to add batch normalisation after each layer.
        scaler: Fitted scaler that is applied to the observations first. If None, observations are not scaled.

    Raises:
        ValueError: If the shape is not (n,) or (channels, height, width), if a key is unknown (the message contains the
            most similar key), if a value is out of range, if images are too small for the convolutions, or if there is
            a scaler for tuples.
        TypeError: If `encoder_params` is not a dict, or if a value has the wrong type.
    """
    shape = tuple(observation_shape)
    if shape and isinstance(shape[0], Sequence):
        return _tuple_encoder(
            shape, encoder_params or {}, scaler, action_size=action_size, use_batch_norm=use_batch_norm
        )
    if len(shape) not in (1, 3):
        raise ValueError(f"observation_shape is {shape}, expected (n,) or (channels, height, width)")
    defaults = VECTOR_PARAMS if len(shape) == 1 else PIXEL_PARAMS
    params = {**defaults, **_checked(encoder_params or {}, defaults, shape)}
    if len(shape) == 1:
        sizes = [shape[0] + action_size, *params["hidden_units"]]
        return Encoder(None, _linear_layers(sizes, use_batch_norm), sizes[-1], bool(action_size), scaler)
    body, size = _convolutions(shape, params["filters"], use_batch_norm)
    head = _linear_layers([size + action_size, params["feature_size"]], use_batch_norm)
    return Encoder(body, head, params["feature_size"], bool(action_size), scaler)


def _tuple_encoder(shapes: Sequence[Any], params: Mapping[str, Any], scaler: Scaler | None, **options: Any) -> Encoder:
    if scaler is not None:
        raise ValueError(f"scaler is {scaler!r:.80}, but observations are tuples of shapes {shapes}: expected None")
    encoders = []
    for shape in shapes:
        others = PIXEL_PARAMS if len(shape) == 1 else VECTOR_PARAMS
        encoders.append(make_encoder(shape, {k: v for k, v in params.items() if k not in others}, **options))
    return TupleEncoder(encoders)


def _checked(params: Any, known: Mapping[str, Any], shape: tuple[int, ...]) -> Mapping[str, Any]:
    if not isinstance(params, Mapping):
        raise TypeError(f"encoder_params is {params!r:.80}, expected a dict")
    for name in params.keys() - known.keys():
        expected = f"{', '.join(map(repr, known))} for observations {shape}"
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
        raise ValueError(f"encoder_params has {name!r}, expected {expected}; the nearest is {nearest!r}")
    check_counts(**{f"hidden_units[{i}]": size for i, size in enumerate(_listed("hidden_units", params))})
    for i, layer in enumerate(_listed("filters", params)):
        numbers = [*layer] if isinstance(layer, Iterable) else []
        if len(numbers) != 3:
            raise ValueError(f"filters[{i}] is {layer!r:.80}, expected (channels, kernel size, stride)")
        check_counts(**{f"filters[{i}][{k}]": number for k, number in enumerate(numbers)})
    if "feature_size" in params:
        check_counts(feature_size=params["feature_size"])
    return params


def _listed(name: str, params: Mapping[str, Any]) -> list[Any]:
    values = params.get(name, ())
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise TypeError(f"encoder_params has {name}={values!r:.80}, expected a list")
    return [*values]


def _linear_layers(sizes: Sequence[int], use_batch_norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [nn.Linear(n_in, n_out), *([nn.BatchNorm1d(n_out)] if use_batch_norm else []), nn.ReLU()]
    return nn.Sequential(*layers)


def _convolutions(
    shape: tuple[int, ...], filters: Sequence[Sequence[int]], use_batch_norm: bool
) -> tuple[nn.Sequential, int]:
    """Return the convolutional layers and the number of their outputs for an image."""
    layers: list[nn.Module] = []
    channels, sides = shape[0], shape[1:]
    for n_out, kernel, stride in filters:
        layers += [nn.Conv2d(channels, n_out, kernel, stride)]
        layers += [*([nn.BatchNorm2d(n_out)] if use_batch_norm else []), nn.ReLU()]
        channels, sides = n_out, tuple((side - kernel) // stride + 1 for side in sides)
        if min(sides) < 1:
            raise ValueError(f"observation_shape is {shape}, too small for the filters {[*filters]}")
    return nn.Sequential(*layers, nn.Flatten()), channels * math.prod(sides)
