"""Sources of training steps: one environment, or a vector environment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pfrl_like.batch import ACTION_MASK
from pfrl_like.env import as_gymnasium
from pfrl_like.envs import VectorObs, VectorStep, as_vector_stream
from pfrl_like.envs.episode_tape import EpisodeTape
from pfrl_like.envs.vector_stream import BoolArray
from pfrl_like.runs.loop import Clock, Episode
from pfrl_like.utils.checks import (
    check_action,
    check_actions,
    check_counts,
    check_finite,
    check_observation,
    check_observations,
    check_step,
)
from pfrl_like.utils.env_values import first_values, mask_keyword, own_copy, step_values, takes_mask

_NO_EPISODE = {"way": "unknown", "reason": "no episode was recorded"}


class SerialSource:
    """One agent in one environment.

    Args:
        agent: Anything with `act` and `observe`.
        env: Environment of any of the forms that `as_gymnasium` takes. It may return the same arrays at every step.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        cuts_off_at_end: Whether the last step of the clock truncates its episode for the agent.
    """

    def __init__(
        self, agent: Any, env: Any, max_episode_len: int | None = None, *, cuts_off_at_end: bool = False
    ) -> None:
        check_counts(optional=True, max_episode_len=max_episode_len)
        self.agent = agent
        self.env = as_gymnasium(env)
        self.max_episode_len, self.cuts_off_at_end = max_episode_len, cuts_off_at_end
        self.observation_space = getattr(self.env, "observation_space", None)
        self.action_space = getattr(self.env, "action_space", None)
        self.takes_mask = takes_mask(agent.act)
        self.running = False
        self.obs: Any = None
        self.last: Any = None  # result of the last step: observation, action, reward
        self.mask: Any = None
        self.total_reward, self.length = 0.0, 0

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one step, in a new episode if the last one is over; the last step of training also ends an episode."""
        if not self.running:
            self._begin()
        agent = self.agent
        mask = self.mask
        action = agent.act(self.obs) if mask is None else agent.act(self.obs, action_mask=mask)
        try:
            check_action(self.action_space, action, bounds=False)
        except ValueError as error:
            raise with_chooser(error, agent) from None
        obs, reward, terminated, truncated, info = step_values(self.env.step(action))
        clock.t += 1
        obs = self.obs = obs.copy() if type(obs) is np.ndarray else own_copy(obs)
        check_step(self.observation_space, obs, reward)
        self.last = obs, action, reward
        self.total_reward += float(reward)
        self.length += 1
        reset = truncated or self.length == self.max_episode_len or bool(info.get("needs_reset", False))
        clock.between_episodes = ended = terminated or reset
        last = clock.t >= clock.steps
        reset = reset or (last and self.cuts_off_at_end)
        mask = self.mask = own_copy(info[ACTION_MASK]) if self.takes_mask and ACTION_MASK in info else None
        if mask is None:
            agent.observe(obs, reward, terminated, reset)
        else:
            agent.observe(obs, reward, terminated, reset, action_mask=mask)
        if not ended and not last:
            return ()
        self.running = False
        return (Episode(self.total_reward, self.length),)

    def record(self) -> None:
        """Start recording the course of episodes, as `saved_state` requires."""
        if not isinstance(self.env, EpisodeTape):
            self.env = EpisodeTape(self.env)

    def saved_state(self) -> dict[str, Any]:
        """The running episode, and how the environment got to its present state; requires `record`."""
        began = self.obs is not None and isinstance(self.env, EpisodeTape)
        return {
            "running": self.running, "total_reward": self.total_reward, "length": self.length,
            "episode": self.env.saved_state() if began else None,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Resume the episode that `saved_state` returned; if that is impossible, a new episode begins.

        Returns:
            Reasons why it is impossible; empty if the episode resumes.

        Raises:
            KeyError, TypeError, ValueError: If the state belongs to something else.
        """
        self.record()
        running, total_reward, length = bool(state["running"]), float(state["total_reward"]), int(state["length"])
        arrival = self.env.restore_state(_NO_EPISODE if state["episode"] is None else state["episode"])
        self.obs, self.running = None, False
        if not arrival.exact:
            return [arrival.reason]
        self.obs, self.running = own_copy(arrival.obs), running
        self.mask = own_copy(arrival.info.get(ACTION_MASK)) if self.takes_mask else None
        self.total_reward, self.length = total_reward, length
        return ()

    def _begin(self) -> None:
        is_first = self.obs is None
        if is_first:
            stop_episode(self.agent)
        obs, info = first_values(self.env.reset())
        self.obs = own_copy(obs)
        check_observation(self.observation_space, self.obs)
        check_finite("obs", self.obs)
        if is_first:
            dry_run(self.agent, self.obs, self.action_space)
        self.mask = own_copy(info.get(ACTION_MASK)) if self.takes_mask else None
        self.total_reward, self.length = 0.0, 0
        self.running = True


class VectorSource:
    """One agent in several environments that are stepped together.

    Args:
        agent: Anything with `batch_act` and `batch_observe`.
        env: Vector environment of any of the forms that `as_vector_stream` takes.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.

    Attributes:
        total_reward, length: Return and length of each environment's episode up to the last step, shape [num_envs].
        end: True where that step ended an episode, bool [num_envs]; None before the first step.
        last: Result of that step: observations, actions, rewards.
    """

    def __init__(self, agent: Any, env: Any, max_episode_len: int | None = None) -> None:
        check_counts(optional=True, max_episode_len=max_episode_len)
        self.agent = agent
        self.stream = as_vector_stream(env)
        self.max_episode_len = max_episode_len
        self.num_envs = self.stream.num_envs
        self.observation_space = self.stream.observation_space
        self.action_space = self.stream.action_space
        self.total_reward = np.zeros(self.num_envs)
        self.length = np.zeros(self.num_envs, dtype=np.int64)
        self.end: BoolArray | None = None
        self._records = False
        self.last: Any = None
        self.takes_mask = takes_mask(agent.batch_act)

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one step in every environment; environments that only reset themselves are not counted."""
        step, reset, end = self.step(clock)
        self.observe(step, reset)
        clock.between_episodes = bool(end.all())
        return [Episode(float(self.total_reward[i]), int(self.length[i])) for i in np.flatnonzero(end)]

    def step(self, clock: Clock) -> tuple[VectorStep, BoolArray, BoolArray]:
        """Act in every environment, without passing the result to the agent.

        Returns:
            The result; a bool array that is True where the step cuts an episode off; and one that is True where an
            episode ended.
        """
        now = self._begin()
        action = self.agent.batch_act(now.obs, **told_of(now, self.takes_mask))
        try:
            check_actions(self.action_space, action, self.num_envs, bounds=False)
        except ValueError as error:
            raise with_chooser(error, self.agent) from None
        step = self.stream.step(action)
        clock.t += int(np.count_nonzero(step.active))
        self._check(step.obs)
        check_finite("reward", step.reward)
        self.last = step.obs, action, step.reward
        self.total_reward += np.where(step.active, step.reward, 0.0)
        self.length += step.active
        reset = step.truncated
        if self.max_episode_len is not None:
            reset = reset | (self.length == self.max_episode_len)
        self.end = (step.terminated | reset) & step.active
        return step, reset, self.end

    def observe(self, step: VectorStep, reset: BoolArray) -> None:
        """Pass the result of a step to the agent."""
        self.agent.batch_observe(step.obs, step.reward, step.terminated, reset, **told_of(step, self.takes_mask))

    def record(self) -> None:
        """Start recording the course of episodes, as `saved_state` requires."""
        if not self._records:
            self.stream.record()
        self._records = True

    def saved_state(self) -> dict[str, Any]:
        """The running episodes, and how the environments got to their present states; requires `record`."""
        began = self.end is not None and self._records
        return {
            "end": None if self.end is None else self.end.tolist(),
            "total_reward": self.total_reward.tolist(), "length": self.length.tolist(),
            "stream": self.stream.saved_state() if began else None,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Resume the episodes that `saved_state` returned; if one of them cannot be resumed, new episodes begin in all.

        Returns:
            Reasons why it is impossible; empty if the episodes resume.

        Raises:
            KeyError, TypeError, ValueError: If the state belongs to something else.
        """
        self.record()
        total_reward, length = np.array(state["total_reward"], float), np.array(state["length"], np.int64)
        if total_reward.shape != (self.num_envs,) or length.shape != (self.num_envs,):
            raise ValueError(f"there are {self.num_envs} environments, expected {total_reward.size}")
        stream = state["stream"]
        reasons = [_NO_EPISODE["reason"]] if stream is None else self.stream.restore_state(stream)
        self.end = None if reasons else np.array(state["end"], np.bool_)
        self.total_reward[:], self.length[:] = (0.0, 0) if reasons else (total_reward, length)
        return reasons

    def _begin(self) -> VectorObs:
        if self.end is None:
            stop_episode(self.agent)
            now = self.stream.reset()
            self._check(now.obs)
            dry_run(self.agent, now.obs[0], self.action_space)
            return now
        now = self.stream.begin(self.end)
        if not np.count_nonzero(self.end):
            return now  # observations of the last step
        self.total_reward[self.end] = 0.0
        self.length[self.end] = 0
        self._check(now.obs)
        return now

    def _check(self, obs: Any) -> None:
        check_observations(self.observation_space, obs, self.num_envs)
        check_finite("obs", obs)


def with_chooser(error: ValueError, agent: Any) -> ValueError:
    """An error about an agent's action, extended by the part that chose the action; errors about NaN stay unchanged."""
    if type(error) is not ValueError:
        return error
    giver = "act of the agent"
    if getattr(agent, "burnin_action_func", None) is not None and getattr(agent, "burning_in", None) is True:
        giver = "burnin_action_func"
    elif getattr(agent, "explorer", None) is not None:
        giver += f", whose explorer is {type(agent.explorer).__name__}"
    return ValueError(f"{error}; it comes from {giver}")


def stop_episode(agent: Any) -> None:
    """Let an agent forget unfinished episodes of the run before, if it has a method for that."""
    getattr(agent, "stop_episode", lambda: None)()


def told_of(now: Any, takes_mask: bool = True) -> dict[str, Any]:
    """The optional keywords of an agent's call; each is given only if it carries information."""
    told = mask_keyword(now.action_mask, takes_mask)
    if not now.active.all():
        told["active"] = now.active
    return told


def dry_run(agent: Any, obs: Any, action_space: Any) -> None:
    """Let an agent with `dry_run` check the first observation, and refuse an environment that it cannot act in."""
    check = getattr(agent, "dry_run", None)
    if check is not None:
        check(obs, action_space)
