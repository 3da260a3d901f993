"""Checks of arguments, conversion of integral floats, and checks of observations, actions and rewards.

The checks of steps have a fast path for the most frequent case: an array with the shape and dtype of the space.
"""

import contextlib
import difflib
import functools
import inspect
import math
import numbers
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np

from pfrl_like.errors import NonFiniteError
from pfrl_like.utils.env_values import space_kind

Class = TypeVar("Class", bound=type[Any])
Function = TypeVar("Function", bound=Callable[..., Any])

#: Largest reward that is accepted. Agents convert rewards to float32.
LARGEST_REWARD = float(np.finfo(np.float32).max)
#: Largest int64.
LARGEST_INTEGER = 2**63 - 1


def check_finite(name: str, value: Any) -> None:
    """Raise an error if a value contains NaN or infinity.

    Args:
        name: Name of the value in the message, for example "obs".
        value: A number, an array or tensor of any shape, or nested dicts, tuples and lists of these. None and other
            types (integers, bools, strings, objects) are not checked.

    Raises:
        NonFiniteError: If a number is not finite.
    """
    if type(value) is np.ndarray:
        if value.dtype.kind in "fc" and np.count_nonzero(np.isfinite(value)) < value.size:  # faster than `all`
            raise _non_finite(name, value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NonFiniteError(name, f"{name} is {value!r}, expected a finite number")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_finite(f"{name}[{key!r}]", item)
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            check_finite(f"{name}[{index}]", item)
    elif _is_floating(value):
        check_finite(name, np.asarray(value.detach().cpu() if hasattr(value, "detach") else value))


def check_transition(obs: Any, action: Any, next_obs: Any) -> None:
    """Raise an error if the observations or the action of a transition contain NaN or infinity.

    Only floating-point values are checked.

    Raises:
        NonFiniteError: If a number is not finite. The message contains the argument's name.
        ValueError: If the action is an integer outside the range of int64.
    """
    if type(action) is int and not -LARGEST_INTEGER <= action <= LARGEST_INTEGER:
        raise ValueError(f"action is an integer of {action.bit_length()} bits, expected an int64")
    total = 0.0
    for value in (obs, action, next_obs):
        kind = value.dtype.char if type(value) is np.ndarray else ""
        if kind in ("f", "d"):
            total += np.vdot(value, value)  # the product may also overflow; the checks below are exact
        elif kind in ("", "e", "g", "F", "D", "G") and type(value) is not int:
            total = math.nan
    if not math.isfinite(total):
        check_finite("obs", obs)
        check_finite("action", action)
        check_finite("next_obs", next_obs)


def reward_out_of_range(reward: Any) -> NonFiniteError:
    """Return the exception for a reward that float32 cannot represent."""
    got = float(reward) if isinstance(reward, float | np.floating) else "too large for float32"
    return NonFiniteError("reward", f"reward is {got}, expected a finite number of at most {LARGEST_REWARD:.2g}")


def as_reward(reward: Any) -> float:
    """Return the reward as a float.

    Raises:
        TypeError: If the reward is not a single number.
        NonFiniteError: If the reward is NaN, infinite, or too large for float32.
    """
    if isinstance(reward, str | bytes):  # because `float` would convert a string
        raise _reward_type_error(reward)
    try:
        number = float(reward)
    except OverflowError:
        raise reward_out_of_range(reward) from None
    except (TypeError, ValueError, RuntimeError):  # torch raises RuntimeError for tensors of several values
        raise _reward_type_error(reward) from None
    if not -LARGEST_REWARD <= number <= LARGEST_REWARD:
        raise reward_out_of_range(number)
    return number


def check_rewards(rewards: Any, active: Any = None) -> None:
    """Raise an error if `as_reward` rejects one of the rewards.

    Args:
        rewards: Rewards of k environments, a sequence or an array [k].
        active: False for environments whose reward is not checked, [k]; None checks all rewards.
    """
    if active is not None:
        rewards = [reward for reward, counts in zip(rewards, active, strict=True) if counts]
    elif type(rewards) is np.ndarray:
        rewards = rewards.tolist()
    for reward in rewards:
        if type(reward) is not float or not -LARGEST_REWARD <= reward <= LARGEST_REWARD:
            as_reward(reward)


def check_reward(reward: Any) -> None:
    """Raise an error if a reward is not a single finite number. An array of shape [1] is also rejected.

    Raises:
        TypeError: If the reward is not a single number.
        NonFiniteError: If the reward is NaN, infinite, or too large for float32.
    """
    if not isinstance(reward, int | float | np.floating | np.integer):
        plain = reward.item() if hasattr(reward, "item") and np.shape(reward) == () else reward
        if not isinstance(plain, numbers.Real):
            raise _reward_type_error(reward)
    as_reward(reward)


def check_observation(space: Any, obs: Any, name: str = "obs") -> None:
    """Raise an error if the structure, shape or kind of numbers of an observation does not match the space.

    The bounds and the number of bits are not checked. A floating-point space accepts integers, but an integer space
    rejects floating-point numbers.

    Args:
        space: Observation space of one environment. None accepts every observation.
        obs: One observation.
        name: Name of the observation in the message.

    Raises:
        ValueError: If the observation does not match. The message describes the observation and the space.
    """
    if space is None or (
        type(obs) is np.ndarray
        and obs.shape == getattr(space, "shape", None)
        and obs.dtype == getattr(space, "dtype", None)
    ):
        return
    _check_structure(space, obs, name, observed=True)


def check_action(space: Any, action: Any, name: str = "action", *, bounds: bool = True) -> None:
    """Raise an error if an action is not in the space.

    Args:
        space: Action space of one environment. None accepts every action.
        action: One action.
        name: Name of the action in the message.
        bounds: True to check the bounds of a Box. Agents use False, because Gaussian policies select actions outside
            the bounds, and many environments clip actions.

    Raises:
        ValueError: If the action is not in the space. The message describes the action and the space.
        NonFiniteError: If the action contains NaN or infinity.
    """
    if space is None:
        return
    if space_kind(space) == "discrete" and isinstance(action, int | np.integer):
        start = getattr(space, "start", 0)
        if not start <= action < start + space.n:
            raise ValueError(f"{name} is {action!r}, expected an integer from {start} to {start + space.n - 1}")
        return
    _check_structure(space, action, name, bounds=bounds)


def unequal_lengths(**columns: Any) -> ValueError:
    """Return the exception for arguments that do not all contain one value for each environment."""
    lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
    return ValueError(f"arguments need one value for each environment, but the lengths are: {lengths}")


def check_actions(space: Any, actions: Any, n: int, name: str = "action", *, bounds: bool = True) -> None:
    """Call `check_action` for the actions of `n` environments, an array [n, ...] or a sequence."""
    if len(actions) != n:
        raise ValueError(f"{name} contains {len(actions)} actions, expected one for each of {n} environments")
    if space is None:
        return
    is_integers = type(actions) is np.ndarray and actions.ndim == 1 and actions.dtype.kind in "iu"
    if is_integers and space_kind(space) == "discrete":  # check only the minimum and the maximum
        check_action(space, actions.min(), name)
        check_action(space, actions.max(), name)
        return
    if type(actions) is np.ndarray and actions.dtype != object and not bounds and space_kind(space) == "box":
        _check_array(space, actions[0], f"{name}[0]")
        check_finite(name, actions)
        return
    for index, action in enumerate(actions):
        check_action(space, action, f"{name}[{index}]", bounds=bounds)


def check_counts(least: int = 1, optional: bool = False, **values: Any) -> None:
    """Raise an error if an argument is not an integer or is below a minimum.

    Args:
        least: Minimum allowed value.
        optional: True if None is allowed.
        **values: Values of the arguments, keyed by argument name.

    Raises:
        TypeError: If a value is not an integer.
        ValueError: If a value is below `least`.
    """
    expected = f"an integer from {least} on{_OR_NONE * optional}"
    for name, value in _items_of(values, (int, np.integer), expected, optional):
        if value < least:
            raise ValueError(f"{name} is {value}, expected {expected}")


def check_numbers(least: float = -math.inf, most: float = math.inf, *, between: bool = False, **values: Any) -> None:
    """Raise an error if an argument is not a finite number or is out of bounds.

    Args:
        least: Minimum allowed value.
        most: Maximum allowed value.
        between: True if the values must differ from the bounds.
        **values: Values of the arguments, keyed by argument name.

    Raises:
        TypeError: If a value is not a number.
        ValueError: If a value is not finite or is out of bounds.
    """
    bounds = f" of at least {least:g}" if least > -math.inf else ""
    range_of = f"between {least:g} and {most:g}" if between else f"from {least:g} to {most:g}"
    expected = f"a finite number{bounds}" if most == math.inf else f"a number {range_of}"
    for name, value in _items_of(values, numbers.Real, expected):
        if not (least <= float(value) <= most and math.isfinite(value)) or (between and value in (least, most)):
            raise ValueError(f"{name} is {value!r}, expected {expected}")


def check_seconds(optional: bool = False, **values: Any) -> None:
    """Raise an error if an argument is not a positive number of seconds.

    Args:
        optional: True if None is allowed.
        **values: Values of the arguments, keyed by argument name.

    Raises:
        TypeError: If a value is not a number.
        ValueError: If a value is not positive.
    """
    expected = f"a positive number of seconds{_OR_NONE * optional}"
    for name, value in _items_of(values, numbers.Real, expected, optional):
        if not float(value) > 0:
            raise ValueError(f"{name} is {value!r}, expected {expected}")


#: End of error messages about optional arguments.
_OR_NONE = ", or None"


def _items_of(values: Mapping[str, Any], kind: Any, expected: str, optional: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of arguments. Raise a TypeError for bools, and for values that are no `kind`."""
    for name, value in values.items():
        if value is None and optional:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.80} ({type(value).__name__}), expected {expected}")
        yield name, value


def check_flags(**values: Any) -> None:
    """Raise an error if an argument is not True or False.

    Raises:
        TypeError: If a value is not a bool.
    """
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} is {value!r:.80} ({type(value).__name__}), expected True or False")


def check_choice(name: str, value: Any, known: Collection[str]) -> None:
    """Raise an error if the value of an argument is unknown.

    Raises:
        ValueError: If the value is unknown. The message contains the argument's name and the known values.
    """
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, known))}")


def check_function(optional: bool = False, **values: Any) -> None:
    """Raise an error if an argument is not callable.

    Args:
        optional: True if None is allowed.
        **values: Values of the arguments, keyed by argument name.

    Raises:
        TypeError: If a value is not callable.
    """
    for name, value in values.items():
        if not callable(value) and (value is not None or not optional):
            raise TypeError(f"{name} is {value!r:.80}, expected a function{', or None' if optional else ''}")


#: Names that arguments have in other libraries, and their names here. Several names are separated by spaces.
_SYNONYMS = {
    "learning_rate": "lr", "discount": "gamma", "batch_size": "minibatch_size", "buffer_size": "capacity",
    "net_arch": "hidden_sizes", "hidden_units": "hidden_sizes", "total_timesteps": "steps", "timesteps": "steps",
    "n_steps": "num_steps update_steps update_interval steps", "learning_starts": "replay_start_size",
    "tau": "soft_update_tau", "ent_coef": "entropy_coef", "episode_terminals": "timeouts",
    "stop_at_score": "successful_score", "network": "q_function policy model", "Rainbow": "CategoricalDoubleDQN",
    "DDQN": "DoubleDQN", "PER": "PrioritizedReplayBuffer", "evaluators": "scorers", "beta": "weight_temp",
    "actor_lr": "actor_learning_rate", "temperature": "weight_temp initial_temperature beta",
}  # fmt: skip


def nearest_names(given: str, known: Iterable[str], cutoff: float = 0.0, n: int = 1) -> str:
    """Return the end of a message about the unknown name `given`: the known names that the user may mean.

    A name matches if other libraries call it `given`, or if only capitals differ. Otherwise, a name matches if it ends
    in the unknown name (for example `learning_rate` for `rate`), or if its initials do (for example `lr`). If no name
    matches, return the `n` most similar names whose similarity (from 0 to 1, see `difflib`) is at least `cutoff`.
    """
    initials = {name: "".join(word[:1] for word in name.split("_")) for name in known}
    equal = [name for name in initials if name.lower() == given.lower()]
    if synonyms := equal or [name for name in _SYNONYMS.get(given, "").split() if name in initials]:
        return f"; the nearest is {' or '.join(map(repr, synonyms))}"
    names = (name for name in initials if name.endswith(f"_{given}") or initials[name].endswith(given) and given[1:])
    if matches := sorted(names):
        return f": there {'is' if len(matches) == 1 else 'are'} {', '.join(map(repr, matches))}"
    similar = difflib.get_close_matches(given, initials, n=n, cutoff=cutoff)
    return f"; the nearest {'are' if similar[1:] else 'is'} {', '.join(map(repr, similar))}" if similar else ""


def names_unknown_keywords(function: Function) -> Function:
    """Decorator that adds the nearest argument, or all, to the TypeError for an unknown keyword argument.

    The TypeError of an inherited method names the class of the object.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            parameters = inspect.signature(function).parameters
            takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
            unknown = [] if takes_all else [name for name in kwargs if name not in parameters]
            if not unknown:
                raise
            known = [name for name in parameters if name != "self"]
            text = nearest_names(unknown[0], known, 0.6) or f"; the arguments are {', '.join(known)}"
            owner = f"{type(args[0]).__name__}." if "self" in parameters else ""
            raise TypeError(f"{error}{text}".replace(function.__qualname__, owner + function.__name__)) from None

    return cast(Function, call)


def takes_integral_floats(function: Function) -> Function:
    """Decorator that converts integral floats, such as 1e6, to integers if the parameter is annotated as an integer.

    Other floats are passed on: `check_counts` rejects them.

    Args:
        function: Function or constructor. Its annotations `int` and `int | None` must not be strings.
    """
    parameters = inspect.signature(function).parameters
    integers = {name for name, each in parameters.items() if each.annotation in (int, int | None)}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        names = [*parameters, *[""] * len(args)]
        args = tuple(integral(value) if name in integers else value for name, value in zip(names, args, strict=False))
        kwargs = {name: integral(value) if name in integers else value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return cast(Function, call)


def integral(value: Any) -> Any:
    """Return an integral float as an integer, and any other value as it is."""
    return int(value) if isinstance(value, float | np.floating) and value.is_integer() else value


def _is_floating(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)  # NumPy's or torch's
    return getattr(dtype, "kind", None) in ("f", "c") or bool(getattr(dtype, "is_floating_point", False))


def _non_finite(name: str, array: np.ndarray) -> NonFiniteError:
    bad = np.argwhere(~np.isfinite(array))
    first = tuple(int(i) for i in bad[0])
    at = f" at index {first[0] if len(first) == 1 else first}" if first else ""
    text = f"{name} has {array[first]}{at} ({len(bad)} of {array.size} numbers are not finite), expected finite numbers"
    return NonFiniteError(name, text)


def _check_structure(space: Any, value: Any, name: str, observed: bool = False, bounds: bool = True) -> None:
    kind = space_kind(space)
    if kind == "dict":
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            got = f"a dict with the keys {sorted(value)}" if isinstance(value, Mapping) else _describe(value)
            raise ValueError(f"{name} is {got}, expected a dict with the keys {sorted(space.spaces)}")
        for key, part in space.spaces.items():
            _check_structure(part, value[key], f"{name}[{key!r}]", observed, bounds)
    elif kind == "tuple":
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            raise ValueError(f"{name} is {_describe(value)}, expected a tuple of length {len(space.spaces)}")
        for index, part in enumerate(space.spaces):
            _check_structure(part, value[index], f"{name}[{index}]", observed, bounds)
    elif kind != "other" and hasattr(space, "shape") and hasattr(space, "dtype"):  # some spaces lack one of them
        array = np.asarray(_check_array(space, value, name))
        if kind == "box" and not observed:
            check_finite(name, array)
        if kind == "discrete" or not observed and (bounds or kind != "box"):
            _check_range(space, kind, array, name)


def _check_array(space: Any, value: Any, name: str) -> np.ndarray:
    try:
        shape, dtype = value.shape, value.dtype  # reading these attributes does not concatenate `LazyFrames`
        array = value if isinstance(dtype, np.dtype) else np.asarray(value)
    except AttributeError:
        array = _as_array(value, name, space)
        shape = array.shape
    expected = tuple(space.shape or ())
    if tuple(shape) != expected:
        raise ValueError(f"{name} has shape {tuple(shape)}, but the space {space} has shape {expected}")
    got, allowed = array.dtype.kind, np.dtype(space.dtype).kind
    if got not in {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}.get(allowed, allowed + "iub"):
        raise ValueError(f"{name} has dtype {array.dtype}, but the space {space} has dtype {np.dtype(space.dtype)}")
    return array


def _as_array(value: Any, name: str, space: Any) -> np.ndarray:
    with contextlib.suppress(ValueError):
        array = np.asarray(value)
        if array.dtype != object:
            return array
    raise ValueError(f"{name} is {_describe(value)}, expected an array, because the space is {space}")


def _check_range(space: Any, kind: str, array: Any, name: str) -> None:
    if kind == "box":
        low, high = space.low, space.high
    elif kind == "multi_binary":
        low, high = 0, 1
    else:
        low = getattr(space, "start", 0)
        high = low + np.asarray(space.nvec if kind == "multi_discrete" else space.n) - 1
    if not ((array >= low) & (array <= high)).all():
        raise ValueError(f"{name} is {array}, which is outside the space {space}")


def _reward_type_error(reward: Any) -> TypeError:
    return TypeError(f"reward is {_describe(reward)}, expected a single number")


def _describe(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    text = repr(value)
    return f"{text if len(text) < 80 else text[:77] + '...'} ({type(value).__name__})"


#: Keys of the warnings that `warn_once` has issued in this process.
_WARNED: set[Hashable] = set()


def levels_to_the_caller() -> int:
    """Return the `stacklevel` for `warnings.warn` in the calling function. It points to the user's code."""
    frame, levels = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pfrl_like."):
        frame, levels = frame.f_back, levels + 1
    return levels


def warn_once(key: Hashable, text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning once per key and process. The warning points to the user's line of code.

    Args:
        key: Key of the warning. Warnings with different texts may have the same key.
        text: Text of the warning.
        category: Class of the warning.
    """
    if key not in _WARNED:
        _WARNED.add(key)
        warnings.warn(text, category, stacklevel=levels_to_the_caller())


def alias(name: str, doc: str) -> property:
    """Return a property with the docstring `doc` that reads and writes the attribute `name`."""
    return property(attrgetter(name), lambda self, value: setattr(self, name, value), doc=doc)


class ConstructorOnly:
    """Descriptor of an attribute that can be set only once, in the constructor."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        if self.name in vars(instance):
            raise AttributeError(
                f"{self.name} of {type(instance).__name__} cannot be changed: pass it to a new agent, and copy the "
                "state with save and load"
            )
        vars(instance)[self.name] = value


def constructor_only(*names: str) -> Callable[[Class], Class]:
    """Class decorator that makes attributes `ConstructorOnly`, because later changes would have no effect."""

    def declare(cls: Class) -> Class:
        for name in names:
            type.__setattr__(cls, name, ConstructorOnly(name))
        return cls

    return declare
