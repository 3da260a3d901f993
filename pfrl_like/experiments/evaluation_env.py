"""The choice of the evaluation environment."""

import contextlib
import copy
import functools
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
        agent: Agent. If one of its attributes is `env`, as in an agent that asks `env` for legal actions, it is
            evaluated in `env` itself, between episodes.
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
    if not vector and any(is_same_env(env, value) for value in getattr(agent, "__dict__", {}).values()):
        return in_training_env
    fresh = _make(env)
    if fresh is not None:
        _share_running_statistics(env, fresh)
        return contextlib.closing(fresh), "fresh environment of the same specification"
    try:
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
    if _is_modified(env):
        return None
    try:
        fresh = gymnasium.make(spec)
    except Exception:  # some wrappers cannot be made from a specification
        return None
    if fresh.observation_space == env.observation_space and fresh.action_space == env.action_space:
        return fresh
    fresh.close()
    return None


def _is_modified(env: Any) -> bool:
    """True if a function of `utils.env_modifiers` has replaced `step` of the environment or of an inner one."""
    while env is not None:
        if isinstance(getattr(env, "__dict__", {}).get("step"), functools.partial):
            return True
        env = getattr(env, "env", None)
    return False


def _share_running_statistics(env: Any, eval_env: Any) -> None:
    """Let the normalising wrappers of `eval_env` use the statistics of `env`'s wrappers, but not update them."""
    while type(env) is type(eval_env) and hasattr(env, "env"):
        if hasattr(eval_env, "update_running_mean"):  # gymnasium's flag for updates of the statistics
            eval_env.update_running_mean = False
            for name in ("obs_rms", "return_rms"):
                if hasattr(env, name):
                    setattr(eval_env, name, getattr(env, name))
        env, eval_env = env.env, eval_env.env
