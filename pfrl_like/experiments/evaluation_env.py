"""The choice of the evaluation environment."""

import contextlib
import copy
import functools
import types
from contextlib import AbstractContextManager
from typing import Any

#: Description of the choice if a vector environment is used for training and evaluation. The source of training steps
#: then saves its state.
SHARED_ENV = "the training environment"


def choose_eval_env(
    env: Any, eval_env: Any, *, agent: Any = None, vector: bool = False
) -> tuple[AbstractContextManager[Any], str]:
    """Choose the evaluation environment: `eval_env`, a new environment, a copy of `env`, or `env` itself.

    Args:
        env: Training environment.
        eval_env: Evaluation environment that the user passed. If None, an environment is made from `env`.
        agent: Agent. If an attribute of the agent or of its explorer is `env` or a method of `env`, as in an agent that
            asks `env` for legal actions, it is evaluated in `env` itself, between episodes. So is any agent if the user
            has replaced `step` or `reset` of `env` by a function, because a copy of this function may call `env`.
        vector: True if `env` is a vector environment. It is used for evaluation only if it is also passed as
            `eval_env`, because an evaluation discards its running episodes.

    Returns:
        A context manager that yields the environment, and a description of the choice. The context manager also closes
        the environment if the environment was made from a specification.

    Raises:
        ValueError: If a vector environment can neither be made again from its specification nor be copied.
    """
    if eval_env is not None:
        is_shared = vector and is_same_env(env, eval_env)
        return contextlib.nullcontext(eval_env), SHARED_ENV if is_shared else "eval_env given"
    in_training_env = contextlib.nullcontext(env), "the training environment, between episodes"
    if not vector and _is_held(env, agent):
        return in_training_env
    layers = [layer for each in (env, *(getattr(env, "envs", ()) if vector else ())) for layer in _layers(each)]
    found = [_attributes(layer).get(name) for layer in layers for name in ("step", "reset")]
    replaced = [step for step in found if callable(step)]
    fresh = None if replaced else _make(env)
    if fresh is not None:
        _share_running_statistics(env, fresh)
        return contextlib.closing(fresh), "fresh environment of the same specification"
    try:
        if not all(map(_can_be_copied, replaced)):
            raise TypeError("a function replaces step or reset, and a copy of this function may call env")
        copied = copy.deepcopy(env)
    except Exception as error:  # an environment may contain objects that cannot be copied
        if vector:
            text = f"eval_env is None, and env ({type(env).__name__}) cannot be copied ({error!r})"
            raise ValueError(f"{text}: pass a single or a vector environment as eval_env") from error
        return in_training_env
    _share_running_statistics(env, copied)
    return contextlib.nullcontext(copied), "deep copy of the training environment"


def is_same_env(env: Any, other: Any) -> bool:
    """True if two environments are the same inside all wrappers. None is no environment."""
    return other is not None and getattr(other, "unwrapped", other) is getattr(env, "unwrapped", env)


def check_apart(env: Any, eval_env: Any) -> None:
    """Check that the evaluation environment is not the training environment.

    Raises:
        ValueError: If `eval_env` is `env`, because an evaluation would interrupt the training episode.
    """
    if is_same_env(env, eval_env):
        raise ValueError("eval_env is env: an evaluation would interrupt training; pass another environment")


def _make(env: Any) -> Any:
    """Return a new single environment with the specification and wrappers of `env`; None if this is impossible."""
    import gymnasium

    spec = getattr(env, "spec", None)
    if not isinstance(env, gymnasium.Env) or not isinstance(spec, gymnasium.envs.registration.EnvSpec):
        return None
    try:
        fresh = gymnasium.make(spec)
    except Exception:  # some wrappers cannot be made from a specification
        return None
    if fresh.observation_space == env.observation_space and fresh.action_space == env.action_space:
        return fresh
    fresh.close()
    return None


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes in `value.__dict__`. No code of the object is called, which might fail."""
    return getattr(value, "__dict__", {})


def _layers(env: Any) -> list[Any]:
    """Return an environment and the environments inside it, the outermost first."""
    layers: list[Any] = []
    while env is not None and all(env is not layer for layer in layers):
        layers.append(env)
        env = _attributes(env).get("env")
    return layers


def _is_held(env: Any, agent: Any) -> bool:
    """True if an attribute of the agent or of its explorer is the environment, an inner one, or a method of them."""
    values = [*_attributes(agent).values(), *_attributes(_attributes(agent).get("explorer")).values()]
    owners = [value.__self__ if type(value) is types.MethodType else value for value in values]
    inside = {id(layer) for layer in (*_layers(env), getattr(env, "unwrapped", env))}
    return any(id(layer) in inside for owner in owners for layer in _layers(owner))


def _can_be_copied(step: Any) -> bool:
    """True if a copy of this `step` or `reset` calls only the copied environment.

    This holds for methods that a class defines, also after changes by `utils.env_modifiers`: these are partial
    functions whose first argument is the earlier method.
    """
    while isinstance(step, functools.partial) and step.args:
        step = step.args[0]
    return type(step) is types.MethodType and getattr(type(step.__self__), step.__name__, None) is step.__func__


def _share_running_statistics(env: Any, eval_env: Any) -> None:
    """Let the normalising wrappers of `eval_env` use the statistics of `env`'s wrappers, but not update them."""
    while type(env) is type(eval_env) and hasattr(env, "env"):
        if hasattr(eval_env, "update_running_mean"):  # gymnasium's flag for updates of the statistics
            eval_env.update_running_mean = False
            names = {"obs_rms", "return_rms"}
            vars(eval_env).update({name: value for name, value in vars(env).items() if name in names})
        env, eval_env = env.env, eval_env.env
