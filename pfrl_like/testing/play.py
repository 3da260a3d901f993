"""Short recorded runs of agents in environments, a task with known values, `check_env`, and a comparison of states."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.batch import ACTION_MASK
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.vector_stream import VectorStream
from pfrl_like.experiments.sources import agent_keywords
from pfrl_like.utils.checks import check_action, check_finite, check_observation
from pfrl_like.utils.env_values import mask_keyword, own_copy, seed_env


class Episodes:
    """An environment and its running episode.

    Args:
        env: Environment of any supported interface; the environment is copied.
        seed: Seed of the first episode, if `reset` of the environment accepts a seed.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env = as_gymnasium(copy.deepcopy(env))
        try:
            self._begin(seed=seed)
        except ValueError:  # `reset` accepts no seed
            self._begin()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Execute an action; return the true next observation, reward, terminated, truncated and the action mask."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        obs, mask = own_copy(obs), own_copy(info.get(ACTION_MASK))
        self.obs, self.mask = obs, mask
        truncated = bool(truncated or info.get("needs_reset", False))
        if terminated or truncated:
            self._begin()
        return obs, float(reward), bool(terminated), truncated, mask

    def _begin(self, **seed: int) -> None:
        obs, info = self.env.reset(**seed)
        self.obs, self.mask = own_copy(obs), own_copy(info.get(ACTION_MASK))


def play_step(agent: Any, episodes: Episodes) -> Any:
    """Run one step of `act` and `observe`, and return the action."""
    action = agent.act(episodes.obs, **mask_keyword(episodes.mask))
    obs, reward, terminated, truncated, mask = episodes.step(action)
    agent.observe(obs, reward, terminated, truncated, **mask_keyword(mask))
    return action


def play_one(agent: Any, env: Any, n_steps: int, seed: int = 0) -> list[Any]:
    """Train an agent with `act` and `observe`, and return its actions."""
    episodes = Episodes(env, seed)
    return [play_step(agent, episodes) for _ in range(n_steps)]


def play_several(agent: Any, env: Any, n_envs: int, n_steps: int, seed: int = 0) -> list[Any]:
    """Train an agent with `batch_act` and `batch_observe`, and return the actions of each step."""
    several = [Episodes(env, seed + i) for i in range(n_envs)]
    all_actions = []
    for _ in range(n_steps):
        actions = agent.batch_act([one.obs for one in several], **_all_told([one.mask for one in several]))
        steps = [one.step(action) for one, action in zip(several, actions, strict=True)]
        obs, reward, terminated, truncated, masks = (list(column) for column in zip(*steps, strict=True))
        agent.batch_observe(obs, reward, terminated, truncated, **_all_told(masks))
        all_actions.append(list(actions))
    return all_actions


def play_stream(agent: Any, stream: VectorStream, n_steps: int) -> None:
    """Train an agent until the environments of a stream have made `n_steps` steps in total."""
    now, made = stream.reset(), 0
    while made < n_steps:
        step = stream.step(agent.batch_act(now.obs, **agent_keywords(now)))
        agent.batch_observe(step.obs, step.reward, step.terminated, step.truncated, **agent_keywords(step))
        made += int(np.count_nonzero(step.active))
        now = stream.begin((step.terminated | step.truncated) & step.active)


def _all_told(masks: Sequence[Any]) -> dict[str, Any]:
    return {} if any(mask is None for mask in masks) else {ACTION_MASK: list(masks)}


#: Pairs (terminated, truncated) of the last steps of episodes, used cyclically.
ENDINGS = ((False, True), (True, False), (True, True))
#: Lengths of episodes, used cyclically.
LENGTHS = (3, 5, 4, 2)


class Step(NamedTuple):
    """One true step; `next_obs` is the true observation after the step."""

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool


class RecordedEnv(gymnasium.Env[Any, Any]):
    """Environment that records all steps; its short episodes are terminated, truncated, or both.

    Args:
        env: Environment of any supported interface; the environment is copied.
        number: Index of this environment among several environments. Environments with different indices end their
            episodes at different times and in a different order.
        seed: Seed of the rewards, and of the first episode if `reset` of the environment accepts a seed.
        endings: Pairs (terminated, truncated) of the last steps of episodes, used cyclically.
        own_rewards: True to replace the rewards of the environment with random numbers. Each reward, and each sum of
            several consecutive rewards, is then unique.

    Attributes:
        episodes: List of the steps of each episode.
    """

    def __init__(
        self,
        env: Any,
        number: int = 0,
        seed: int = 0,
        endings: tuple[tuple[bool, bool], ...] = ENDINGS,
        own_rewards: bool = True,
    ) -> None:
        self.env = as_gymnasium(copy.deepcopy(env))
        self.observation_space: Any = getattr(self.env, "observation_space", None)
        self.action_space: Any = getattr(self.env, "action_space", None)
        self.number = number
        self.endings = endings
        self.episodes: list[list[Step]] = []
        self._seed: int | None = seed + number
        self._rewards = np.random.default_rng(seed + number) if own_rewards else None
        self._obs: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; `seed` is ignored, because the first reset uses the constructor's seed."""
        try:
            obs, info = self.env.reset() if self._seed is None else self.env.reset(seed=self._seed)
        except ValueError:  # `reset` accepts no seed
            obs, info = self.env.reset()
        self._seed, self._obs = None, own_copy(obs)
        self.episodes.append([])
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Execute an action, and record the step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        truncated = bool(truncated or info.get("needs_reset", False))
        which, episode = self.number + len(self.episodes), self.episodes[-1]
        if len(episode) + 1 == LENGTHS[which % len(LENGTHS)]:
            terminates, truncates = self.endings[which % len(self.endings)]
            terminated, truncated = terminated or terminates, truncated or truncates
        reward = float(reward if self._rewards is None else self._rewards.uniform())
        episode.append(Step(self._obs, own_copy(action), reward, own_copy(obs), bool(terminated), truncated))
        self._obs = episode[-1].next_obs
        return obs, reward, bool(terminated), truncated, info

    @property
    def ended(self) -> bool:
        """True if the last episode has ended."""
        last = self.episodes[-1][-1:]
        return bool(last) and (last[0].terminated or last[0].truncated)


STAY, GO_ON = 0, 1


class Chain(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A chain of states 0 to size - 1. Only the first state of an episode is random.

    In state s, action 1 has the reward s + 1 and moves to the next state. Action 0 has the reward 0 and stays in s.
    After the last state the episode terminates, or the agent returns to state 0, so that action 1 is always optimal. An
    observation is the one-hot float32 vector [size + 1] of the state; the last entry is the terminal state.

    Args:
        size: Number of states.
        terminates: True if the episode terminates after the last state, False if state 0 follows.
        time_limit: Number of steps after which an episode is truncated; None for no limit. The limit is not part of the
            task: `q_values` are the values without a limit. A step may be both terminated and truncated.
    """

    def __init__(self, size: int = 4, terminates: bool = True, time_limit: int | None = None) -> None:
        self.size = size
        self.terminates = terminates
        self.time_limit = time_limit
        self.observation_space = spaces.Box(0.0, 1.0, (size + 1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._state = 0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in a random state."""
        super().reset(seed=seed)
        self._state = int(self.np_random.integers(self.size))
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Stay or move to the next state."""
        reward = 0.0
        if action == GO_ON:
            reward = self._state + 1.0
            self._state += 1
            if self._state == self.size and not self.terminates:
                self._state = 0
        self._steps += 1
        return self._observation(), reward, self._state == self.size, self._steps == self.time_limit, {}

    def q_values(self, gamma: float) -> NDArray[np.float64]:
        """Return the optimal values of every state and action, [size + 1, 2]; zeros for the terminal state.

        The return of moving from s to state 0 or to the terminal state is S(s) = (s + 1) + gamma (s + 2) + ... +
        gamma**(size - 1 - s) size. If the episode terminates there, V(s) = S(s). Otherwise V(0) = S(0) / (1 -
        gamma**size) and V(s) = S(s) + gamma**(size - s) V(0). Action 1 has the value V(s), action 0 gamma V(s).
        """
        values = np.zeros(self.size + 1)
        for s in range(self.size):
            values[s] = sum(gamma ** (k - s) * (k + 1) for k in range(s, self.size))
        if not self.terminates:
            again = values[0] / (1 - gamma**self.size)
            values[:-1] += gamma ** (self.size - np.arange(self.size)) * again
        return np.stack([gamma * values, values], axis=1)

    def _observation(self) -> NDArray[np.float32]:
        obs = np.zeros(self.size + 1, dtype=np.float32)
        obs[self._state] = 1.0
        return obs


class ChainQFunction(nn.Module):
    """Table of Q-values for a `Chain`, initialised with the true values.

    The value of the terminal state is far from its true value. A target that wrongly bootstraps from the terminal state
    is then clearly wrong.

    Args:
        chain: The task.
        gamma: Discount factor per step.
    """

    def __init__(self, chain: Chain, gamma: float) -> None:
        super().__init__()
        values = torch.as_tensor(chain.q_values(gamma), dtype=torch.float64)
        values[-1] = 1000.0
        self.table = nn.Parameter(values)

    def forward(self, obs: Tensor) -> DiscreteActionValue:
        """Return the action values of B observations, [B, size + 1]."""
        return DiscreteActionValue(obs.to(self.table.dtype) @ self.table)


def check_env(env: Any, *, n_steps: int = 200, seed: int = 0) -> None:
    """Check an environment of any interface that `as_gymnasium` accepts: `check_env(YourEnv())`.

    The function steps the environment with random actions. Observations must match the observation space and be finite.
    Rewards must be finite numbers, `terminated` and `truncated` must be bools, and infos must be dicts. If the
    environment accepts a seed, the same seed and actions must have the same results. An environment may return the same
    array in every step and change it in place, because the runners copy observations.

    An action mask (`info["action_mask"]` or the key "action_mask" of an observation) must contain a 0 or 1 (False or
    True) for each action. It must allow at least one action, except in a terminal state. The function uses only allowed
    actions.

    Args:
        env: The environment. The function resets it.
        n_steps: Number of steps of a trial.
        seed: Seed of the trial.

    Raises:
        AssertionError: If a requirement is violated. The message names the requirement.
        TypeError: If `env` is not a single environment.
    """
    adapted = as_gymnasium(env)
    for name in ("observation_space", "action_space"):
        require(getattr(adapted, name, None) is not None, f"the environment has no {name}")
    actions = _draw_actions(adapted.action_space, n_steps, seed)
    try:
        seed_env(env, seed)
    except ValueError:  # it takes none
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


def _trace(env: Any, actions: list[Any], seed: int | None) -> list[Any]:
    """Check and return all results of the environment."""
    trace: list[Any] = []
    must_reset, mask = True, None
    for action in actions:
        if must_reset:
            # Only the first reset gets the seed. Later resets continue the random stream.
            result = env.reset(seed=seed) if seed is not None and not trace else env.reset()
            sentence = f"reset returned {type(result).__name__}, expected (obs, info) with a dict as info"
            require(isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict), sentence)
            obs = result[0]
            _check_obs(env, obs, "reset")
            mask = _checked_mask(env.action_space, obs, result[1], "reset")
            trace.append([copy.deepcopy(obs), mask])
        result = env.step(_allowed(env.action_space, action, mask))
        require(isinstance(result, tuple) and len(result) == 5, f"step returned {result!r}, expected five values")
        obs, reward, terminated, truncated, info = result
        _check_obs(env, obs, "step")
        is_number = np.shape(reward) == () and np.asarray(reward).dtype.kind in "fiub"
        require(is_number, f"reward is {reward!r} ({type(reward).__name__}), expected one number")
        require(math.isfinite(reward), f"reward is {reward!r}, expected a finite number")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            require(isinstance(flag, bool | np.bool_), f"{name} is {flag!r} ({type(flag).__name__}), expected a bool")
        require(isinstance(info, dict), f"info is {type(info).__name__}, expected a dict")
        must_reset = bool(terminated or truncated or info.get("needs_reset", False))
        mask = _checked_mask(env.action_space, obs, info, "step", bool(terminated))
        trace.append([copy.deepcopy(obs), float(reward), bool(terminated), bool(truncated), mask])
    return trace


def _choices(space: Any) -> list[int]:
    """Return the number of actions in each dimension of a space; empty for spaces without masks."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.flatten()]
    return [int(space.n)] if isinstance(space, spaces.Discrete) else []


def _checked_mask(space: Any, obs: Any, info: Any, source: str, terminated: bool = False) -> Any:
    """Check the action mask of a reset or step and return a copy; None without a mask."""
    mask, sizes = info.get(ACTION_MASK, obs.get(ACTION_MASK) if isinstance(obs, dict) else None), _choices(space)
    if mask is None or not sizes:
        return None
    given = f"the action_mask of {source} is {mask!r}"
    fits = np.shape(mask) == (sum(sizes),) and np.isin(mask, (0, 1)).all()
    require(fits, f"{given}, expected {sum(sizes)} numbers, each 0 or 1: one for each action")
    mask = np.array(mask, np.bool_)
    some = all(choice.any() for choice in np.split(mask, np.cumsum(sizes)[:-1]))
    require(some or terminated, f"{given}, which allows no action: expected at least one, except at a terminal state")
    return mask


def _allowed(space: Any, action: Any, mask: Any) -> Any:
    """Return the sampled action, or the next action that the mask allows."""
    if mask is None:
        return action
    first, last = np.ravel(space.start), np.cumsum(_choices(space))
    drawn = np.ravel(action) - first
    for i, allowed in enumerate(np.split(mask, last[:-1])):
        drawn[i] = next(j % len(allowed) for j in range(drawn[i], drawn[i] + len(allowed)) if allowed[j % len(allowed)])
    return (drawn + first).reshape(np.shape(action)).astype(space.dtype)[()]


def _check_obs(env: Any, obs: Any, source: str) -> None:
    _as_assertion(check_observation, env.observation_space, obs, f"the observation of {source}")
    _as_assertion(check_finite, f"the observation of {source}", obs)
    sentence = f"the observation of {source} lies outside the observation space {env.observation_space}: {obs!r}"
    require(env.observation_space.contains(obs), sentence)


def _as_assertion(check: Any, *arguments: Any) -> None:
    try:
        check(*arguments)
    except ValueError as error:
        raise AssertionError(str(error)) from error


def require(holds: Any, sentence: str) -> None:
    """Raise an error with this message if `holds` is false, even with `python -O`.

    Raises:
        AssertionError: If `holds` is false.
    """
    if not holds:
        raise AssertionError(sentence)


def require_error(error: type[Exception] | tuple[type[Exception], ...], sentence: str, use: Any, *given: Any) -> None:
    """Raise an error with this message if a call does not raise the expected error.

    Raises:
        AssertionError: If the call does not raise the expected error.
    """
    try:
        use(*given)
    except error:
        return
    raise AssertionError(sentence)


def refuse_unknown_keywords(make: Callable[..., Any]) -> None:
    """Raise an error if a constructor accepts a misspelt argument.

    Raises:
        AssertionError: If the constructor accepts the argument.
    """
    sentence = "the constructor took the unknown keyword not_an_argument, expected a TypeError"
    require_error(TypeError, sentence, partial(make, not_an_argument=0))


def difference(first: Any, second: Any, name: str = "", *, exact: bool = True) -> str | None:
    """Return a description of the first difference between two nested states; None if they are equal.

    Args:
        first: Dicts, lists and tuples of tensors, arrays, numbers, strings and None.
        second: Dicts, lists and tuples of tensors, arrays, numbers, strings and None.
        name: Name of the states in the result.
        exact: True for a bitwise comparison, False to allow the rounding differences of a GPU, whose sums have no fixed
            order.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if first.keys() != second.keys():
            return f"{name} has {sorted(map(str, first.keys() ^ second.keys()))} in one of the two only"
        pairs = [(f"{name}[{key!r}]", first[key], second[key]) for key in first]
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return f"{name} has the lengths {len(first)} and {len(second)}"
        pairs = [(f"{name}[{i}]", one, other) for i, (one, other) in enumerate(zip(first, second, strict=True))]
    elif _same_leaf(first, second, exact):
        return None
    else:
        return f"{name} is {_brief(first)} and {_brief(second)}"
    all_found = (difference(one, other, label, exact=exact) for label, one, other in pairs)
    return next((found for found in all_found if found is not None), None)


def _same_leaf(first: Any, second: Any, exact: bool) -> bool:
    if isinstance(first, torch.Tensor | np.ndarray | np.generic | float):
        one, other = (np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in (first, second))
        if one.dtype == object or other.dtype == object:
            return type(first) is type(second) and bool(np.all(one == other))
        if one.shape != other.shape:
            return False
        if exact or one.dtype.kind not in "fc":
            return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
        return np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
    return type(first) is type(second) and bool(first == second)


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 100 else text[:97] + "..."


def torch_assert_allclose(actual: Any, desired: Any, *args: Any, **kwargs: Any) -> None:
    """`numpy.testing.assert_allclose` that also accepts tensors.

    Args:
        actual: Tensor on any device, array, number, or nested lists and tuples of these, all of the same shape.
        desired: Tensor on any device, array, number, or nested lists and tuples of these, all of the same shape.
        *args: Further positional arguments of `numpy.testing.assert_allclose`: `rtol`, `atol`, ...
        **kwargs: Further keyword arguments of `numpy.testing.assert_allclose`: `rtol`, `atol`, ...

    Raises:
        AssertionError: If the shapes differ, or if the numbers differ by more than the tolerance.
    """
    np.testing.assert_allclose(_as_numpy(actual), _as_numpy(desired), *args, **kwargs)


def _as_numpy(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if isinstance(values, list | tuple):
        return np.asarray([_as_numpy(value) for value in values])
    return values
