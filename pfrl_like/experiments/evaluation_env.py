"""Which environment to evaluate in, and how to use it without a trace in training."""

import contextlib
import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from pfrl_like.env import is_gymnasium, seed_env
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments.sources import is_vector
from pfrl_like.utils.isolated_rng import isolated_rng


class EvaluationEnv:
    """An environment that the user has given for evaluation: its own random streams go on from one to the next.

    Attributes:
        env: The environment.
        choice: What it is, in words.
    """

    choice = "eval_env given"

    def __init__(self, env: Any) -> None:
        self.env = env

    @contextlib.contextmanager
    def ready(self, seed: int) -> Iterator[Any]:
        """Lend the environment for one evaluation.

        Args:
            seed: Fixes what an environment made by the library will draw.
        """
        yield self.env

    def close(self) -> None:
        """Close the environment, if it was made here."""


class FreshEnv(EvaluationEnv):
    """An environment made anew from a specification, seeded at every evaluation."""

    choice = "fresh environment of the same specification"

    @contextlib.contextmanager
    def ready(self, seed: int) -> Iterator[Any]:
        """Lend it, seeded."""
        seed_for_next_episode(self.env, seed)
        yield self.env

    def close(self) -> None:
        """Close it."""
        self.env.close()


class CopiedEnv(EvaluationEnv):
    """A deep copy of the training environment, made and seeded at every evaluation.

    So it has what training has changed, such as the running statistics of a wrapper.
    """

    choice = "deep copy of the training environment"

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._original = env

    @contextlib.contextmanager
    def ready(self, seed: int) -> Iterator[Any]:
        """Lend a copy."""
        self.env = copy.deepcopy(self._original)
        with contextlib.suppress(ValueError):  # an environment that takes no seed
            seed_for_next_episode(self.env, seed)
        yield self.env


class SharedEnv(EvaluationEnv):
    """The training environment itself, between episodes; its generator is put back afterwards."""

    choice = "the training environment, between episodes"

    @contextlib.contextmanager
    def ready(self, seed: int) -> Iterator[Any]:
        """Lend it, and restore its generator."""
        generator = getattr(getattr(self.env, "unwrapped", self.env), "np_random", None)
        bits = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)
        state = None if bits is None else bits.state
        try:
            yield self.env
        finally:
            if bits is not None:
                bits.state = state


def choose_evaluation_env(env: Any, eval_env: Any) -> EvaluationEnv:
    """Find an environment whose use leaves training alone.

    Args:
        env: Training environment, or vector environment.
        eval_env: The user's choice; None, or `env` itself, leaves it to the library: a fresh environment of the same
            specification, else a deep copy, else (not if `env` is a vector environment, whose episodes never all
            pause) `env` between episodes.

    Raises:
        ValueError: If a vector environment can be neither made anew nor copied.
    """
    if eval_env is not None and eval_env is not env:
        return EvaluationEnv(eval_env)
    with isolated_rng(env):
        fresh = make_fresh(env)
        if fresh is not None:
            return FreshEnv(fresh)
        try:
            copy.deepcopy(env)
        except Exception as error:  # whatever an environment's parts do when they are copied
            if not is_vector(env):
                return SharedEnv(env)
            raise ValueError(
                f"eval_env is {'None' if eval_env is None else 'env itself'}, and env ({type(env).__name__}) can be "
                f"neither made anew nor copied ({type(error).__name__}: {error}): give an eval_env of its own"
            ) from error
    return CopiedEnv(env)


def make_fresh(env: Any) -> Any:
    """An environment of the same registered specification, wrappers included; None if that is not known to do.

    A vector environment of PFRL's form becomes a `SerialVectorEnv`.
    """
    if not is_vector(env):
        return _make("make", env) if is_gymnasium(env) and not _learns(env) else None
    gymnasium_vector = getattr(sys.modules.get("gymnasium.vector"), "VectorEnv", ())
    if isinstance(env, gymnasium_vector):
        return None if _learns(env) else _make("make_vec", env)
    envs: Sequence[Any] | None = getattr(env, "envs", None)
    made = [_make("make", env) for _ in range(env.num_envs)] if envs is None else [make_fresh(one) for one in envs]
    return None if None in made else SerialVectorEnv(made)


def seed_for_next_episode(env: Any, seed: int) -> None:
    """Seed an environment, or each of a vector environment.

    Raises:
        ValueError: If it takes no seed.
    """
    if callable(getattr(env, "seed", None)) and is_vector(env):
        env.seed([seed + i for i in range(env.num_envs)])
    elif is_vector(env) or not seed_env(env, seed):
        env.reset(seed=seed)


def _make(function: str, env: Any) -> Any:
    gymnasium = sys.modules.get("gymnasium")
    spec = getattr(env, "spec", None)
    if gymnasium is None or not isinstance(spec, gymnasium.envs.registration.EnvSpec):
        return None
    try:
        fresh = getattr(gymnasium, function)(copy.deepcopy(spec))
    except Exception:  # wrappers that cannot be made anew
        return None
    if fresh.observation_space == env.observation_space and fresh.action_space == env.action_space:
        return fresh
    fresh.close()
    return None


def _learns(env: Any) -> bool:
    """Whether a wrapper keeps running statistics, which an environment made anew would lack."""
    for _ in range(100):  # layers of wrappers
        if env is None or {"obs_rms", "return_rms"} & vars(env).keys():
            return env is not None
        env = vars(env).get("env")
    return False
