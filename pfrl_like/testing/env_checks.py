"""`check_env`: whether an environment keeps to the interface that the runners rely on."""

import copy
import math
from typing import Any

import numpy as np

from pfrl_like.env import as_gymnasium
from pfrl_like.testing.requirement import difference, require
from pfrl_like.utils.checks import check_action, check_finite, check_observation
from pfrl_like.utils.env_values import seed_env

Trace = list[Any]


def check_env(env: Any, *, n_steps: int = 200, seed: int = 0) -> None:
    """Check an environment of any form that `as_gymnasium` takes: `check_env(YourEnv())`.

    It is stepped with random actions: observations have to fit the observation space and be finite, rewards have to be
    finite numbers, `terminated` and `truncated` truth values, infos dicts; the same seed and actions have to lead to
    the same numbers, if the environment takes a seed. Returning the same array every time, changed in place, is no
    mistake: the runners copy observations.

    Args:
        env: The environment, not used in the middle of an episode.
        n_steps: Steps of a trial.
        seed: Seed of the trial.

    Raises:
        AssertionError: Naming what does not hold.
        TypeError: If it is no single environment.
    """
    adapted = as_gymnasium(env)
    for name in ("observation_space", "action_space"):
        require(getattr(adapted, name, None) is not None, f"the environment has no {name}")
    actions = _draw_actions(adapted.action_space, n_steps, seed)
    if not _takes_seed(env, seed):
        _trace(adapted, actions, None)
        return
    first, second = (_trace(adapted, actions, seed) for _ in range(2))
    found = difference(first, second, "trace")
    require(found is None, f"the same seed and actions led to other numbers: {found} (trace[step][value])")


def _draw_actions(space: Any, n: int, seed: int) -> list[Any]:
    space = copy.deepcopy(space)
    space.seed(seed)
    actions = [space.sample() for _ in range(n)]
    for action in actions:
        _as_assertion(check_action, space, action)
    return actions


def _takes_seed(env: Any, seed: int) -> bool:
    try:
        seed_env(env, seed)
    except ValueError:
        return False
    return True


def _trace(env: Any, actions: list[Any], seed: int | None) -> Trace:
    """Everything that came from the environment, checked."""
    trace: Trace = []
    must_reset = True
    for action in actions:
        if must_reset:
            # Only the first reset is given the seed: the others go on in its stream.
            result = env.reset(seed=seed) if seed is not None and not trace else env.reset()
            require(
                isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict),
                f"reset returned {type(result).__name__}, expected (obs, info) with a dict as info",
            )
            obs = result[0]
            _check_obs(env, obs, "reset")
            trace.append([copy.deepcopy(obs)])
        result = env.step(action)
        require(isinstance(result, tuple) and len(result) == 5, f"step returned {result!r}, expected five values")
        obs, reward, terminated, truncated, info = result
        _check_obs(env, obs, "step")
        _check_reward(reward)
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            require(isinstance(flag, bool | np.bool_), f"{name} is {flag!r} ({type(flag).__name__}), expected a bool")
        require(isinstance(info, dict), f"info is a {type(info).__name__}, expected a dict")
        must_reset = bool(terminated or truncated or info.get("needs_reset", False))
        trace.append([copy.deepcopy(obs), float(reward), bool(terminated), bool(truncated)])
    return trace


def _check_obs(env: Any, obs: Any, source: str) -> None:
    _as_assertion(check_observation, env.observation_space, obs, f"the observation of {source}")
    _as_assertion(check_finite, f"the observation of {source}", obs)
    require(
        env.observation_space.contains(obs),
        f"the observation of {source} lies outside the observation space {env.observation_space}: {obs!r}",
    )


def _check_reward(reward: Any) -> None:
    is_number = np.shape(reward) == () and np.asarray(reward).dtype.kind in "fiub"
    require(is_number, f"reward is {reward!r} ({type(reward).__name__}), expected one number")
    require(math.isfinite(reward), f"reward is {reward!r}, expected a finite number")


def _as_assertion(check: Any, *arguments: Any) -> None:
    try:
        check(*arguments)
    except ValueError as error:
        raise AssertionError(str(error)) from error
