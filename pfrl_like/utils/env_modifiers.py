"""Functions that change an environment in place: its `step`, and where needed its `reset` and `close`.

The functions accept environments whose `step` returns (obs, reward, done, info) or (obs, reward, terminated, truncated,
info). A copy of a changed environment (`copy.deepcopy`, a pickle) is changed in the same way, and steps itself, not the
original.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pfrl_like.utils.checks import check_counts, takes_integral_floats

_Step = Callable[[Any], tuple[Any, ...]]


def make_rendered(env: Any, *render_args: Any, **render_kwargs: Any) -> None:
    """Render an environment after every step.

    Args:
        env: Environment; it is changed in place. Environments of gymnasium or gym 0.26 need a `render_mode`.
        *render_args: Positional arguments of `env.render`.
        **render_kwargs: Keyword arguments of `env.render`. If the `render` inside all wrappers accepts the argument
            `close`, as in gym before 0.9, `env.close` first calls `env.render` with these arguments and `close=True`.
    """
    parameters = inspect.signature(getattr(env, "unwrapped", env).render).parameters.values()
    if any(each.name == "close" or each.kind is each.VAR_KEYWORD for each in parameters):
        env.close = functools.partial(_close_rendered, env.close, env, render_args, render_kwargs)
    env.step = functools.partial(_rendered, env.step, env, render_args, render_kwargs)


def _rendered(step: _Step, env: Any, args: Sequence[Any], kwargs: Mapping[str, Any], action: Any) -> Any:
    result = step(action)
    env.render(*args, **kwargs)
    return result


def _close_rendered(close: Callable[[], None], env: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    env.render(*args, close=True, **kwargs)
    close()


@takes_integral_floats
def make_timestep_limited(env: Any, timestep_limit: int) -> None:
    """Limit the episodes of an environment to a number of steps.

    Step `timestep_limit` of an episode returns `done` True, as in PFRL, so that it counts as the end of the task. If
    `step` returns five values, it returns `truncated` True instead, and agents bootstrap from the last observation.

    Args:
        env: Environment; it is changed in place.
        timestep_limit: Maximum number of steps in an episode.

    Raises:
        ValueError: If `timestep_limit` is below 1.
        TypeError: If `timestep_limit` is not an integer.
    """
    check_counts(timestep_limit=timestep_limit)
    steps = [0]  # number of steps in the running episode, shared by both functions
    env.step = functools.partial(_limited, env.step, steps, timestep_limit)
    env.reset = functools.partial(_reset_limited, env.reset, steps)


def _limited(step: _Step, steps: list[int], limit: int, action: Any) -> tuple[Any, ...]:
    *values, last_flag, info = step(action)
    steps[0] += 1
    return (*values, True if steps[0] >= limit else last_flag, info)


def _reset_limited(reset: Callable[..., Any], steps: list[int], *args: Any, **kwargs: Any) -> Any:
    steps[0] = 0
    return reset(*args, **kwargs)


def make_action_filtered(env: Any, action_filter: Callable[[Any], Any]) -> None:
    """Change the actions before an environment executes them.

    Args:
        env: Environment; it is changed in place.
        action_filter: Function from an action to the action that the environment executes.
    """
    env.step = functools.partial(_action_filtered, env.step, action_filter)


def _action_filtered(step: _Step, action_filter: Callable[[Any], Any], action: Any) -> Any:
    return step(action_filter(action))


def make_reward_filtered(env: Any, reward_filter: Callable[[Any], Any]) -> None:
    """Change the rewards that an environment returns.

    Args:
        env: Environment; it is changed in place.
        reward_filter: Function from a reward to the new reward, such as a `NormalizedRewardFilter`.
    """
    env.step = functools.partial(_reward_filtered, env.step, reward_filter)


def _reward_filtered(step: _Step, reward_filter: Callable[[Any], Any], action: Any) -> tuple[Any, ...]:
    obs, reward, *rest = step(action)
    return (obs, reward_filter(reward), *rest)


def make_reward_clipped(env: Any, low: float | None, high: float | None) -> None:
    """Clip the rewards that an environment returns.

    Args:
        env: Environment; it is changed in place.
        low: Minimum reward. If None, there is no minimum.
        high: Maximum reward. If None, there is no maximum.
    """
    make_reward_filtered(env, functools.partial(np.clip, a_min=low, a_max=high))


@takes_integral_floats
def make_action_repeated(env: Any, n_times: int) -> None:
    """Execute every action several times, until the episode ends.

    A step then returns the sum of the rewards and the other values of the last execution.

    Args:
        env: Environment; it is changed in place.
        n_times: Number of executions of an action.

    Raises:
        ValueError: If `n_times` is below 1.
        TypeError: If `n_times` is not an integer.
    """
    check_counts(n_times=n_times)
    env.step = functools.partial(_repeated, env.step, n_times)


def _repeated(step: _Step, n_times: int, action: Any) -> tuple[Any, ...]:
    total_reward = 0
    for _ in range(n_times):
        obs, reward, *rest = step(action)
        total_reward += reward
        if any(rest[:-1]):  # done, or terminated and truncated
            break
    return (obs, total_reward, *rest)
