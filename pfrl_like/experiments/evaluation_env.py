"""Which environment to evaluate in when the user names none."""

import contextlib
import copy
from contextlib import AbstractContextManager
from typing import Any


def choose_eval_env(env: Any, eval_env: Any, *, vector: bool = False) -> tuple[AbstractContextManager[Any], str]:
    """Find an environment whose use leaves the training environment alone.

    Args:
        env: Training environment.
        eval_env: The user's choice, or None.
        vector: Whether `env` is a vector environment, whose episodes never all pause.

    Returns:
        A context manager that gives the environment, and closes it if it was made here; and how it was found.

    Raises:
        ValueError: If a vector environment can be neither made anew nor copied.
    """
    if eval_env is not None and not (vector and eval_env is env):
        return contextlib.nullcontext(eval_env), "eval_env given"
    fresh = _make(env)
    if fresh is not None:
        _share_running_statistics(env, fresh)
        return contextlib.closing(fresh), "fresh environment of the same specification"
    try:
        copied = copy.deepcopy(env)
    except Exception as error:  # whatever an environment's parts do when they are copied
        if vector:
            raise ValueError(
                f"eval_env is None, and env ({type(env).__name__}) can be neither made anew nor copied "
                f"({type(error).__name__}: {error}): give an eval_env"
            ) from error
        return contextlib.nullcontext(env), "the training environment, between episodes"
    _share_running_statistics(env, copied)
    return contextlib.nullcontext(copied), "deep copy of the training environment"


def check_apart(env: Any, eval_env: Any) -> None:
    """Refuse to evaluate in the environment of a training whose episodes go on.

    Raises:
        ValueError: If they are the same.
    """
    if eval_env is not None and getattr(eval_env, "unwrapped", eval_env) is getattr(env, "unwrapped", env):
        raise ValueError("eval_env is env, whose episode every evaluation would break off: make another one")


def _make(env: Any) -> Any:
    """A single environment of the same registered specification, wrappers included; None if there is none."""
    import gymnasium

    spec = getattr(env, "spec", None)
    if not isinstance(env, gymnasium.Env) or not isinstance(spec, gymnasium.envs.registration.EnvSpec):
        return None
    try:
        fresh = gymnasium.make(spec)
    except Exception:  # wrappers that cannot be made anew
        return None
    if fresh.observation_space == env.observation_space and fresh.action_space == env.action_space:
        return fresh
    fresh.close()
    return None


def _share_running_statistics(env: Any, own: Any) -> None:
    """Let normalising wrappers of an evaluation environment follow those of training, and add nothing to them."""
    while type(env) is type(own) and hasattr(env, "env"):
        if hasattr(own, "update_running_mean"):  # gymnasium's name for whether a wrapper still learns
            own.update_running_mean = False
            for name in ("obs_rms", "return_rms"):
                if hasattr(env, name):
                    setattr(own, name, getattr(env, name))
        env, own = env.env, own.env
