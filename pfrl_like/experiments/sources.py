"""Sources of the training loop: one environment, or several at once."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from pfrl_like.env import as_gymnasium
from pfrl_like.envs import as_vector_stream
from pfrl_like.experiments.loop import Clock, Episode
from pfrl_like.utils.checks import (
    check_action,
    check_actions,
    check_finite,
    check_observation,
    check_observations,
    check_step,
)
from pfrl_like.utils.env_values import step_values

MASK = "action_mask"


class SerialSource:
    """One agent in one environment.

    Args:
        agent: Anything with `act` and `observe`.
        env: Environment of any of the forms that `as_gymnasium` takes.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
    """

    def __init__(self, agent: Any, env: Any, max_episode_len: int | None = None) -> None:
        self.agent = agent
        self.env = as_gymnasium(env)
        self.max_episode_len = max_episode_len
        self.observation_space = getattr(self.env, "observation_space", None)
        self.action_space = getattr(self.env, "action_space", None)
        self.takes_mask = takes_mask(agent.act)
        self.running = False
        self.obs: Any = None
        self.mask: Any = None
        self.total_reward, self.length = 0.0, 0
        check_spaces(agent, self.observation_space, self.action_space)

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """One step, in a new episode if the last one is over; the last step of training ends an episode, too."""
        if not self.running:
            self._begin()
        agent = self.agent
        mask = self.mask
        action = agent.act(self.obs) if mask is None else agent.act(self.obs, action_mask=mask)
        check_action(self.action_space, action, bounds=False)
        values = self.env.step(action)
        obs, reward, terminated, truncated, info = values if len(values) == 5 else step_values(values)
        clock.t += 1
        check_step(self.observation_space, obs, reward)
        self.obs = obs
        self.total_reward += float(reward)
        self.length += 1
        reset = bool(truncated) or self.length == self.max_episode_len or bool(info.get("needs_reset", False))
        mask = self.mask = info.get(MASK) if self.takes_mask else None
        if mask is None:
            agent.observe(obs, reward, bool(terminated), reset)
        else:
            agent.observe(obs, reward, bool(terminated), reset, action_mask=mask)
        clock.between_episodes = ended = bool(terminated) or reset
        if not ended and clock.t < clock.steps:
            return ()
        self.running = False
        return (Episode(self.total_reward, self.length),)

    def _begin(self) -> None:
        self.obs, info = self.env.reset()
        check_observation(self.observation_space, self.obs)
        check_finite("obs", self.obs)
        self.mask = info.get(MASK) if self.takes_mask else None
        self.total_reward, self.length = 0.0, 0
        self.running = True


class VectorSource:
    """One agent in several environments that are stepped together.

    Args:
        agent: Anything with `batch_act` and `batch_observe`.
        env: Vector environment of any of the forms that `as_vector_stream` takes.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
    """

    def __init__(self, agent: Any, env: Any, max_episode_len: int | None = None) -> None:
        self.agent = agent
        self.stream = as_vector_stream(env)
        self.max_episode_len = max_episode_len
        self.num_envs = self.stream.num_envs
        self.observation_space = self.stream.observation_space
        self.action_space = self.stream.action_space
        self.total_reward = np.zeros(self.num_envs)
        self.length = np.zeros(self.num_envs, dtype=np.int64)
        self.end: Any = None
        self.takes_mask = takes_mask(agent.batch_act)
        check_spaces(agent, self.observation_space, self.action_space)

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """One step in every environment; those that only reset themselves are not counted."""
        now = self.stream.reset() if self.end is None else self.stream.begin(self.end)
        check_observations(self.observation_space, now.obs, self.num_envs)
        if self.end is None:
            check_finite("obs", now.obs)
        action = self.agent.batch_act(now.obs, **told_of(now, self.takes_mask))
        check_actions(self.action_space, action, self.num_envs, bounds=False)
        step = self.stream.step(action)
        active = step.active
        clock.t += int(np.count_nonzero(active))
        check_observations(self.observation_space, step.obs, self.num_envs)
        check_finite("obs", step.obs)
        check_finite("reward", step.reward)
        self.total_reward += np.where(active, step.reward, 0.0)
        self.length += active
        reset = step.truncated
        if self.max_episode_len is not None:
            reset = reset | (self.length == self.max_episode_len)
        self.agent.batch_observe(step.obs, step.reward, step.terminated, reset, **told_of(step, self.takes_mask))
        self.end = (step.terminated | reset) & active
        ended = [Episode(float(self.total_reward[i]), int(self.length[i])) for i in np.flatnonzero(self.end)]
        self.total_reward[self.end] = 0.0
        self.length[self.end] = 0
        clock.between_episodes = bool(self.end.all())
        return ended


def takes_mask(act: Any) -> bool:
    """Whether an agent's method has the keyword `action_mask`; one written for PFRL's interface has not."""
    parameters = inspect.signature(act).parameters.values()
    return any(parameter.name == MASK or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def told_of(now: Any, takes_mask: bool = True) -> dict[str, Any]:
    """The keywords that an agent gets only when there is something to say."""
    told: dict[str, Any] = {} if now.action_mask is None or not takes_mask else {MASK: now.action_mask}
    if not now.active.all():
        told["active"] = now.active
    return told


def check_spaces(agent: Any, observation_space: Any, action_space: Any) -> None:
    """Let an agent that can tell refuse an environment that it cannot act in."""
    check = getattr(agent, "check_spaces", None)
    if check is not None:
        check(observation_space, action_space)
