"""Sources of the training loop: one environment, or several at once. Evaluation ticks them, too."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pfrl_like.env import as_gymnasium, reset_values, step_values
from pfrl_like.envs import as_vector_stream
from pfrl_like.experiments.loop import Episode
from pfrl_like.utils.checks import (
    check_action,
    check_actions,
    check_finite,
    check_observation,
    check_observations,
    check_step,
)

MASK = "action_mask"
_NO_EPISODE_ENDED: tuple[int, Sequence[Episode]] = (1, ())


class SerialSource:
    """One agent in one environment.

    An agent hears of `info["action_mask"]`, by a keyword of that name, if its `act` takes it.

    Args:
        agent: Anything with `act` and `observe`.
        env: Environment of any of the forms that `as_gymnasium` takes.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
        checks: Whether actions, observations and rewards are checked.
    """

    def __init__(self, agent: Any, env: Any, max_episode_len: int | None = None, *, checks: bool = True) -> None:
        self.agent = agent
        self.env = as_gymnasium(env)
        self.max_episode_len = max_episode_len
        self.checks = checks
        self.observation_space = getattr(self.env, "observation_space", None)
        self.action_space = getattr(self.env, "action_space", None)
        self.lost_steps = 0
        self._takes_mask = takes(agent.act, MASK)
        self._is_running = False
        self._obs: Any = None
        self._mask: Any = None
        self._total_reward, self._length = 0.0, 0

    @property
    def running(self) -> Sequence[Episode]:
        """The episode that is not over, as far as it has come."""
        return (Episode(self._total_reward, self._length, False),) if self._is_running else ()

    def tick(self, cut_off: bool = False) -> tuple[int, Sequence[Episode]]:
        """One step, in a new episode if the last one is over.

        Args:
            cut_off: Whether the agent shall take this step for the last of its episode.
        """
        if not self._is_running:
            self._begin()
        agent, mask = self.agent, self._mask
        action = agent.act(self._obs) if mask is None else agent.act(self._obs, action_mask=mask)
        if self.checks:
            check_action(self.action_space, action, bounds=False)
        result = self.env.step(action)
        if type(result) is not tuple or len(result) != 5:
            result = step_values(result)
        obs, reward, terminated, truncated, info = result
        if self.checks:
            check_step(self.observation_space, obs, reward)
        self._obs = obs
        self._total_reward += float(reward)
        length = self._length = self._length + 1
        done = bool(terminated)
        reset = bool(truncated) or length == self.max_episode_len
        mask = None
        if info:
            reset = reset or bool(info.get("needs_reset", False))
            mask = info.get(MASK) if self._takes_mask else None
        self._mask = mask
        self._is_running = not (done or reset)
        try:
            if mask is None:
                agent.observe(obs, reward, done, reset or cut_off)
            else:
                agent.observe(obs, reward, done, reset or cut_off, action_mask=mask)
        except BaseException:
            self.lost_steps = 1
            raise
        if self._is_running:
            return _NO_EPISODE_ENDED
        return 1, (Episode(self._total_reward, length),)

    def _begin(self) -> None:
        obs, info = reset_values(self.env.reset())
        if self.checks:
            check_observation(self.observation_space, obs)
            check_finite("obs", obs)
        self._obs = obs
        self._mask = info.get(MASK) if info and self._takes_mask else None
        self._total_reward, self._length = 0.0, 0
        self._is_running = True


class VectorSource:
    """One agent in several environments that are stepped together.

    An agent hears of action masks by the keyword `action_mask`, and of environments that only reset themselves by
    `active`; both are passed only when there is something to say.

    Args:
        agent: Anything with `batch_act` and `batch_observe`.
        env: Vector environment of any of the forms that `as_vector_stream` takes.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
        checks: Whether actions, observations and rewards are checked.
    """

    def __init__(self, agent: Any, env: Any, max_episode_len: int | None = None, *, checks: bool = True) -> None:
        self.agent = agent
        self.stream = as_vector_stream(env)
        self.max_episode_len = max_episode_len
        self.checks = checks
        self.num_envs = self.stream.num_envs
        self.observation_space, self.action_space = self.stream.observation_space, self.stream.action_space
        self.lost_steps = 0
        self.total_reward = np.zeros(self.num_envs)
        self.length = np.zeros(self.num_envs, dtype=np.int64)
        self.end: Any = None
        self._takes_mask, self._takes_active = takes(agent.batch_act, MASK), takes(agent.batch_act, "active")
        self._observed: tuple[Any, ...] = ()
        self._told: dict[str, Any] = {}

    def tick(self) -> tuple[int, Sequence[Episode]]:
        """One step in every environment; those that only reset themselves are not counted."""
        n_steps = self.step()
        self.observe()
        if not self.end.any():
            return n_steps, ()
        ended = [Episode(float(self.total_reward[i]), int(self.length[i])) for i in np.flatnonzero(self.end)]
        return n_steps, ended

    def step(self) -> int:
        """The first half of a tick: act, and step the environments; returns the number of steps made.

        Afterwards `end`, bool [k], says which episodes are over, and `total_reward` and `length`, [k], tell of those
        and of the running ones.
        """
        now = self.stream.reset() if self.end is None else self.stream.begin(self.end)
        if self.end is not None:
            self.total_reward[self.end] = 0.0
            self.length[self.end] = 0
        if self.checks and (self.end is None or self.end.any()):
            check_observations(self.observation_space, now.obs, self.num_envs)
            check_finite("obs", now.obs)
        action = self.agent.batch_act(now.obs, **self._news(now))
        if self.checks:
            check_actions(self.action_space, action, self.num_envs, bounds=False)
        step = self.stream.step(action)
        if self.checks:
            check_observations(self.observation_space, step.obs, self.num_envs)
            check_finite("obs", step.obs)
            check_finite("reward", step.reward)
        active = step.active
        self.total_reward += np.where(active, step.reward, 0.0)
        self.length += active
        reset = step.truncated
        if self.max_episode_len is not None:
            reset = reset | (active & (self.length == self.max_episode_len))
        self.end = (step.terminated | reset) & active
        self._observed = step.obs, step.reward, step.terminated, reset
        self._told = self._news(step)
        return int(np.count_nonzero(active))

    def observe(self, cut_off: bool = False) -> None:
        """The second half of a tick: tell the agent.

        Args:
            cut_off: Whether it shall take this step for the last of every episode.
        """
        obs, reward, terminated, reset = self._observed
        self.agent.batch_observe(obs, reward, terminated, np.ones_like(reset) if cut_off else reset, **self._told)

    def _news(self, now: Any) -> dict[str, Any]:
        news: dict[str, Any] = {}
        if now.action_mask is not None and self._takes_mask:
            news[MASK] = now.action_mask
        if not now.active.all():
            if not self._takes_active:
                raise TypeError(
                    f"agent.batch_act of {type(self.agent).__name__} takes no keyword `active`, so it cannot be told "
                    "which environments only reset themselves in a step: make the vector environment with "
                    "AutoresetMode.SAME_STEP or DISABLED, or add the keyword to batch_act and batch_observe"
                )
            news["active"] = now.active
        return news


def takes(function: Callable[..., Any], keyword: str) -> bool:
    """Whether a function takes a keyword; one whose signature is unknown does not."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == keyword or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def is_vector(env: Any) -> bool:
    """Whether this is several environments in one."""
    return isinstance(getattr(env, "num_envs", None), int)
