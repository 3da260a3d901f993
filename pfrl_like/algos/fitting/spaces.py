"""Shapes of observations, kinds of actions, and scalers of estimators, with their checks."""

import copy
import dataclasses
import enum
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.batch import Batch
from pfrl_like.columns import as_array
from pfrl_like.columns.leaves import describe
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.errors import NotFittedError
from pfrl_like.preprocessing import MinMaxActionScaler, Scaler, make_scaler
from pfrl_like.utils.checks import check_finite
from pfrl_like.utils.env_values import action_size_of, space_kind

Shape = tuple[int, ...]


def shapes_of_env(algo: Any, env: Any) -> tuple[Shape, int]:
    """Return an environment's observation shape, and the size of an action (or the number of discrete actions).

    Args:
        algo: Algorithm that acts in the environment. Its attribute `discrete_action` is True for discrete actions,
            False for continuous actions, or None for both. Its attribute `instead` is the name of the algorithm for the
            other kind.
        env: The environment.

    Raises:
        TypeError: If `env` is not an environment, or has the other kind of actions.
        ValueError: If continuous actions are not vectors, or observations are not arrays.
    """
    adapted = as_gymnasium(env)
    kind = space_kind(adapted.action_space)
    discrete = kind == "discrete" if algo.discrete_action is None else algo.discrete_action
    wanted = "Discrete" if discrete else "a Box"
    if kind != ("discrete" if discrete else "box"):
        got = f"got {adapted.action_space}{_advice(algo)}"
        raise TypeError(f"{type(algo).__name__} needs an environment whose actions are {wanted}, {got}")
    if not adapted.observation_space.shape:
        space = adapted.observation_space
        raise ValueError(f"{type(algo).__name__} needs an environment whose observations are arrays, got {space}")
    return tuple(adapted.observation_space.shape), action_size_of(adapted.action_space)


def check_action_kind(algo: Any, discrete_action: bool, subject: str = "the episodes have") -> None:
    """Check that data and an algorithm have the same kind of actions (discrete or continuous).

    Args:
        algo: The algorithm.
        discrete_action: True if actions of the data are discrete.
        subject: Words before "discrete actions" in the error message.

    Raises:
        TypeError: If the kinds differ.
    """
    if algo.discrete_action not in (None, discrete_action):
        kind, other = ("continuous", "discrete") if discrete_action else ("discrete", "continuous")
        raise TypeError(f"{type(algo).__name__} has {kind} actions, but {subject} {other} actions{_advice(algo)}")


def check_mask(algo: Any, action_mask: Any) -> None:
    """Raise an error if there is an action mask and actions are continuous.

    Raises:
        TypeError: If there is a mask and actions are continuous.
    """
    if action_mask is not None and algo.discrete_action is False:
        shape, kind = np.shape(action_mask), type(algo).__name__
        raise TypeError(f"action_mask has shape {shape}, expected None, because {kind} has continuous actions")


def _advice(algo: Any) -> str:
    return f": use {algo.instead}" if hasattr(algo, "instead") else ""


def check_built_for(
    algo: Any, built: Shape | None, size: int | None, observation_shape: Any, action_size: int, prefix: str = ""
) -> None:
    """Raise an error if observations or actions do not have the shapes for which an algorithm was built.

    Args:
        algo: The algorithm.
        built: Observation shape for which the algorithm was built. None if the agent is an `impl` of the user, whose
            shapes are not checked.
        size: Size of an action, or number of discrete actions, for which the algorithm was built.
        observation_shape: Shape of an observation of the data.
        action_size: Size of an action of the data, or number of discrete actions in the data. The number of discrete
            actions may be smaller than `size`.
        prefix: Text at the beginning of the error message.

    Raises:
        ValueError: If the shapes differ.
    """
    if built is None or size is None:
        return
    if tuple(observation_shape) != built or action_size > size or (action_size < size and not algo.discrete_action):
        data = f"observations of shape {tuple(observation_shape)} and actions of size {action_size}"
        raise ValueError(f"{prefix}got {data}, but {type(algo).__name__} was built for shape {built} and size {size}")


def check_equal_lengths(obs: Any, actions: Any) -> None:
    """Raise an error if observations and actions have different lengths.

    Raises:
        ValueError: If the lengths differ.
    """
    if len(actions) != len(obs):
        raise ValueError(f"action has {len(actions)} rows, but x has {len(obs)} observations: expected equal lengths")


def observations_for(x: Any, shape: tuple[Any, ...] | None, n_frames: int) -> Any:
    """Return observations as an array for networks, [n, ...]. float64 is converted to float32.

    Observations that are tuples are converted to a list of n tuples.

    Args:
        x: Observations with stacked frames, [n, ...], or a tuple of such arrays.
        shape: Shape of one observation with stacked frames, or a tuple of shapes; None if unknown.
        n_frames: Number of images that are stacked, for error messages.

    Raises:
        ValueError: If the observations have another shape or are not numbers.
        NonFiniteError: If an observation contains NaN or infinity.
    """
    if shape is not None and isinstance(shape[0], tuple):
        if not isinstance(x, tuple | list) or len(x) != len(shape):
            raise ValueError(f"x is {type(x).__name__}, expected a tuple of {len(shape)} arrays")
        parts = [observations_for(part, each, 1) for part, each in zip(x, shape, strict=True)]
        check_equal_lengths(parts[0], parts[-1])
        return [*zip(*parts, strict=True)]
    obs = numbers_in("x", x) if shape is not None else np.asarray(_on_cpu(x))
    obs = obs.astype(np.float32) if obs.dtype == np.float64 else obs
    if shape is not None and obs.shape[1:] != shape:
        raise ValueError(f"x has shape {obs.shape}, expected {shape_of_several(shape, n_frames)}")
    check_finite("x", obs)
    return obs


def shape_of_several(shape: tuple[Any, ...], n_frames: int) -> str:
    """Return the shape of n observations with stacked frames as text for error messages."""
    if isinstance(shape[0], tuple):
        return ", ".join(shape_of_several(each, 1) for each in shape)
    frames = f", {n_frames} frames stacked" if n_frames > 1 and len(shape) == 3 else ""
    return f"(n, {', '.join(map(str, shape))}){frames}"


def actions_for(action: Any, size: int | None, discrete: bool) -> NDArray[Any]:
    """Return actions as an array for networks: floats [n, size], or integers [n] if discrete.

    Args:
        action: Actions, [n, size], or [n] or [n, 1] if discrete.
        size: Size of a continuous action, or number of discrete actions; None if unknown.
        discrete: True if actions are discrete.

    Raises:
        ValueError: If the actions have another shape or are not numbers, or if a discrete action does not exist.
        NonFiniteError: If an action contains NaN or infinity.
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
        raise ValueError(f"action has {actions.reshape(-1)[wrong][0]}, expected integers >= 0 and < {size}")
    return numbers


def map_shape(function: Callable[[Shape], Any], shape: tuple[Any, ...]) -> Any:
    """Return the result of a function of a shape, or the tuple of the results if `shape` is a tuple of shapes."""
    return tuple(map(function, shape)) if shape and isinstance(shape[0], tuple) else function(shape)


def shape_of_one(observation_shape: Any, takes_tuples: bool = False) -> tuple[Any, ...]:
    """Return the shape of one observation as a tuple.

    Args:
        observation_shape: The shape.
        takes_tuples: True if observations may be tuples of arrays. Their shape is the tuple of the shapes.

    Raises:
        ValueError: If `observation_shape` is not the shape of one array, for example for nested observations.
    """
    if takes_tuples and isinstance(observation_shape, tuple | list):
        nested = [isinstance(each, tuple | list) for each in observation_shape]
        if nested and all(nested):
            return tuple(shape_of_one(each) for each in observation_shape)
    is_shape = isinstance(observation_shape, Iterable) and not isinstance(observation_shape, str | Mapping)
    sizes = [*observation_shape] if is_shape else []
    if not sizes or not all(isinstance(size, SupportsIndex) and operator.index(size) > 0 for size in sizes):
        raise ValueError(f"observation_shape is {observation_shape!r:.200}, expected the shape of one array")
    return tuple(operator.index(size) for size in sizes)


def numbers_in(name: str, values: Any) -> NDArray[Any]:
    """Return the argument `name` as an array of real numbers. A tensor may be on any device.

    Raises:
        ValueError: If the argument is not an array of real numbers.
    """
    array = as_array(_on_cpu(values))
    if array is None or array.dtype.kind == "c":
        raise ValueError(f"{name}: got {describe(values)}, expected an array of real numbers")
    return array


def _on_cpu(values: Any) -> Any:
    return values.detach().cpu() if isinstance(values, Tensor) else values


class ActionSpace(enum.Enum):
    """Kinds of actions."""

    CONTINUOUS = 1
    DISCRETE = 2


class Spaces:
    """Mixin with the observation and action shapes of an estimator.

    Attributes:
        observation_shape_: Shape of one observation without stacked frames; None before the agent is built.
        action_size_: Size of a continuous action, or number of discrete actions; None before the agent is built.
    """

    #: True if actions are discrete.
    discrete_action: ClassVar[bool] = False
    #: True if observations may be tuples of arrays.
    takes_tuples: ClassVar[bool] = False

    n_frames: int
    observation_shape_: Shape | None = None
    action_size_: int | None = None

    @property
    def observation_shape(self) -> Shape | None:
        """Shape of one observation without stacked frames; None before the agent is built."""
        return self.observation_shape_

    @property
    def action_size(self) -> int | None:
        """Size of a continuous action, or number of discrete actions; None before the agent is built."""
        return self.action_size_

    def get_action_type(self) -> ActionSpace:
        """Return the kind of actions."""
        return ActionSpace.DISCRETE if self.discrete_action else ActionSpace.CONTINUOUS

    @property
    def _stacked_shape(self) -> Shape:
        """Shape of one observation with stacked frames."""
        if self.observation_shape_ is None:
            raise NotFittedError(f"{type(self).__name__} is not built yet and has no observation shape: call fit")
        return map_shape(lambda shape: stacked_shape(shape, self.n_frames), self.observation_shape_)  # type: ignore[no-any-return]

    def check_shapes(self, observation_shape: Any, action_size: int) -> None:
        """Raise an error if data do not have the shapes for which the agent was built.

        Raises:
            ValueError: If the shapes differ. Data may have fewer discrete actions than the agent.
        """
        check_built_for(self, self.observation_shape_, self.action_size_, observation_shape, action_size)


#: Names of the scaler hyperparameters; values are the columns that the scalers transform.
SCALERS = {"scaler": "observations", "action_scaler": "actions", "reward_scaler": "rewards"}


@dataclasses.dataclass
class BatchScaling:
    """Function that scales the actions and rewards of a minibatch, and then augments the minibatch.

    Args:
        action_scaler: Fitted scaler of actions. None leaves actions unchanged.
        reward_scaler: Fitted scaler of rewards. None leaves rewards unchanged.
        augment: Function that augments the scaled minibatch. None disables augmentation.
    """

    action_scaler: Scaler | None
    reward_scaler: Scaler | None
    augment: Callable[[Batch], Batch] | None = None

    def __call__(self, batch: Batch) -> Batch:
        if self.action_scaler is not None:
            scale, next_action = self.action_scaler.transform, batch.next_action
            next_action = None if next_action is None else scale(next_action)
            batch = batch.replace(action=scale(batch.action), next_action=next_action)
        if self.reward_scaler is not None:
            scale, continuation = self.reward_scaler.transform, batch.continuation
            if continuation is not None:
                continuation = dataclasses.replace(continuation, reward=scale(continuation.reward))
            batch = batch.replace(reward=scale(batch.reward), continuation=continuation)
        return batch if self.augment is None else self.augment(batch)


def copy_scalers(algo: Any, fitted: bool = False) -> dict[str, Scaler | None]:
    """Return copies of the scalers that the user passed to an estimator, keyed by hyperparameter name.

    Args:
        algo: The estimator.
        fitted: True to return the estimator's fitted scalers, if it has any, instead of copies.

    Raises:
        ValueError: If a name is unknown, or there is an `action_scaler` and actions are discrete.
        TypeError: If a hyperparameter is not a scaler.
    """
    if algo.discrete_action and algo.action_scaler is not None:
        kind = type(algo).__name__
        raise ValueError(f"action_scaler is {algo.action_scaler!r:.80}, but {kind} has discrete actions: use None")
    # Before the first fit, the attribute is the user's scaler. The user's scaler may already be fitted.
    values = {name: getattr(algo, name) for name in SCALERS if getattr(algo, f"{name}_") is None}
    values = algo.get_params(deep=False) | values
    copies = {name: copy.deepcopy(make_scaler(values[name], column)) for name, column in SCALERS.items()}
    return {name: fitted and getattr(algo, f"{name}_") or scaler for name, scaler in copies.items()}


def set_scalers(algo: Any, scalers: dict[str, Scaler | None]) -> None:
    """Set fitted scalers as attributes of an estimator. `get_params` still returns the user's values.

    Raises:
        NotFittedError: If a scaler is not fitted.
    """
    for name, scaler in scalers.items():
        if scaler is not None and not scaler.fitted:
            argument = f"{algo.names_in_errors.get(name, name)} is {algo.get_params(deep=False)[name]!r}"
            raise NotFittedError(f"{argument}, which is not fitted: call build_with_dataset or fit_scaler first")
    for name, scaler in scalers.items():
        vars(algo).update({name: scaler, f"{name}_": scaler})


def check_scalers_used(algo: Any) -> None:
    """Raise an error if an estimator has a scaler, but its agent is an `impl` of the user that does not use the scaler.

    Raises:
        ValueError: If there is such a scaler. The message contains the name of the hyperparameter.
    """
    for name in SCALERS:
        if (given := getattr(algo, name)) is not None and getattr(algo, f"{name}_") is None:
            reason = f"the agent passed as impl does not use the scaler: set {name}=None"
            raise ValueError(f"{name} is {given!r:.80}, but {reason}")


def fit_to_space(scaler: Scaler | None, action_space: Any) -> None:
    """Fit a `MinMaxActionScaler` to the bounds of an action space, if it is not fitted yet.

    Raises:
        NonFiniteError: If the space has no finite bounds.
    """
    if isinstance(scaler, MinMaxActionScaler) and not scaler.fitted:
        scaler.fit(np.stack([action_space.low, action_space.high]).astype(np.float64))


def check_single_rewards(reward_scaler: Any, data: Any) -> None:
    """Raise an error if there are both a reward scaler and a replay buffer with n-step returns.

    Raises:
        ValueError: If there is a `reward_scaler` and `num_steps` of the buffer is larger than 1.
    """
    if reward_scaler is not None and (num_steps := getattr(data, "num_steps", 1)) > 1:
        raise ValueError(f"the buffer has num_steps {num_steps}, but a reward_scaler needs num_steps=1")
