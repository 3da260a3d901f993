"""Which observations and actions fit an algorithm: what estimators and fitted Q evaluation have in common."""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.columns import as_array
from pfrl_like.columns.leaves import describe
from pfrl_like.env import as_gymnasium
from pfrl_like.utils.checks import check_finite
from pfrl_like.utils.spaces import action_size_of, space_kind


def shapes_of_env(algo: Any, env: Any) -> tuple[tuple[int, ...], int]:
    """Shape of an environment's observations, and numbers of an action or how many discrete actions there are.

    Args:
        algo: What is to act there: `discrete_action` tells the kind of its actions, `instead` what has the other kind.
        env: The environment.

    Raises:
        TypeError: If it is none, or its actions are of another kind.
        ValueError: If they are no vectors, or observations are no arrays.
    """
    adapted = as_gymnasium(env)
    kind, wanted = ("discrete", "Discrete") if algo.discrete_action else ("box", "a Box")
    if space_kind(adapted.action_space) != kind:
        got = f"got {adapted.action_space}{_way_out(algo)}"
        raise TypeError(f"{type(algo).__name__} needs an environment whose actions are {wanted}, {got}")
    if not adapted.observation_space.shape:
        space = adapted.observation_space
        raise ValueError(f"{type(algo).__name__} needs an environment whose observations are arrays, got {space}")
    return tuple(adapted.observation_space.shape), action_size_of(adapted.action_space)


def check_action_kind(algo: Any, discrete_action: bool, came: str = "the episodes have") -> None:
    """Refuse data of another kind of actions than an algorithm's.

    Args:
        algo: The algorithm.
        discrete_action: Whether actions of the data are indices.
        came: What came, for the message.

    Raises:
        TypeError: If it is another one.
    """
    if discrete_action != algo.discrete_action:
        kinds = {True: "discrete", False: "continuous"}
        raise TypeError(
            f"{type(algo).__name__} has {kinds[algo.discrete_action]} actions, but {came} "
            f"{kinds[discrete_action]} ones{_way_out(algo)}"
        )


def _way_out(algo: Any) -> str:
    return f": use {algo.instead}" if hasattr(algo, "instead") else ""


def check_built_for(
    algo: Any,
    built: tuple[int, ...] | None,
    size: int | None,
    observation_shape: Any,
    action_size: int,
    came: str = "",
) -> None:
    """Refuse observations and actions of other shapes than those that an algorithm was built for.

    Args:
        algo: The algorithm.
        built: The shape of its observations; None for an agent of the user's own, which takes what it takes.
        size: Numbers of its actions, or how many there are.
        observation_shape: Shape of an observation that came.
        action_size: The same of the actions that came; fewer discrete ones may occur than there are.
        came: What the message begins with.

    Raises:
        ValueError: If they differ.
    """
    if built is None or size is None:
        return
    if tuple(observation_shape) != built or action_size > size or (action_size < size and not algo.discrete_action):
        raise ValueError(
            f"{came}observations {tuple(observation_shape)} and actions of size {action_size} came, but "
            f"{type(algo).__name__} was built for {built} and {size}"
        )


def check_as_many(obs: Any, actions: Any) -> None:
    """Refuse another number of actions than of observations.

    Raises:
        ValueError: If they differ.
    """
    if len(actions) != len(obs):
        raise ValueError(f"there are {len(obs)} observations in x and {len(actions)} actions, expected as many")


def observations_for(x: Any, shape: tuple[int, ...] | None, n_frames: int) -> NDArray[Any]:
    """Observations as networks take them, [n, ...]: float32 instead of float64, other types as they are.

    Args:
        x: Observations, [n, ...], frames stacked.
        shape: Shape of each, frames stacked; None if that is not known.
        n_frames: Frames of a stack.

    Raises:
        ValueError: If they have another shape, or are no numbers.
        NonFiniteError: On NaN or infinity.
    """
    obs = numbers_in("x", x) if shape is not None else np.asarray(_on_the_host(x))
    obs = obs.astype(np.float32) if obs.dtype == np.float64 else obs
    if shape is not None and obs.shape[1:] != shape:
        raise ValueError(f"x has shape {obs.shape}, expected {shape_of_several(shape, n_frames)}")
    check_finite("x", obs)
    return obs


def shape_of_several(shape: tuple[int, ...], n_frames: int) -> str:
    """The shape of several observations of one shape, frames stacked, for messages."""
    frames = f", {n_frames} frames stacked" if n_frames > 1 and len(shape) == 3 else ""
    return f"(n, {', '.join(map(str, shape))}){frames}"


def actions_for(action: Any, size: int | None, discrete: bool) -> NDArray[Any]:
    """Actions as networks take them, [n, size] of floats or [n] of integers.

    Args:
        action: Actions, [n, size], or [n] or [n, 1] if discrete.
        size: Numbers of an action, or how many discrete actions there are; None if that is not known.
        discrete: Whether they are indices.

    Raises:
        ValueError: If they have another shape or are no numbers, or there is no such discrete action.
        NonFiniteError: On NaN or infinity.
    """
    actions = numbers_in("action", action)
    check_finite("action", actions)
    if not discrete:
        width = math.prod(actions.shape[1:])
        if not actions.ndim or (size is not None and width != size):
            raise ValueError(f"action has shape {actions.shape}, expected (n, {size})")
        return actions.reshape(len(actions), width).astype(np.float32)
    if not actions.ndim or math.prod(actions.shape[1:]) != 1:
        raise ValueError(f"action has shape {actions.shape}, expected (n,) or (n, 1)")
    numbers = actions.reshape(-1).astype(np.int64)
    wrong = (numbers != actions.reshape(-1)) | (numbers < 0) | (numbers >= (math.inf if size is None else size))
    if wrong.any():
        raise ValueError(f"action has {actions.reshape(-1)[wrong][0]}, expected integers from 0 to below {size}")
    return numbers


def shape_of_one(observation_shape: Any) -> tuple[int, ...]:
    """The shape of one observation, which is an array.

    Raises:
        ValueError: If it is another one, such as of nested observations.
    """
    is_shape = isinstance(observation_shape, Iterable) and not isinstance(observation_shape, str | Mapping)
    sizes = [*observation_shape] if is_shape else []
    if not sizes or not all(isinstance(size, SupportsIndex) and operator.index(size) > 0 for size in sizes):
        raise ValueError(f"observation_shape is {observation_shape!r:.200}, expected the shape of one array")
    return tuple(operator.index(size) for size in sizes)


def numbers_in(name: str, values: Any) -> NDArray[Any]:
    """An argument as an array of real numbers; tensors may lie anywhere.

    Raises:
        ValueError: If it is none.
    """
    array = as_array(_on_the_host(values))
    if array is None or array.dtype.kind == "c":
        raise ValueError(f"{name}: got {describe(values)}, expected an array of real numbers")
    return array


def _on_the_host(values: Any) -> Any:
    return values.detach().cpu() if isinstance(values, Tensor) else values
