"""Saved and restored states of environments, one for each layer of wrappers."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from pfrl_like.random_streams.streams import Streams
from pfrl_like.utils.plain_values import from_json, to_json

#: Layers without `saved_state` and `restore_state`, gymnasium's and ours, and all attributes that they remember.
_REMEMBERED: Mapping[str, tuple[str, ...]] = {
    "TimeLimit": ("_elapsed_steps",), "OrderEnforcing": ("_has_reset",), "PassiveEnvChecker": (), "EnvAdapter": (),
}  # fmt: skip


def layers_of(env: Any) -> Iterator[Any]:
    """Yield an environment's wrappers from the outside in, then the environment itself."""
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
    """True if a reset without arguments continues the running game, as `EpisodicLifeEnv` does."""
    return any(vars(layer).get("needs_real_reset") is False for layer in layers_of(env) if hasattr(layer, "__dict__"))


class EnvState(NamedTuple):
    """States of an environment's layers.

    Attributes:
        layers: States of its wrappers and of itself.
        innermost: Whole state of the innermost environment, None if it gives none.
        envs: States of each environment of a vector environment, if they can be reached.
    """

    layers: list[dict[str, Any]]
    innermost: Any
    envs: list[dict[str, Any]]

    def to_plain(self) -> dict[str, Any]:
        """The states as plain values.

        Raises:
            TypeError: If a value cannot be saved.
        """
        inside = self.innermost
        inside = to_json(inside.serialize() if hasattr(inside, "serialize") else inside)
        return {"layers": self.layers, "env": inside, "envs": self.envs}


class EnvLayers:
    """Reads the states of an environment's layers; the way to read each one is determined once.

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
        ValueError: If they come from another environment.
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
        from ale_py import ALEState  # the environment is one of ale_py's

        layers[-1].restore_state(ALEState(state))


def check_taken(env: Any, plain: Mapping[str, Any]) -> None:
    """Refuse environments whose state differs from the one given to `restore_env`, as far as they return their state.

    Raises:
        ValueError: If a state differs.
    """
    *_, innermost = layers_of(env)
    if _pair_of(innermost) == "state":
        now = to_json(innermost.get_state())
        if now != plain["env"] and _in_words(now) != _in_words(plain["env"]):
            raise ValueError("after set_state(state), get_state() gives another state than it was given")
    for each, told in zip(_envs_of(innermost), plain["envs"], strict=True):
        check_taken(each, told)


def state_between_episodes(env: Any, *, alone: bool = False) -> dict[str, Any]:
    """State, besides the agent's actions, that determines the next episodes of an environment or a vector environment.

    Args:
        env: The environment.
        alone: Whether the global random streams belong to it.
    """
    *_, innermost = layers_of(env)
    elsewhere = hasattr(type(innermost), "states_between_episodes")  # its environments run in other processes
    return {
        "state": EnvLayers(env).now().to_plain(), "streams": Streams.of(env, with_global=alone).to_plain(),
        "envs": innermost.states_between_episodes() if elsewhere else None,
    }  # fmt: skip


def restore_between_episodes(env: Any, told: Mapping[str, Any], *, alone: bool = False) -> None:
    """Restore a state of `state_between_episodes`, so that the same episodes follow.

    Raises:
        ValueError: If it comes from another environment or is rejected, or the environments of a vector environment
            cannot be reached.
    """
    *_, innermost = layers_of(env)
    try:
        if told["streams"].keys() - Streams.of(env, with_global=alone).names:  # a reset creates the others
            env.reset()
        restore_env(env, told["state"])
        check_taken(env, told["state"])
        Streams.of(env, with_global=alone).restore(told["streams"])
        if told["envs"] is not None:
            innermost.restore_between_episodes(told["envs"])
        elif is_vector(innermost) and not (_envs_of(innermost) or _pair_of(innermost)):
            raise ValueError(f"nobody knows the states of the environments in {type(innermost).__name__}")
    except ValueError:
        raise
    except Exception as error:  # raised by the user's code
        raise ValueError(f"the environment does not take its state: {error!r:.200}") from error


def _envs_of(env: Any) -> Sequence[Any]:
    envs = getattr(env, "envs", None) if is_vector(env) else None
    return envs if isinstance(envs, list | tuple) else ()


def is_vector(env: Any) -> bool:
    """True if this is a vector environment."""
    return isinstance(getattr(env, "num_envs", None), int)


def _tells(layer: Any) -> bool:
    """True if the layer's own `saved_state` is used; that of vector environments covers running episodes."""
    return is_resumable(layer) and not is_vector(layer)


def _remembered(layer: Any) -> dict[str, Any]:
    names = _REMEMBERED.get(type(layer).__name__, ())
    return {name: vars(layer)[name] for name in names if name in vars(layer)}


def _in_words(plain: Any) -> str:
    """Text of saved numbers, independent of the containers and NumPy types that hold them."""
    return repr(_bare(from_json(plain)))


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((repr(_bare(key)), _bare(part)) for key, part in value.items())
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    return [_bare(part) for part in value] if isinstance(value, tuple | list) else value


def _pair_of(env: Any) -> str:
    """Kind of the methods that read and set the whole state of an unwrapped environment; empty if there are none."""
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
