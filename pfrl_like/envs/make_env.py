"""Environments by id: `make_env`, `make_vec`, and the conversion of arguments that may be environment ids."""

import contextlib
import difflib
import functools
import importlib
import importlib.util
import inspect
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from pfrl_like.envs.env_states import is_vector
from pfrl_like.envs.multiprocess_vector_env import MultiprocessVectorEnv
from pfrl_like.envs.serial_vector_env import SerialVectorEnv
from pfrl_like.errors import MissingDependencyError
from pfrl_like.random_streams.streams import global_entropy
from pfrl_like.utils.checks import check_counts, check_flags, takes_integral_floats
from pfrl_like.utils.env_values import seed_env, takes_at_reset

Function = TypeVar("Function", bound=Callable[..., Any])

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_MODULES, _PACKAGES, _NEEDED = _TABLES["modules"], _TABLES["packages"], _TABLES["needed"]


@takes_integral_floats
def make_env(env: Any, *, seed: int | None = None, **kwargs: Any) -> Any:
    """Make an environment from its id, for example `make_env("CartPole-v1", seed=0)`.

    The packages that register the games of ale-py ("ALE/Pong-v5") and MinAtar ("MinAtar/Breakout-v1") and the
    environments of pybullet-envs-gymnasium ("HopperBulletEnv-v0") are imported if an id needs them. Observations,
    actions and rewards are not changed: use the wrappers of `pfrl_like.wrappers`.

    Args:
        env: Environment id of gymnasium, also in the form "module:id", which first imports the module; or a
            specification (`gymnasium.spec(id)`). An environment is also accepted and returned, so that a function can
            accept ids and environments.
        seed: Seed of the environment and of its action space. The environment is reset with this seed. If None, the
            environment is not seeded.
        **kwargs: Arguments of `gymnasium.make`, for example `render_mode`.

    Returns:
        The environment.

    Raises:
        ValueError: If no environment is registered under the id. The message contains the nearest registered ids.
        TypeError: If `env` is neither an id nor an environment, or if `env` is an environment and `kwargs` are given.
        MissingDependencyError: If a package is missing. The message names the extra that installs the package.
    """
    if isinstance(env, str | EnvSpec):
        env = _make(env, "env", kwargs)
    elif isinstance(env, type) or not all(callable(getattr(env, name, None)) for name in ("reset", "step")):
        expected = "an environment id, or an environment: an object with the methods reset and step"
        raise TypeError(f"env is {env!r:.80} ({type(env).__name__}), expected {expected}")
    elif kwargs:
        raise TypeError(f"env is an environment and {', '.join(kwargs)} is given, expected an id: only ids take kwargs")
    if seed is not None:
        _seed(env, seed)
    return env


@takes_integral_floats
def make_vec(
    env: str | EnvSpec | Callable[..., Any], n: int, *, seed: int | None = None, processes: bool = False, **kwargs: Any
) -> SerialVectorEnv | MultiprocessVectorEnv:
    """Make a vector environment, for example `make_vec("CartPole-v1", 8, seed=0)`.

    Args:
        env: Environment id, as in `make_env`, or a function that makes one environment. If the function has a
            positional parameter without a default, it is called with the index of the environment, otherwise without
            arguments.
        n: Number of environments.
        seed: The environments get the seeds `seed`, `seed + 1`, ... at their first reset, and `action_space` of the
            result gets `seed`. If None, the environments are not seeded.
        processes: True to run each environment in its own process, in a `MultiprocessVectorEnv`. The call must then be
            inside `if __name__ == "__main__":` in the script. False for a `SerialVectorEnv`.
        **kwargs: Arguments of `gymnasium.make`, or of the function.

    Raises:
        ValueError: If no environment is registered under the id, if `n` is less than 1, or if the environments accept
            no seed.
        TypeError: If `env` is neither an id nor a function, or an argument has the wrong type.
        MissingDependencyError: If a package is missing. The message names the extra that installs the package.
        WorkerError: If the construction of an environment in another process fails.
    """
    check_counts(n=n)
    check_flags(processes=processes)
    if isinstance(env, str | EnvSpec):
        # A worker does not import the modules that have registered environments here, so it gets the specification.
        makers = [functools.partial(make_env, _spec(env, "env", kwargs) if processes else env, **kwargs)] * n
    elif callable(env):
        make = functools.partial(env, **kwargs)
        has_index = any(
            parameter.kind <= parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty
            for parameter in inspect.signature(make).parameters.values()
        )
        makers = [functools.partial(make, i) if has_index else make for i in range(n)]
    else:
        expected = f"an environment id or a function that makes an environment, to make {n} separate environments"
        raise TypeError(f"env is {env!r:.80} ({type(env).__name__}), expected {expected}")
    vec = MultiprocessVectorEnv(makers) if processes else SerialVectorEnv([make() for make in makers])
    if seed is not None:
        _seed(vec, seed)
    return vec


def installed_env_ids() -> list[str]:
    """Return the ids of the environments whose packages are installed, sorted. Of each one only the newest version.

    The packages in the list of `make_env` register their environments.
    """
    for module in dict.fromkeys(_MODULES.values()):
        if _is_installed(module.partition(".")[0]):
            _register(module)
    newest: dict[tuple[str | None, str], EnvSpec] = {}
    for spec in gymnasium.registry.values():
        start, _, _ = spec.entry_point.rpartition(".") if isinstance(spec.entry_point, str) else ("", "", "")
        needed = next((module for part, module in _NEEDED.items() if start.startswith(part)), "gymnasium")
        known = newest.get((spec.namespace, spec.name))
        if start and _is_installed(needed) and (known is None or (known.version or 0) < (spec.version or 0)):
            newest[spec.namespace, spec.name] = spec
    return sorted(spec.id for spec in newest.values())


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _register(module: str) -> None:
    """Import a module, and register its environments."""
    getattr(importlib.import_module(module), "register_envs", lambda: None)()


def _make(env: str | EnvSpec, name: str, kwargs: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Call `gymnasium.make`. `name` is the name of the argument in error messages."""
    env_id = env if isinstance(env, str) else env.id
    registered = env_id.rpartition(":")[2]  # without the module
    try:
        for part, module in _MODULES.items():
            if part in env_id and not any(part in each for each in gymnasium.registry):
                _register(module)
        return gymnasium.make(env, **kwargs)
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        missing = getattr(error, "name", None) or getattr(error.__cause__, "name", None) or ""
        if missing.partition(".")[0] not in _PACKAGES:
            raise
        package, extra = _PACKAGES[missing.partition(".")[0]]
        raise MissingDependencyError(package, f"the environment {env_id}", extra) from error
    except gymnasium.error.Error as error:
        if registered in gymnasium.registry or isinstance(env, EnvSpec):
            raise
        ids = {each.lower(): each for each in gymnasium.registry}
        matches = difflib.get_close_matches
        near = [ids[each] for each in matches(registered.lower(), ids) or matches(registered.lower(), ids, cutoff=0)]
        raise ValueError(
            f"{name} is {env_id!r}, expected the id of a registered environment, such as {', '.join(near)}; to use "
            f"your own environment, first import the module that registers it, or write 'module:{registered}'"
        ) from error


def _spec(env: str | EnvSpec, name: str, kwargs: dict[str, Any]) -> EnvSpec:
    """Return the specification of an environment. The environment is made once, so that errors surface early."""
    made = _make(env, name, kwargs)
    made.close()
    assert made.unwrapped.spec is not None
    return env if isinstance(env, EnvSpec) else gymnasium.spec(made.unwrapped.spec.id)


def _seed(env: Any, seed: int) -> None:
    """Seed an environment and its action space. Environment i of a vector environment gets `seed + i`."""
    check_counts(least=0, seed=seed)
    if is_vector(env) and not takes_at_reset(env, "seed"):
        env.seed([seed + i for i in range(env.num_envs)])
    elif not seed_env(env, seed):
        env.reset(seed=seed)
    if hasattr(getattr(env, "action_space", None), "seed"):
        env.action_space.seed(seed)


def _make_seeded(env: str | EnvSpec, name: str) -> Any:
    """Make an environment for the argument `name` of a runner. Its seed depends on the global NumPy stream."""
    made = _make(env, name, {})
    _seed(made, int(np.random.SeedSequence([global_entropy(), *name.encode()]).generate_state(1)[0]))
    return made


@contextlib.contextmanager
def open_env(env: Any, name: str = "env", *, vector: bool = False) -> Iterator[Any]:
    """Yield the environment for an argument that may be an environment id.

    An environment that is made from an id is closed at the end. It is seeded with a number that depends on the state of
    the global NumPy stream, which is not changed: after `set_random_seed`, two runs have equal environments.

    Args:
        env: Environment id or environment. Other values are yielded unchanged, so that the caller can check them.
        name: Name of the argument, for error messages. Arguments with different names have different seeds.
        vector: True to yield a `SerialVectorEnv` of one environment instead of a single environment.

    Raises:
        ValueError: If no environment is registered under the id.
        MissingDependencyError: If a package is missing.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(env, str | EnvSpec):
            env = stack.enter_context(contextlib.closing(_make_seeded(env, name)))
        is_single = not isinstance(env, type) and hasattr(env, "reset") and not hasattr(env, "num_envs")
        yield SerialVectorEnv([env]) if vector and is_single else env


def accept_env_ids(*names: str, vector: str = "") -> Callable[[Function], Function]:
    """Return a decorator: the function then accepts environment ids, which are converted by `open_env`.

    Args:
        *names: Names of the arguments that may be ids of single environments.
        vector: Name of the argument that may be a single environment or its id, although the function needs a vector
            environment. Empty if there is none.
    """

    def decorate(function: Function) -> Function:
        places = {name: place for place, name in enumerate(inspect.signature(function).parameters)}

        @functools.wraps(function)
        def with_envs(*args: Any, **kwargs: Any) -> Any:
            arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
            with contextlib.ExitStack() as stack:
                for name in filter(None, (*names, vector)):
                    for key in {name, places[name]} & arguments.keys():
                        env = open_env(arguments[key], name, vector=name == vector)
                        arguments[key] = stack.enter_context(env)
                return function(*map(arguments.get, range(len(args))), **{key: arguments[key] for key in kwargs})

        return cast(Function, with_envs)

    return decorate


def env_factory(make_env: Any) -> Any:
    """Return a function `make_env(process_index, test)` for an argument that may be an environment id.

    The environment is made once, so that errors surface before the processes start.
    """
    if not isinstance(make_env, str | EnvSpec):
        return make_env
    spec = _spec(make_env, "make_env", {})
    return lambda process_index, test: _make_seeded(spec, "eval_env" if test else "env")
