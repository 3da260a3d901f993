"""Functions that save and restore the state of an environment and of each of its wrappers.

A layer is a wrapper, or the environment inside all wrappers.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from pfrl_like.random_streams.streams import Streams
from pfrl_like.utils.plain_values import from_json, to_json

#: Attributes that make up the state of wrappers without `saved_state` and `restore_state`, keyed by class name.
_STATE_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
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


def can_save_state(env: Any) -> bool:
    """True if the environment has `get_state()` and `set_state(state)`, and the state of every wrapper can be saved."""
    *wrappers, innermost = layers_of(env)
    return _state_kind(innermost) == "state" and all(
        is_resumable(layer) or type(layer).__name__ in _STATE_ATTRIBUTES for layer in wrappers
    )


def continues_game(env: Any) -> bool:
    """True if `reset()` continues the current game, because `EpisodicLifeEnv` ended the episode after a lost life."""
    return any(vars(layer).get("needs_real_reset") is False for layer in layers_of(env) if hasattr(layer, "__dict__"))


class EnvState(NamedTuple):
    """States of an environment's layers.

    Attributes:
        layers: State of each layer, the outermost wrapper first: the result of its `saved_state()`, or the attributes
            in `_STATE_ATTRIBUTES`.
        innermost: Result of `get_state()` of the environment inside all wrappers (`clone_state()` for Atari games).
            None if the environment does not have this method.
        envs: State of each environment of a vector environment. Empty if the environments run in other processes, or
            if this is a single environment.
    """

    layers: list[dict[str, Any]]
    innermost: Any
    envs: list[dict[str, Any]]

    def to_plain(self) -> dict[str, Any]:
        """Return the states as JSON values.

        Raises:
            TypeError: If a value cannot be saved.
        """
        inside = self.innermost
        inside = to_json(inside.serialize() if hasattr(inside, "serialize") else inside)
        return {"layers": self.layers, "env": inside, "envs": self.envs}


class EnvLayers:
    """The layers of an environment. `read` returns their states.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        layers = list(layers_of(env))
        self._readers = [
            layer.saved_state if _has_own_state(layer) else partial(_attribute_state, layer) for layer in layers
        ]
        self._envs = [EnvLayers(each) for each in _envs_of(layers[-1])]
        self._read_innermost = _state_getter(layers[-1])

    def read(self) -> EnvState:
        """Return the current states."""
        envs = [each.read().to_plain() for each in self._envs]
        return EnvState([read() for read in self._readers], self._read_innermost(), envs)


def restore_env(env: Any, saved: Mapping[str, Any]) -> None:
    """Restore the states that `EnvState.to_plain` returned.

    Raises:
        ValueError: If the states were saved from an environment with other wrappers.
    """
    layers, state = list(layers_of(env)), from_json(saved["env"])
    if len(layers) != len(saved["layers"]):
        raise ValueError(f"the environment has {len(layers) - 1} wrappers, expected {len(saved['layers']) - 1}")
    for layer, layer_state in reversed(list(zip(layers, saved["layers"], strict=True))):
        if _has_own_state(layer):
            layer.restore_state(layer_state)
        else:
            vars(layer).update({name: layer_state[name] for name in _attribute_state(layer)})
    for each, env_state in zip(_envs_of(layers[-1]), saved["envs"], strict=True):
        restore_env(each, env_state)
    kind = _state_kind(layers[-1])
    if kind == "state":
        layers[-1].set_state(state)
    elif kind == "ale":
        from ale_py import ALEState

        layers[-1].restore_state(ALEState(state))


def check_restored(env: Any, saved: Mapping[str, Any]) -> None:
    """Raise an error if `get_state()` does not return the restored state. Skip environments without `get_state`.

    Raises:
        ValueError: If the state of an environment differs from the restored state.
    """
    *_, innermost = layers_of(env)
    if _state_kind(innermost) == "state":
        now = to_json(innermost.get_state())
        if now != saved["env"] and _comparable_text(now) != _comparable_text(saved["env"]):
            raise ValueError("after set_state(state), get_state() returns a different state")
    for each, env_state in zip(_envs_of(innermost), saved["envs"], strict=True):
        check_restored(each, env_state)


def state_between_episodes(env: Any, *, alone: bool = False) -> dict[str, Any]:
    """Return the state of an environment or vector environment between two episodes.

    After `restore_between_episodes`, the same actions lead to the same episodes.

    Args:
        env: The environment.
        alone: True if only this environment uses the global random streams. The streams are then saved, too.
    """
    *_, innermost = layers_of(env)
    in_workers = hasattr(type(innermost), "states_between_episodes")  # the environments run in other processes
    return {
        "state": EnvLayers(env).read().to_plain(), "streams": Streams.of(env, with_global=alone).to_plain(),
        "envs": innermost.states_between_episodes() if in_workers else None,
    }  # fmt: skip


def restore_between_episodes(env: Any, saved: Mapping[str, Any], *, alone: bool = False) -> None:
    """Restore the result of `state_between_episodes`.

    Raises:
        ValueError: If the state was saved from an environment with other wrappers, if the environment rejects it, or if
            the environments of a vector environment are not accessible.
    """
    *_, innermost = layers_of(env)
    try:
        if saved["streams"].keys() - Streams.of(env, with_global=alone).names:  # a reset creates the missing streams
            env.reset()
        restore_env(env, saved["state"])
        check_restored(env, saved["state"])
        Streams.of(env, with_global=alone).restore(saved["streams"])
        if saved["envs"] is not None:
            innermost.restore_between_episodes(saved["envs"])
        elif is_vector(innermost) and not (_envs_of(innermost) or _state_kind(innermost)):
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


def _has_own_state(layer: Any) -> bool:
    """True if the layer's `saved_state` is used. For vector environments it is not, because it contains episodes."""
    return is_resumable(layer) and not is_vector(layer)


def _attribute_state(layer: Any) -> dict[str, Any]:
    names = _STATE_ATTRIBUTES.get(type(layer).__name__, ())
    return {name: vars(layer)[name] for name in names if name in vars(layer)}


def _comparable_text(plain: Any) -> str:
    """Return a saved value as text that is the same for lists and tuples, and for NumPy and Python numbers."""
    return repr(_as_lists(from_json(plain)))


def _as_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((repr(_as_lists(key)), _as_lists(part)) for key, part in value.items())
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    return [_as_lists(part) for part in value] if isinstance(value, tuple | list) else value


def _state_kind(env: Any) -> str:
    """Return "ale" for an Atari game, "state" for an environment with `get_state` and `set_state`, else ""."""
    if hasattr(type(env), "clone_state") and hasattr(env, "ale"):
        return "ale"
    get, put = getattr(type(env), "get_state", None), getattr(type(env), "set_state", None)
    return "state" if _accepts(get, 0) and _accepts(put, 1) else ""


def _state_getter(env: Any) -> Callable[[], Any]:
    kind = _state_kind(env)
    if kind == "ale":
        return partial(env.clone_state, include_rng=True)
    return env.get_state if kind == "state" else lambda: None


def _accepts(method: Any, count: int) -> bool:
    try:
        inspect.signature(method).bind(None, *[None] * count)
    except (TypeError, ValueError):
        return False
    return True
