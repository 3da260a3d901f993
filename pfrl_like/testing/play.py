"""Short training runs, an environment with known values (`Chain`), `check_env`, and comparison of nested states."""

import copy
import math
from collections.abc import Mapping, Sequence
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
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.envs.vector_stream import VectorStream
from pfrl_like.experiments.sources import agent_keywords
from pfrl_like.utils.checks import check_action, check_finite, check_observation
from pfrl_like.utils.env_values import mask_keyword, own_copy, seed_env


class Episodes:
    """Copy of an environment that starts new episodes itself. `obs` and `mask` are the latest observation and mask.

    Args:
        env: Environment with any interface that `as_gymnasium` accepts. The class uses a copy of it.
        seed: Seed of the first episode. The seed is ignored if `reset` of the environment accepts none.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env = as_gymnasium(copy.deepcopy(env))
        try:
            self._begin(seed=seed)
        except ValueError:  # `reset` accepts no seed
            self._begin()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Make one step. Return the observation after the step, reward, terminated, truncated and the action mask."""
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
    """Make one step with `act` and `observe`, and return the action."""
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
    environments = [Episodes(env, seed + i) for i in range(n_envs)]
    all_actions = []
    for _ in range(n_steps):
        keywords = _mask_keywords([one.mask for one in environments])
        actions = agent.batch_act([one.obs for one in environments], **keywords)
        steps = [one.step(action) for one, action in zip(environments, actions, strict=True)]
        obs, reward, terminated, truncated, masks = (list(column) for column in zip(*steps, strict=True))
        agent.batch_observe(obs, reward, terminated, truncated, **_mask_keywords(masks))
        all_actions.append(list(actions))
    return all_actions


def play_stream(agent: Any, stream: VectorStream, n_steps: int) -> None:
    """Train an agent in a vector environment until its environments have made `n_steps` steps in total."""
    current, n_made = stream.reset(), 0
    while n_made < n_steps:
        step = stream.step(agent.batch_act(current.obs, **agent_keywords(current)))
        agent.batch_observe(step.obs, step.reward, step.terminated, step.truncated, **agent_keywords(step))
        n_made += int(np.count_nonzero(step.active))
        current = stream.begin((step.terminated | step.truncated) & step.active)


def _mask_keywords(masks: Sequence[Any]) -> dict[str, Any]:
    """Return the keyword `action_mask` with the masks of all environments; {} if an environment has no mask."""
    return {} if any(mask is None for mask in masks) else {ACTION_MASK: list(masks)}


#: Pairs (terminated, truncated) for the last step of an episode. Each episode uses the next pair.
ENDINGS = ((False, True), (True, False), (True, True))
#: Maximum numbers of steps of an episode. Each episode uses the next number.
LENGTHS = (3, 5, 4, 2)


class Step(NamedTuple):
    """One step of an environment. At the end of an episode, `next_obs` is the last observation of this episode."""

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool


class RecordedEnv(gymnasium.Env[Any, Any]):
    """Environment that records its steps and ends its episodes early, by termination, truncation or both.

    Args:
        env: Environment with any interface that `as_gymnasium` accepts. The class uses a copy of it.
        number: Index of this environment among several environments. Environments with different indices have episodes
            of different lengths and with different values of (terminated, truncated) in the last step.
        seed: Seed of the random rewards, and of the first episode if `reset` of the environment accepts a seed.
        endings: Pairs (terminated, truncated) for the last step of an episode. Each episode uses the next pair.
        own_rewards: True to replace the rewards of the environment with random numbers, so that every reward, and every
            sum of consecutive rewards, is unique.

    Attributes:
        episodes: The recorded episodes, each a list of steps.
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
        """Start an episode. `seed` is ignored. The first call uses the seed of the constructor, later calls no seed."""
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
        i, episode = self.number + len(self.episodes), self.episodes[-1]
        if len(episode) + 1 == LENGTHS[i % len(LENGTHS)]:
            terminates, truncates = self.endings[i % len(self.endings)]
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


#: Actions of a `Chain`.
STAY, MOVE = 0, 1


class Chain(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Environment with the states 0 to size - 1. Only the first state of an episode is random.

    In state s, action 1 has the reward s + 1 and moves to the next state. Action 0 has the reward 0 and stays in s.
    Action 1 in the last state terminates the episode, or leads to state 0. So action 1 is always optimal. The
    observation is the one-hot float32 vector [size + 1] of the state. Its last entry is 1 in the terminal state.

    Args:
        size: Number of states.
        terminates: True if action 1 in the last state terminates the episode, False if it leads to state 0.
        time_limit: Number of steps after which an episode is truncated. If None, episodes are not truncated. `q_values`
            ignores the limit. The last step may be both terminated and truncated.
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
        """Stay (action 0) or move to the next state (action 1)."""
        reward = 0.0
        if action == MOVE:
            reward = self._state + 1.0
            self._state += 1
            if self._state == self.size and not self.terminates:
                self._state = 0
        self._steps += 1
        return self._observation(), reward, self._state == self.size, self._steps == self.time_limit, {}

    def q_values(self, gamma: float) -> NDArray[np.float64]:
        """Return the optimal values of every state and action, [size + 1, 2]. They are 0 in the terminal state.

        If the agent always moves, the discounted sum of the rewards from state s up to the last state is S(s) = (s + 1)
        + gamma (s + 2) + ... + gamma**(size - 1 - s) size. If `terminates`, the value of s is V(s) = S(s). Otherwise
        V(0) = S(0) / (1 - gamma**size) and V(s) = S(s) + gamma**(size - s) V(0). Action 1 has the value V(s), action 0
        has the value gamma V(s).
        """
        values = np.zeros(self.size + 1)
        for s in range(self.size):
            values[s] = sum(gamma ** (k - s) * (k + 1) for k in range(s, self.size))
        if not self.terminates:
            value_of_first = values[0] / (1 - gamma**self.size)
            values[:-1] += gamma ** (self.size - np.arange(self.size)) * value_of_first
        return np.stack([gamma * values, values], axis=1)

    def _observation(self) -> NDArray[np.float32]:
        obs: NDArray[np.float32] = np.eye(self.size + 1, dtype=np.float32)[self._state]
        return obs


class ChainQFunction(nn.Module):
    """Table of Q-values for a `Chain`, initialised with the true values except for the terminal state.

    The initial values of the terminal state are 1000 instead of 0, so that a target that wrongly bootstraps from the
    terminal state has a large error.

    Args:
        chain: The environment.
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


@accept_env_ids("env")
def check_env(env: Any, *, n_steps: int = 200, seed: int = 0) -> None:
    """Check an environment with any interface that `as_gymnasium` accepts, for example `check_env(YourEnv())`.

    The function steps the environment with random actions. Observations must match the observation space and be finite.
    Rewards must be finite numbers, `terminated` and `truncated` must be bools, and infos must be dicts. If the
    environment accepts a seed, two runs with the same seed and actions must have the same results. The environment may
    return the same array in every step and change its contents, because the runners copy observations.

    An action mask (`info["action_mask"]` or the key "action_mask" of an observation) must contain a 0 or 1 (False or
    True) for each action. It must allow at least one action, except in a terminal state. The function uses only allowed
    actions.

    Args:
        env: The environment, or its id. The function resets the environment.
        n_steps: Number of steps of a run.
        seed: Seed of the actions and of the environment.

    Raises:
        AssertionError: If the environment violates a requirement. The message describes the error.
        TypeError: If `env` is not a single environment.
    """
    adapted = as_gymnasium(env)
    for name in ("observation_space", "action_space"):
        require(getattr(adapted, name, None) is not None, f"the environment has no {name}")
    space = copy.deepcopy(adapted.action_space)
    space.seed(seed)
    actions = [space.sample() for _ in range(n_steps)]
    for action in actions:
        _as_assertion(check_action, space, action)
    try:
        seed_env(env, seed)
    except ValueError:  # the environment accepts no seed
        _trace(adapted, actions, None)
        return
    first, second = (_trace(adapted, actions, seed) for _ in range(2))
    require_equal(first, second, "the same seed and actions gave different results", "trace[step][value]: trace")


def _trace(env: Any, actions: list[Any], seed: int | None) -> list[Any]:
    """Step an environment with these actions, check the results of `reset` and `step`, and return them."""
    trace: list[Any] = []
    must_reset, mask = True, None
    for action in actions:
        if must_reset:
            # The first reset sets the seed. Later resets use the same random stream.
            result = env.reset(seed=seed) if seed is not None and not trace else env.reset()
            message = f"reset returned {type(result).__name__}, expected (obs, info) with a dict as info"
            require(isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict), message)
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
    """Return the number of actions in each dimension of a space. Return [] if masks do not exist for the space."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.flatten()]
    return [int(space.n)] if isinstance(space, spaces.Discrete) else []


def _checked_mask(space: Any, obs: Any, info: Any, source: str, terminated: bool = False) -> Any:
    """Check the action mask in the result of `reset` or `step`. Return a copy, or None if there is no mask."""
    mask, sizes = info.get(ACTION_MASK, obs.get(ACTION_MASK) if isinstance(obs, dict) else None), _choices(space)
    if mask is None or not sizes:
        return None
    complaint = f"the action_mask of {source} is {mask!r}"
    fits = np.shape(mask) == (sum(sizes),) and np.isin(mask, (0, 1)).all()
    require(fits, f"{complaint}, expected {sum(sizes)} numbers, 0 or 1, one for each action")
    mask = np.array(mask, np.bool_)
    some = all(choice.any() for choice in np.split(mask, np.cumsum(sizes)[:-1]))
    require(some or terminated, f"{complaint}, expected at least one allowed action, except in a terminal state")
    return mask


def _allowed(space: Any, action: Any, mask: Any) -> Any:
    """Return an allowed action: in each dimension the sampled number, or the next allowed number if it is masked."""
    if mask is None:
        return action
    first, last = np.ravel(space.start), np.cumsum(_choices(space))
    sampled = np.ravel(action) - first
    for i, allowed in enumerate(np.split(mask, last[:-1])):
        n = len(allowed)
        sampled[i] = next(j % n for j in range(sampled[i], sampled[i] + n) if allowed[j % n])
    return (sampled + first).reshape(np.shape(action)).astype(space.dtype)[()]


def _check_obs(env: Any, obs: Any, source: str) -> None:
    _as_assertion(check_observation, env.observation_space, obs, f"the observation of {source}")
    _as_assertion(check_finite, f"the observation of {source}", obs)
    space = env.observation_space
    require(space.contains(obs), f"the observation of {source} lies outside the observation space {space}: {obs!r}")


def _as_assertion(check: Any, *arguments: Any) -> None:
    try:
        check(*arguments)
    except ValueError as error:
        raise AssertionError(str(error)) from error


def require(holds: Any, message: str) -> None:
    """Raise an error with this message if `holds` is false. Unlike `assert`, this also works with `python -O`.

    Raises:
        AssertionError: If `holds` is false.
    """
    if not holds:
        raise AssertionError(message)


def require_error(
    error: type[Exception] | tuple[type[Exception], ...], message: str, function: Any, *arguments: Any
) -> None:
    """Call a function, and raise an error with this message if the function does not raise the expected error.

    Raises:
        AssertionError: If the function does not raise the expected error.
    """
    try:
        function(*arguments)
    except error:
        return
    raise AssertionError(message)


def require_equal(first: Any, second: Any, message: str, name: str = "state", *, exact: bool = True) -> None:
    """Raise an error with this message and the `difference` of two states if they differ.

    Raises:
        AssertionError: If the states differ.
    """
    found = difference(first, second, name, exact=exact)
    require(found is None, f"{message}: {found}")


def difference(first: Any, second: Any, name: str = "", *, exact: bool = True) -> str | None:
    """Return a description of the first difference between two nested states, or None if they are equal.

    Args:
        first: Dicts, lists and tuples of tensors, arrays, numbers, strings and None.
        second: Dicts, lists and tuples of tensors, arrays, numbers, strings and None.
        name: Name of the two states in the description.
        exact: True for a bitwise comparison. If False, small rounding differences are allowed, because a GPU adds
            numbers in no fixed order.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if first.keys() != second.keys():
            return f"{name} has {sorted(map(str, first.keys() ^ second.keys()))} in only one of the two states"
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
    if not isinstance(first, torch.Tensor | np.ndarray | np.generic | float):
        return type(first) is type(second) and bool(first == second)
    one, other = (np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in (first, second))
    if one.dtype == object or other.dtype == object:
        return type(first) is type(second) and bool(np.all(one == other))
    if exact or one.dtype.kind not in "fc" or one.shape != other.shape:
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    return np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)


def _brief(value: Any) -> str:
    return f"{' '.join(repr(value).split()):.100}"


def torch_assert_allclose(actual: Any, desired: Any, *args: Any, **kwargs: Any) -> None:
    """Call `numpy.testing.assert_allclose` with tensors converted to arrays.

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
