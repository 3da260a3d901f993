"""Saving and restoring the states of environments, with one state for each wrapper."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from pfrl_like.random_streams.streams import Streams
from pfrl_like.utils.plain_values import from_json, to_json

#: Wrappers without `saved_state` and `restore_state` (gymnasium's and this package's), and all attributes of their
#: state.
_REMEMBERED: Mapping[str, tuple[str, ...]] = {
    "TimeLimit": ("_elapsed_steps",), "OrderEnforcing": ("_has_reset",), "PassiveEnvChecker": (), "EnvAdapter": (),
}  # fmt: skip


def layers_of(env: Any) -> Iterator[Any]:
    """Yield an environment's wrappers, the outermost wrapper first, then the environment itself."""
    while env is not None:
        yield env
        inside = getattr(env, "__dict__", {})
        env = inside.get("env", inside.get("user_env"))


def is_resumable(layer: Any) -> bool:
    """True if the layer has `saved_state()` and `restore_state(state)`."""
    return all(callable(getattr(type(layer), name, None)) for name in ("saved_state", "restore_state"))


def can_be_left(env: Any) -> bool:
    """True if the state can be saved and restored at any time, by `get_state()` and `set_state(state)`."""
    *wrappers, innermost = layers_of(env)
    return _pair_of(innermost) == "state" and all(
        is_resumable(layer) or type(layer).__name__ in _REMEMBERED for layer in wrappers
    )


def goes_on(env: Any) -> bool:
    """True if a reset without arguments continues the current game, as with `EpisodicLifeEnv`."""
    return any(vars(layer).get("needs_real_reset") is False for layer in layers_of(env) if hasattr(layer, "__dict__"))


class EnvState(NamedTuple):
    """States of an environment's layers.

    Attributes:
        layers: States of the wrappers and of the environment.
        innermost: Complete state of the innermost environment; None if the environment cannot return its state.
        envs: State of each environment of a vector environment, if the environments are accessible.
    """

    layers: list[dict[str, Any]]
    innermost: Any
    envs: list[dict[str, Any]]

    def to_plain(self) -> dict[str, Any]:
        """Return the states as plain values.

        Raises:
            TypeError: If a value cannot be saved.
        """
        inside = self.innermost
        inside = to_json(inside.serialize() if hasattr(inside, "serialize") else inside)
        return {"layers": self.layers, "env": inside, "envs": self.envs}


class EnvLayers:
    """Reads the states of an environment's layers. The constructor determines how to read each layer.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        layers = list(layers_of(env))
        self._ask = [layer.saved_state if _tells(layer) else partial(_remembered, layer) for layer in layers]
        self._envs = [EnvLayers(each) for each in _envs_of(layers[-1])]
        self._take = _taker_of(layers[-1])

    def now(self) -> EnvState:
        """Current states."""
        envs = [each.now().to_plain() for each in self._envs]
        return EnvState([ask() for ask in self._ask], self._take(), envs)


def restore_env(env: Any, plain: Mapping[str, Any]) -> None:
    """Restore the states that `EnvState.to_plain` returned.

    Raises:
        ValueError: If the states belong to a different environment.
    """
    layers, state = list(layers_of(env)), from_json(plain["env"])
    if len(layers) != len(plain["layers"]):
        raise ValueError(f"the environment has {len(layers)} layers, expected {len(plain['layers'])}")
    for layer, told in reversed(list(zip(layers, plain["layers"], strict=True))):
        if _tells(layer):
            layer.restore_state(told)
        else:
            vars(layer).update({name: told[name] for name in _remembered(layer)})
    for each, told in zip(_envs_of(layers[-1]), plain["envs"], strict=True):
        restore_env(each, told)
    pair = _pair_of(layers[-1])
    if pair == "state":
        layers[-1].set_state(state)
    elif pair == "ale":
        from ale_py import ALEState  # the environment is an Atari game of ale_py

        layers[-1].restore_state(ALEState(state))


def check_taken(env: Any, plain: Mapping[str, Any]) -> None:
    """Raise an error if an environment's state differs from the restored state; unknown states are not compared.

    Raises:
        ValueError: If a state differs.
    """
    *_, innermost = layers_of(env)
    if _pair_of(innermost) == "state":
        now = to_json(innermost.get_state())
        if now != plain["env"] and _in_words(now) != _in_words(plain["env"]):
            raise ValueError("after set_state(state), get_state() returns a different state")
    for each, told in zip(_envs_of(innermost), plain["envs"], strict=True):
        check_taken(each, told)


def state_between_episodes(env: Any, *, alone: bool = False) -> dict[str, Any]:
    """Return the state that determines the next episodes of an environment or vector environment for given actions.

    Args:
        env: The environment.
        alone: True if only this environment uses the global random streams.
    """
    *_, innermost = layers_of(env)
    elsewhere = hasattr(type(innermost), "states_between_episodes")  # True if the environments run in other processes
    return {
        "state": EnvLayers(env).now().to_plain(), "streams": Streams.of(env, with_global=alone).to_plain(),
        "envs": innermost.states_between_episodes() if elsewhere else None,
    }  # fmt: skip


def restore_between_episodes(env: Any, told: Mapping[str, Any], *, alone: bool = False) -> None:
    """Restore the result of `state_between_episodes`, so that the next episodes are the same.

    Raises:
        ValueError: If the state belongs to a different environment, if the environment rejects it, or if the
            environments of a vector environment are not accessible.
    """
    *_, innermost = layers_of(env)
    try:
        if told["streams"].keys() - Streams.of(env, with_global=alone).names:  # a reset creates the missing streams
            env.reset()
        restore_env(env, told["state"])
        check_taken(env, told["state"])
        Streams.of(env, with_global=alone).restore(told["streams"])
        if told["envs"] is not None:
            innermost.restore_between_episodes(told["envs"])
        elif is_vector(innermost) and not (_envs_of(innermost) or _pair_of(innermost)):
            raise ValueError(f"the states of the environments in {type(innermost).__name__} are not accessible")
    except ValueError:
        raise
    except Exception as error:  # raised by the user's code
        raise ValueError(f"the environment rejected its saved state: {error!r:.200}") from error


def _envs_of(env: Any) -> Sequence[Any]:
    envs = getattr(env, "envs", None) if is_vector(env) else None
    return envs if isinstance(envs, list | tuple) else ()


def is_vector(env: Any) -> bool:
    """True if `env` is a vector environment."""
    return isinstance(getattr(env, "num_envs", None), int)


def _tells(layer: Any) -> bool:
    """True to use the layer's `saved_state`; `saved_state` of vector environments includes running episodes."""
    return is_resumable(layer) and not is_vector(layer)


def _remembered(layer: Any) -> dict[str, Any]:
    names = _REMEMBERED.get(type(layer).__name__, ())
    return {name: vars(layer)[name] for name in names if name in vars(layer)}


def _in_words(plain: Any) -> str:
    """Return saved numbers as text that does not depend on their containers and NumPy types."""
    return repr(_bare(from_json(plain)))


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((repr(_bare(key)), _bare(part)) for key, part in value.items())
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    return [_bare(part) for part in value] if isinstance(value, tuple | list) else value


def _pair_of(env: Any) -> str:
    """Return the kind of methods that get and set the complete state of an unwrapped environment; "" if none."""
    if hasattr(type(env), "clone_state") and hasattr(env, "ale"):
        return "ale"
    get, put = getattr(type(env), "get_state", None), getattr(type(env), "set_state", None)
    return "state" if _takes(get, 0) and _takes(put, 1) else ""


def _taker_of(env: Any) -> Callable[[], Any]:
    pair = _pair_of(env)
    if pair == "ale":
        return partial(env.clone_state, include_rng=True)
    return env.get_state if pair == "state" else lambda: None


def _takes(method: Any, count: int) -> bool:
    try:
        inspect.signature(method).bind(None, *[None] * count)
    except (TypeError, ValueError):
        return False
    return True
