"""Sources of training steps: one environment, or a vector environment."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pfrl_like.batch import ACTION_MASK
from pfrl_like.env import as_gymnasium
from pfrl_like.envs import VectorObs, VectorStep, as_vector_stream
from pfrl_like.envs.episode_tape import EpisodeTape
from pfrl_like.envs.vector_stream import BoolArray
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments.evaluation_env import is_same_env
from pfrl_like.runs.loop import Clock, Episode
from pfrl_like.utils import checks
from pfrl_like.utils.env_values import first_values, mask_keyword, own_copy, step_values, takes_mask

_NO_EPISODE = {"way": "unknown", "reason": "no episode was recorded"}


class SerialSource:
    """Source of training steps: one agent in one environment.

    Args:
        agent: Object with the methods `act` and `observe`.
        env: Environment in any form that `as_gymnasium` accepts. The environment may reuse its arrays, because the
            source copies them.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        cuts_off_at_end: True to report the last training step to the agent as truncated.
    """

    def __init__(
        self, agent: Any, env: Any, max_episode_len: int | None = None, *, cuts_off_at_end: bool = False
    ) -> None:
        checks.check_counts(optional=True, max_episode_len=max_episode_len)
        self.agent, self.env = agent, as_gymnasium(env)
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
        """Make one step. If no episode is running, a new episode starts. The last training step ends the episode."""
        if not self.running:
            self._start_episodes()
        agent, mask = self.agent, self.mask
        action = agent.act(self.obs) if mask is None else agent.act(self.obs, action_mask=mask)
        check_selected(agent, checks.check_action, self.action_space, action)
        obs, reward, terminated, truncated, info = step_values(self.env.step(action))
        clock.t += 1
        obs = self.obs = obs.copy() if type(obs) is np.ndarray else own_copy(obs)
        self.observation_space = check_step(self.observation_space, obs, reward)
        self.last = obs, action, reward
        self.total_reward += float(reward)
        self.length += 1
        reset = truncated or self.length == self.max_episode_len or bool(info.get("needs_reset", False))
        clock.between_episodes = ended = terminated or reset
        is_last_step = clock.t >= clock.steps
        reset = reset or (is_last_step and self.cuts_off_at_end)
        mask = self.mask = own_copy(info[ACTION_MASK]) if self.takes_mask and ACTION_MASK in info else None
        if mask is None:
            agent.observe(obs, reward, terminated, reset)
        else:
            agent.observe(obs, reward, terminated, reset, action_mask=mask)
        if not ended and not is_last_step:
            return ()
        self.running = False
        return (Episode(self.total_reward, self.length, ended),)

    def record(self) -> None:
        """Record episodes from now on, so that `saved_state` can be called."""
        if not isinstance(self.env, EpisodeTape):
            self.env = EpisodeTape(self.env)

    def saved_state(self) -> dict[str, Any]:
        """Return the running episode and the state of the environment. Call the method `record` before training."""
        has_started = self.obs is not None and isinstance(self.env, EpisodeTape)
        return {
            "running": self.running, "total_reward": self.total_reward, "length": self.length,
            "episode": self.env.saved_state() if has_started else None,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Resume the episode that `saved_state` returned. If that is impossible, a new episode starts.

        Returns:
            Reasons why the episode cannot be resumed. The list is empty if the episode resumes.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not the saved state of a `SerialSource`.
        """
        self.record()
        running, total_reward, length = bool(state["running"]), float(state["total_reward"]), int(state["length"])
        restored = self.env.restore_state(_NO_EPISODE if state["episode"] is None else state["episode"])
        self.obs, self.running = None, False
        if not restored.exact:
            return [restored.reason]
        self.obs, self.running = own_copy(restored.obs), running
        self.mask = own_copy(restored.info.get(ACTION_MASK)) if self.takes_mask else None
        self.total_reward, self.length = total_reward, length
        return ()

    def _start_episodes(self) -> None:
        is_first = self.obs is None
        if is_first:
            stop_episode(self.agent)
        obs, info = first_values(self.env.reset())
        self.obs = own_copy(obs)
        self.observation_space = space_of_observations(self.observation_space, [self.obs])
        checks.check_finite("obs", self.obs)
        if is_first:
            dry_run(self.agent, self.obs, self.action_space)
        self.mask = own_copy(info.get(ACTION_MASK)) if self.takes_mask else None
        self.total_reward, self.length = 0.0, 0
        self.running = True


class VectorSource:
    """Source of training steps: one agent in several environments that are stepped together.

    Args:
        agent: Object with the methods `batch_act` and `batch_observe`.
        env: Vector environment in any form that `as_vector_stream` accepts.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.

    Attributes:
        total_reward, length: Undiscounted return and number of steps of each environment's current episode, up to the
            last step, shape [num_envs].
        end: True for each environment whose episode ended in the last step, bool [num_envs]. None before the first
            step.
        last: Result of the last step: observations, actions, rewards.
    """

    def __init__(self, agent: Any, env: Any, max_episode_len: int | None = None) -> None:
        checks.check_counts(optional=True, max_episode_len=max_episode_len)
        self.agent, self.stream, self.max_episode_len = agent, as_vector_stream(env), max_episode_len
        self.num_envs = self.stream.num_envs
        self.observation_space, self.action_space = self.stream.observation_space, self.stream.action_space
        self.total_reward = np.zeros(self.num_envs)
        self.length = np.zeros(self.num_envs, dtype=np.int64)
        self.end: BoolArray | None = None
        self._is_recording = False
        self.last: Any = None
        self.takes_mask = takes_mask(agent.batch_act)

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one step in every environment. Steps that only reset an environment (autoreset) are not counted."""
        step, reset, end = self.step(clock)
        self.observe(step, reset)
        clock.between_episodes = bool(end.all())
        return [Episode(float(self.total_reward[i]), int(self.length[i])) for i in np.flatnonzero(end)]

    def step(self, clock: Clock) -> tuple[VectorStep, BoolArray, BoolArray]:
        """Make one step in every environment without passing the result to the agent.

        Returns:
            Three values: the result of the step, a bool array that is True for each environment whose episode was
            truncated, and a bool array that is True for each environment whose episode was truncated or terminated.
        """
        current = self._start_episodes()
        action = self.agent.batch_act(current.obs, **agent_keywords(current, self.takes_mask))
        check_selected(self.agent, checks.check_actions, self.action_space, action, self.num_envs)
        step = self.stream.step(action)
        clock.t += int(np.count_nonzero(step.active))
        self._check(step.obs)
        checks.check_finite("reward", step.reward)
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
        self.agent.batch_observe(step.obs, step.reward, step.terminated, reset, **agent_keywords(step, self.takes_mask))

    def restart_after_use(self, env: Any) -> None:
        """Discard the running episodes if `env` is the environment of this source. New episodes start then.

        Args:
            env: Environment that was used for something else.
        """
        if is_same_env(self.stream.env, env):
            self.end = None
            self.total_reward[:], self.length[:] = 0.0, 0

    def record(self) -> None:
        """Record episodes from now on, so that `saved_state` can be called."""
        if not self._is_recording:
            self.stream.record()
        self._is_recording = True

    def saved_state(self) -> dict[str, Any]:
        """Return the running episodes and the states of the environments. Call the method `record` before training."""
        has_started = self.end is not None and self._is_recording
        return {
            "end": None if self.end is None else self.end.tolist(),
            "total_reward": self.total_reward.tolist(), "length": self.length.tolist(),
            "stream": self.stream.saved_state() if has_started else None,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Resume the episodes that `saved_state` returned.

        If one of the episodes cannot be resumed, all environments start new episodes.

        Returns:
            Reasons why the episodes cannot be resumed. The list is empty if the episodes resume.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not the saved state of a `VectorSource`, or if the number of
                environments differs.
        """
        self.record()
        total_reward, length = np.array(state["total_reward"], float), np.array(state["length"], np.int64)
        if total_reward.shape != (self.num_envs,) or length.shape != (self.num_envs,):
            raise ValueError(f"env has {self.num_envs} environments, but the saved state has {total_reward.size}")
        stream = state["stream"]
        reasons = [_NO_EPISODE["reason"]] if stream is None else self.stream.restore_state(stream)
        self.end = None if reasons else np.array(state["end"], np.bool_)
        self.total_reward[:], self.length[:] = (0.0, 0) if reasons else (total_reward, length)
        return reasons

    def _start_episodes(self) -> VectorObs:
        if self.end is None:
            stop_episode(self.agent)
            current = self.stream.reset()
            self._check(current.obs)
            dry_run(self.agent, current.obs[0], self.action_space)
            return current
        current = self.stream.begin(self.end)
        if not np.count_nonzero(self.end):
            return current  # observations of the last step
        self.total_reward[self.end] = 0.0
        self.length[self.end] = 0
        self._check(current.obs)
        return current

    def _check(self, obs: Any) -> None:
        if len(obs) != self.num_envs:
            raise ValueError(f"obs contains {len(obs)} observations, expected one for each of {self.num_envs} envs")
        self.observation_space = space_of_observations(self.observation_space, obs)
        checks.check_finite("obs", obs)


def check_step(space: Any, obs: Any, reward: Any) -> Any:
    """Raise an error if the observation or reward of a step is invalid. Return the space for the next step.

    The function makes the checks of `space_of_observations`, `check_finite` and `check_reward`, but is faster.

    Args:
        space: Observation space; None if unknown.
        obs: Observation after the step.
        reward: Reward of the step.

    Returns:
        The space. None if it is unknown or does not describe the observation.

    Raises:
        NonFiniteError: If the observation or the reward is not finite.
        TypeError: If the reward is not a single number.
    """
    if (
        type(obs) is np.ndarray
        and type(reward) is float
        and obs.dtype == getattr(space, "dtype", None) == np.float32
        and obs.shape == getattr(space, "shape", None)
        and -checks.LARGEST_REWARD <= reward <= checks.LARGEST_REWARD
        and math.isfinite(np.vdot(obs, obs))  # the product may also overflow; the checks below are exact
    ):
        return space
    checks.check_finite("obs", obs)
    checks.check_reward(reward)
    return space_of_observations(space, [obs])


def space_of_observations(space: Any, observations: Any) -> Any:
    """Return the space if it describes the observations. Otherwise issue a warning once, and return None.

    Many environments declare a space and return other observations, for instance because a wrapper appends a number.
    The networks and the replay buffer are made for the real observations, so training continues without the space.

    Args:
        space: Observation space of one environment. None if unknown.
        observations: Observations of k environments, an array [k, ...] or a sequence.
    """
    if space is None:
        return None
    is_stack = type(observations) is np.ndarray and observations.dtype != object
    try:
        for obs in observations[:1] if is_stack else observations:
            checks.check_observation(space, obs)
    except ValueError as error:
        advice = "observation_space of the environment is wrong and is ignored; a wrapper can declare the right one"
        checks.warn_once(("observation space", repr(space)), f"{error}: {advice}")
        return None
    return space


def check_selected(agent: Any, check: Callable[..., None], *arguments: Any) -> None:
    """Check an action of an agent with `check`. An error names the function or explorer that selected the action.

    Raises:
        NonFiniteError: If the action is NaN or infinite.
        ValueError: If the action does not match its space.
    """
    try:
        check(*arguments, bounds=False)
    except NonFiniteError:
        raise
    except ValueError as error:
        source = "act of the agent"
        if getattr(agent, "burnin_action_func", None) is not None and getattr(agent, "burning_in", None) is True:
            source = "burnin_action_func"
        elif getattr(agent, "explorer", None) is not None:
            source += f" with the explorer {type(agent.explorer).__name__}"
        raise ValueError(f"{error}; the action comes from {source}") from None


def stop_episode(agent: Any) -> None:
    """Call the agent's `stop_episode`, if it exists, to discard the unfinished episodes of an earlier run."""
    getattr(agent, "stop_episode", lambda: None)()


def agent_keywords(current: Any, takes_mask: bool = True) -> dict[str, Any]:
    """Return the keyword arguments for a call of an agent: `action_mask` and `active`, each only if it is needed."""
    keywords = mask_keyword(current.action_mask, takes_mask)
    if not current.active.all():
        keywords["active"] = current.active
    return keywords


def dry_run(agent: Any, obs: Any, action_space: Any) -> None:
    """Call the agent's `dry_run`, if it exists, to check the first observation and the action space."""
    check = getattr(agent, "dry_run", None)
    if check is not None:
        check(obs, action_space)
