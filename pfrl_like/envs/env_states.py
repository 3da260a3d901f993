"""The state of an environment, layer by layer, with what it draws from global random streams."""

import base64
import inspect
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfrl_like.random_streams.streams import Streams
from pfrl_like.storage.budget import FLOOR, RATIO
from pfrl_like.utils.plain_values import from_json, to_json

#: Layers of gymnasium's and ours without a pair of methods, and all that they remember.
_REMEMBERED: Mapping[str, tuple[str, ...]] = {
    "TimeLimit": ("_elapsed_steps",), "OrderEnforcing": ("_has_reset",), "PassiveEnvChecker": (), "EnvAdapter": (),
}  # fmt: skip


def layers_of(env: Any) -> Iterator[Any]:
    """An environment's wrappers from the outside in, then itself."""
    while env is not None:
        yield env
        inside = getattr(env, "__dict__", {})
        env = inside.get("env", inside.get("user_env"))


def is_resumable(layer: Any) -> bool:
    """Whether it has `saved_state()` and `restore_state(state)`."""
    return all(callable(getattr(type(layer), name, None)) for name in ("saved_state", "restore_state"))


def can_be_left(env: Any) -> bool:
    """Whether its state can be taken and put back at any time: by `get_state()` and `set_state(state)`."""
    *wrappers, innermost = layers_of(env)
    return _pair_of(innermost) == "state" and all(
        is_resumable(layer) or type(layer).__name__ in _REMEMBERED for layer in wrappers
    )


def goes_on(env: Any) -> bool:
    """Whether a reset without arguments will go on with the game that runs, as `EpisodicLifeEnv` does."""
    return any(vars(layer).get("needs_real_reset") is False for layer in layers_of(env) if hasattr(layer, "__dict__"))


class EnvState(NamedTuple):
    """What the layers of an environment that can tell say of their states.

    Attributes:
        layers: Of its wrappers and itself.
        innermost: Its whole state, if it gives that.
        envs: Of a vector environment, what each of its environments says, if they can be reached.
    """

    layers: list[dict[str, Any]]
    innermost: Any
    envs: list[dict[str, Any]]

    def to_plain(self) -> dict[str, Any]:
        """In plain values.

        Raises:
            TypeError: If there is something in them that cannot be saved.
        """
        inside = self.innermost
        inside = to_json(inside.serialize() if hasattr(inside, "serialize") else inside)
        return {"layers": self.layers, "env": inside, "envs": self.envs}


class EnvLayers:
    """Asks the layers of an environment for their states; how, it finds out once.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        layers = list(layers_of(env))
        self._ask = [layer.saved_state if _tells(layer) else partial(_remembered, layer) for layer in layers]
        self._envs = [EnvLayers(each) for each in _envs_of(layers[-1])]
        self._take = _taker_of(layers[-1])

    def now(self) -> EnvState:
        """As they are."""
        envs = [each.now().to_plain() for each in self._envs]
        return EnvState([ask() for ask in self._ask], self._take(), envs)


def restore_env(env: Any, plain: Mapping[str, Any]) -> None:
    """Put back what `EnvState.to_plain` gave.

    Raises:
        ValueError: If it comes from another environment.
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
        from ale_py import ALEState  # the environment is its own

        layers[-1].restore_state(ALEState(state))


def check_taken(env: Any, plain: Mapping[str, Any]) -> None:
    """Refuse that environments have not become what `restore_env` has told them, as far as they give their states.

    Raises:
        ValueError: If the state of one is another.
    """
    *_, innermost = layers_of(env)
    if _pair_of(innermost) == "state":
        now = to_json(innermost.get_state())
        if now != plain["env"] and _in_words(now) != _in_words(plain["env"]):
            raise ValueError("after set_state(state), get_state() gives another state than it was given")
    for each, told in zip(_envs_of(innermost), plain["envs"], strict=True):
        check_taken(each, told)


def state_between_episodes(env: Any, *, alone: bool = False) -> dict[str, Any]:
    """What the next episodes of an environment, or of a vector environment, depend on beside what is done in them.

    Args:
        env: The environment.
        alone: Whether the global random streams belong to it.
    """
    *_, innermost = layers_of(env)
    elsewhere = hasattr(type(innermost), "states_between_episodes")  # its environments are in other processes
    return {
        "state": EnvLayers(env).now().to_plain(), "streams": Streams.of(env, with_global=alone).to_plain(),
        "envs": innermost.states_between_episodes() if elsewhere else None,
    }  # fmt: skip


def restore_between_episodes(env: Any, told: Mapping[str, Any], *, alone: bool = False) -> None:
    """Let the next episodes be those that would have followed `state_between_episodes`.

    Raises:
        ValueError: If it comes from another environment or is not taken, or the environments of a vector environment
            cannot be reached.
    """
    *_, innermost = layers_of(env)
    try:
        if told["streams"].keys() - Streams.of(env, with_global=alone).names:  # it makes some when it is reset
            env.reset()
        restore_env(env, told["state"])
        check_taken(env, told["state"])
        Streams.of(env, with_global=alone).restore(told["streams"])
        if told["envs"] is not None:
            innermost.restore_between_episodes(told["envs"])
        elif is_vector(innermost) and not (_envs_of(innermost) or _pair_of(innermost)):
            raise ValueError(f"nobody knows the states of the environments in a {type(innermost).__name__}")
    except ValueError:
        raise
    except Exception as error:  # of code of the user's
        raise ValueError(f"the environment does not take its state: {error!r:.200}") from error


def _envs_of(env: Any) -> Sequence[Any]:
    envs = getattr(env, "envs", None) if is_vector(env) else None
    return envs if isinstance(envs, list | tuple) else ()


def is_vector(env: Any) -> bool:
    """Whether this is several environments in one."""
    return isinstance(getattr(env, "num_envs", None), int)


def _tells(layer: Any) -> bool:
    """Whether it says all of itself; what vector environments say is of the episodes that run."""
    return is_resumable(layer) and not is_vector(layer)


def _remembered(layer: Any) -> dict[str, Any]:
    names = _REMEMBERED.get(type(layer).__name__, ())
    return {name: vars(layer)[name] for name in names if name in vars(layer)}


def _in_words(plain: Any) -> str:
    """What tells the numbers of saved values apart, but not what containers and types of NumPy they are held in."""
    return repr(_bare(from_json(plain)))


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((repr(_bare(key)), _bare(part)) for key, part in value.items())
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    return [_bare(part) for part in value] if isinstance(value, tuple | list) else value


def _pair_of(env: Any) -> str:
    """How an environment without its wrappers gives and takes its whole state; empty if it does not."""
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


_PYTHON, _NUMPY = struct.Struct("<625I?d"), struct.Struct("<2496si?d")
_Content = bytes | memoryview
_EVERY = 256
_CALL = 8  # characters that even the shortest text of a call has


def _python() -> bytes:
    _, numbers, gauss = random.getstate()
    return _PYTHON.pack(*numbers, gauss is not None, gauss or 0.0)


def _set_python(content: _Content) -> None:
    *numbers, has_gauss, gauss = _PYTHON.unpack(content)
    random.setstate((3, tuple(numbers), gauss if has_gauss else None))


def _numpy() -> bytes:
    state: Any = np.random.get_state()
    if isinstance(state, dict):  # another generator took the place of NumPy's own
        return bytes(_NUMPY.size)
    return _NUMPY.pack(state[1].tobytes(), *state[2:])


def _set_numpy(content: _Content) -> None:
    key, *rest = _NUMPY.unpack(content)
    np.random.set_state(("MT19937", np.frombuffer(key, np.uint32), *rest))


def _torch() -> bytes:
    return bytes(torch.get_rng_state().numpy())


def _set_torch(content: _Content) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(content), dtype=torch.uint8))


_STREAMS: dict[str, tuple[Callable[[], bytes], Callable[[_Content], None]]] = {
    "python": (_python, _set_python),
    "numpy": (_numpy, _set_numpy),
    "torch": (_torch, _set_torch),
}


class GlobalDraws:
    """Keeps the states of the global streams from which an environment draws, before each of its calls in an episode.

    Others draw from them between its calls, so that the states at the beginning do not tell those later on. Which ones
    it draws from is looked at in the first calls, and in every 256th after them.

    Args:
        first: How many calls are the first ones.

    Attributes:
        names: The streams that it has been seen to draw from.
        nbytes: What is kept of this episode takes about as much, in memory or in a file.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self.names: set[str] = set()
        self._calls = self._looked = 0
        self.clear()

    def clear(self) -> None:
        """Begin an episode."""
        self._kept: list[tuple[int, str]] = []
        self._chunks: list[bytes] = []
        self._compressor: Any = None  # it takes some memory
        self.nbytes = 0

    @property
    def interval(self) -> int:
        """Calls after which the next one for `call` comes."""
        return 1 if self.names or self._calls < self._first else _EVERY

    @property
    def are_due(self) -> bool:
        """Whether the next call is one for `call`."""
        return bool(self.names) or self._looks

    @property
    def _looks(self) -> bool:
        return self._calls < self._first or self._calls - self._looked >= _EVERY

    def count(self, calls: int) -> None:
        """Tell of calls that were made."""
        self._calls += calls

    def call(self, position: int, act: Callable[[], Any]) -> Any:
        """Act, and keep the states before it that are needed to do so again, at this number of an episode."""
        if looks := self._looks:
            self._looked = self._calls
        before = {name: take() for name, (take, _) in _STREAMS.items() if looks or name in self.names}
        result = act()
        if looks:
            self.names |= {name for name, state in before.items() if state != _STREAMS[name][0]()}
        for name in sorted(self.names):
            self._compressor = self._compressor or zlib.compressobj()
            self._kept.append((position, name))
            self._chunks.append(self._compressor.compress(before[name]))
            self.nbytes += 128 + 2 * len(self._chunks[-1])
        return result

    def to_plain(self) -> dict[str, Any]:
        """What was kept of the episode."""
        end = (self._compressor or zlib.compressobj()).copy().flush()
        content = b"".join(self._chunks) + end
        return {"calls": [list(item) for item in self._kept], "states": base64.b64encode(content).decode()}


def kept_states(plain: Mapping[str, Any]) -> dict[int, list[Callable[[], None]]]:
    """For each call that draws, what lets its streams be as they were; `plain` comes from `GlobalDraws.to_plain`.

    Raises:
        ValueError: If it does not.
    """
    sizes = {name: len(take()) for name, (take, _) in _STREAMS.items()}
    restoring: dict[int, list[Callable[[], None]]] = {}
    try:
        total = sum(sizes[name] for _, name in plain["calls"])
        most = max(FLOOR, RATIO * (len(plain["states"]) + _CALL * len(plain["calls"])))
        if total > most:
            raise ValueError(f"{total} bytes in a text that may hold {most}")
        packed = base64.b64decode(plain["states"], validate=True)
        content = memoryview(zlib.decompressobj().decompress(packed, total + 1))
        if len(content) != total:
            raise ValueError(f"{len(content)} bytes, expected {total}")
        start = 0
        for position, name in plain["calls"]:
            state, start = content[start : start + sizes[name]], start + sizes[name]
            restoring.setdefault(position, []).append(partial(_STREAMS[name][1], state))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"states of the global random streams cannot be read: {error!r:.200}") from error
    return restoring
