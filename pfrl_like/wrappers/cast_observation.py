"""Wrappers that cast observations to another dtype, usually the dtype of the network."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pfrl_like.utils.env_values import box_class, space_kind
from pfrl_like.wrappers.wrapper import Wrapper


class CastObservation(Wrapper):
    """Cast observations and the observation space.

    Args:
        env: Environment whose observations are arrays, or dicts and tuples of arrays. Other values are not cast.
        dtype: Dtype of the cast observations.

    Attributes:
        original_observation: Latest observation before the cast. None before the first reset.
    """

    def __init__(self, env: Any, dtype: npt.DTypeLike) -> None:
        super().__init__(env)
        self.dtype = np.dtype(dtype)
        self.original_observation: Any = None
        space = getattr(env, "observation_space", None)
        if space is not None:
            self.observation_space = _cast_space(space, self.dtype)

    def observation(self, observation: Any) -> Any:
        """Return the observation in the new dtype. An array that already has this dtype is not copied."""
        self.original_observation = observation
        return _cast(observation, self.dtype)


class CastObservationToFloat32(CastObservation):
    """Cast observations to float32.

    Args:
        env: Environment whose observations are arrays, or dicts and tuples of arrays. Other values are not cast.

    Attributes:
        original_observation: Latest observation before the cast. None before the first reset.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env, np.float32)


def _cast(observation: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(observation, np.ndarray):
        return observation.astype(dtype, copy=False)
    if isinstance(observation, Mapping):
        return {key: _cast(item, dtype) for key, item in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_cast(item, dtype) for item in observation)
    if hasattr(observation, "dtype") and hasattr(observation, "__array__"):  # a NumPy scalar, or `LazyFrames`
        return np.asarray(observation).astype(dtype, copy=False) if observation.shape else observation
    return observation


def _cast_space(space: Any, dtype: np.dtype[Any]) -> Any:
    kind = space_kind(space)
    if kind == "dict":
        return type(space)({key: _cast_space(part, dtype) for key, part in space.spaces.items()})
    if kind == "tuple":
        return type(space)([_cast_space(part, dtype) for part in space.spaces])
    if kind == "box":
        low, high = space.low, space.high
    elif kind == "multi_binary":
        low, high = np.zeros(space.shape), np.ones(space.shape)
    elif kind == "multi_discrete":
        low = np.zeros(space.shape) + getattr(space, "start", 0)
        high = low + space.nvec - 1
    else:
        return space
    with np.errstate(over="ignore"):  # a bound that is too large for the dtype becomes infinite
        return box_class(space)(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
