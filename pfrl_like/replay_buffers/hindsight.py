"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495, algorithm 1 and section 4.5)."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import Batch
from pfrl_like.columns import ENDED, Columns, Indices, ReadOnlyDict, rows_of
from pfrl_like.columns.leaves import as_array, describe
from pfrl_like.replay_buffers.memory import StoredTransition
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION
from pfrl_like.utils.random import RandomSource, not_held

Strategy = Literal["future", "final", "episode"]
#: Called with achieved goals [B, ...], desired goals [B, ...] and a dict of extra columns; returns B values.
GoalFunction = Callable[[NDArray[Any], NDArray[Any], dict[str, Any]], Any]

_STRATEGIES = ("future", "final", "episode")


class HindsightReplayBuffer(ReplayBuffer):
    """The last `capacity` transitions of finished episodes, with desired goals replaced in most of the drawn items.

    Observations are dicts with the keys `observation`, `achieved_goal` and `desired_goal`. With probability
    k / (k + 1) the desired goal of an item is replaced by a goal that a step of its own episode has achieved. The new
    goal is set in `obs` and `next_obs` of all its steps, and their rewards and terminations are recomputed. The stored
    values do not change. Items are those of `ReplayBuffer`, but can be sampled only once their episode has ended. A
    step that is terminal under the new goal ends the item, which then has fewer steps. A truncated episode bootstraps.
    Beyond `capacity` the oldest items are removed even from the middle of an episode.

    The agent's `phi` joins observation and goal, so that its network takes one vector::

        from pfrl_like.utils.goals import concatenate_goal

        buffer = HindsightReplayBuffer(100_000, env.compute_reward, terminated_fn=env.compute_terminated)
        agent = DQN(q_function, optimizer, buffer, gamma=0.98, explorer=explorer, phi=concatenate_goal)

    Args:
        capacity: Largest number of items, beyond which the oldest are removed; None if unbounded.
        reward_fn: Function that gives the rewards [B] of steps from achieved goals [B, ...] and desired goals [B, ...].
            Called with arrays as (achieved_goal, desired_goal, info); a goal environment's `compute_reward` fits if it
            takes stacked goals. `info` is a dict of the extra columns of these steps (extra keywords of `append`),
            stacked.
        strategy: Step whose achieved goal is used: a step drawn uniformly from the item's first step to the episode's
            end ("future"), the episode's last step ("final"), or a step drawn from the whole episode as far as it is
            still stored ("episode"). A step's achieved goal is the `achieved_goal` of its next observation.
        n_goals: k, the number of items with another goal for each one that keeps its own; 0 replaces none.
        num_steps: Transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        terminated_fn: Function that gives True where a step ends the episode because it achieves the goal, shape [B];
            called like `reward_fn`. A stored terminal step stays terminal under another goal only if its own goal did
            not end it, for instance after a fall. None if only time ends an episode: terminal steps are refused then,
            since their meaning for other goals is unknown.
        rng: Source of randomness; None is the global NumPy stream.

    Raises:
        ValueError: If `capacity` or `num_steps` is less than 1, `n_goals` negative or infinite, or `strategy` unknown.
        TypeError: If `reward_fn` or `terminated_fn` cannot be called.
    """

    _kind = "hindsight replay buffer"
    tells_future = False  # each new goal would need another continuation
    stacks_frames = False  # observations with goals are dicts

    def __init__(
        self,
        capacity: int | None,
        reward_fn: GoalFunction,
        *,
        strategy: Strategy = "future",
        n_goals: int = 4,
        num_steps: int = 1,
        terminated_fn: GoalFunction | None = None,
        rng: RandomSource = None,
    ) -> None:
        super().__init__(capacity, num_steps, rng=rng)
        if not callable(reward_fn):
            raise TypeError(f"reward_fn: got {reward_fn!r}, expected a function of (achieved_goal, desired_goal, info)")
        if terminated_fn is not None and not callable(terminated_fn):
            raise TypeError(f"terminated_fn: got {terminated_fn!r}, expected such a function as reward_fn, or None")
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy: got {strategy!r}, expected one of {list(_STRATEGIES)}")
        if not 0 <= n_goals < math.inf:
            raise ValueError(f"n_goals: got {n_goals}, expected a finite number of at least 0")
        self.reward_fn = reward_fn
        self.strategy = strategy
        self.n_goals = n_goals
        self.terminated_fn = terminated_fn
        self._horizon = math.inf
        self._find_episodes()

    # Storing

    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Sequence[Any] | None = None,
        **extra: Any,
    ) -> None:
        """Store one transition of each of several environments; ends the episodes that are terminated or truncated.

        Raises:
            ValueError: If a value does not fit the first transition, the observations of the first transition have no
                goals, a next observation is missing, or a step is terminal and `terminated_fn` is None; nothing is
                stored.
        """
        if self._columns.obs is None and len(reward):
            _check_goals(rows_of(obs, len(reward), "obs")[0])
        if any(one is None for one in next_obs):
            raise ValueError(_NO_GOAL.format("next_obs"))
        if self.terminated_fn is None and np.any(terminated):
            raise ValueError(_UNKNOWN_END)
        super().append_batch(obs, action, reward, next_obs, terminated, truncated, env_ids, **extra)

    def _add_items(self, rows: Sequence[int] | Indices) -> None:
        self._first_item[rows], self._last_item[rows] = self._next, self._next + len(rows) - 1
        super()._add_items(rows)

    def _find_episodes(self) -> None:
        """Make two columns with the first and the last item of each step's episode."""
        columns, items = self._columns, np.arange(self._first, self._next)
        self._first_item: Indices = columns.steps.array((), np.int64)
        self._last_item: Indices = columns.steps.array((), np.int64)
        rows = self._rows(items)
        ends = items[columns.successor[rows] == ENDED]
        episode = np.searchsorted(ends, items)
        self._first_item[rows] = np.append(self._first, ends + 1)[episode]
        self._last_item[rows] = ends[episode]

    # Sampling

    def sample(self, num_experiences: int) -> Any:
        """Draw distinct items, each a list of one to `num_steps` transition dicts, with goals replaced.

        The transitions are made for this draw and are read-only; the stored ones can be changed through `memory`.

        Raises:
            ValueError: If `num_experiences` is larger than the buffer, or the values of `reward_fn` or `terminated_fn`
                do not fit.
        """
        if not 0 <= num_experiences <= len(self):
            raise not_held("num_experiences", num_experiences, len(self), "items")
        if not num_experiences:
            return []
        drawn = self._draw_windows(num_experiences)
        there = drawn.there.T
        transitions = self._columns.transitions(drawn.steps.T[there])
        outcomes = zip(drawn.reward.T[there].tolist(), drawn.terminal.T[there].tolist(), strict=True)
        rest = (
            {**step, "reward": reward, "is_state_terminal": terminal}
            for step, (reward, terminal) in zip(transitions, outcomes, strict=True)
        )
        items = [[next(rest) for _ in range(length)] for length in there.sum(axis=1).tolist()]
        for i, goal in zip(drawn.replaced.tolist(), drawn.goal, strict=True):
            for step in items[i]:
                for name in ("state", "next_state"):
                    step[name] = {**step[name], DESIRED_GOAL: goal.copy()}
        return [[_Relabelled(step) for step in item] for item in items]

    def sample_batch(
        self,
        n: int,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        next_actions: bool = False,
        continuation: float = 0,
        n_frames: int = 1,
    ) -> Batch:
        """Make the same draw as `sample` and gather it as tensors.

        Raises:
            ValueError: If `n` is larger than the buffer, or 0 before anything was stored, `continuation` is not 0,
                `n_frames` is not 1, or the values of `reward_fn` or `terminated_fn` do not fit.
        """
        if n_frames != 1:
            raise ValueError(f"n_frames: got {n_frames!r}, expected 1, since observations with goals are no images")
        if continuation:
            raise ValueError(f"continuation: got {continuation}, expected 0, since items have different goals")
        if not 0 <= n <= len(self):
            raise not_held("n", n, len(self), "items")
        if self._columns.obs is None:
            raise ValueError("nothing was ever stored, so that nobody knows the form of a batch")
        drawn = self._draw_windows(n)
        length = drawn.there.sum(axis=0)
        last = length - 1, np.arange(n)
        numbers = {
            "reward": (gamma ** np.arange(self.num_steps) @ (drawn.reward * drawn.there)).astype(np.float32),
            "discount": np.where(drawn.terminal[last], 0.0, float(gamma) ** length).astype(np.float32),
        }
        first, last = drawn.steps[0], drawn.steps[last]
        batch = self._columns.gather(first, last, numbers, drawn.index, device, next_actions=next_actions)
        replaced, goal = torch.from_numpy(drawn.replaced).to(device), torch.from_numpy(drawn.goal).to(device)
        for obs in (batch.obs, batch.next_obs):
            obs[DESIRED_GOAL][replaced] = goal
        return batch

    def _draw_windows(self, n: int) -> "_Windows":
        """Draw n items, and new goals for most of them; the caller has checked n."""
        columns, index = self._columns, self._draw(n)[0]
        item, last_item = index + np.arange(self.num_steps)[:, None], self._last_item[self._rows(index)]
        there = item <= last_item
        steps = self._rows(np.minimum(item, last_item))
        reward, terminal = columns.reward[steps], columns.terminal[steps]

        source: Any = np.random if self._rng is None else self._rng
        replaced = np.flatnonzero(source.random(n) * (self.n_goals + 1) < self.n_goals)
        goal = self._goals(ACHIEVED_GOAL, columns.next_row[self._rows(self._draw_goals(index[replaced], source))])
        if len(replaced):
            when, which = np.nonzero(there[:, replaced])
            at = when, replaced[which]
            reward[at], terminal[at] = self._outcome(steps[at], goal[which])

        there[1:] &= ~np.logical_or.accumulate(terminal[:-1], axis=0)
        return _Windows(index, steps, there, reward, terminal, replaced, goal)

    def _draw_goals(self, index: Indices, source: Any) -> Indices:
        """For each item, draw the item of its episode whose achieved goal it gets."""
        rows = self._rows(index)
        last = self._last_item[rows]
        if self.strategy == "final":
            return last
        first = index if self.strategy == "future" else np.maximum(self._first_item[rows], self._first)
        drawn: Indices = first + (source.random(len(index)) * (last - first + 1)).astype(np.int64)
        return drawn

    def _outcome(self, rows: Indices, goal: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rewards and terminations of steps under new goals, each of shape [N]."""
        columns = self._columns
        achieved = self._goals(ACHIEVED_GOAL, columns.next_row[rows])
        info = columns.further(rows)
        reward = _values(self.reward_fn, "reward_fn", achieved, goal, info)
        terminal = columns.terminal[rows]
        if self.terminated_fn is None:
            return reward, terminal
        reached = _values(self.terminated_fn, "terminated_fn", achieved, goal, info).astype(np.bool_)
        if terminal.any():
            own = self._goals(DESIRED_GOAL, columns.obs_row[rows])
            terminal &= ~_values(self.terminated_fn, "terminated_fn", achieved, own, info).astype(np.bool_)
        return reward, reached | terminal

    def _goals(self, key: str, obs_rows: Indices) -> NDArray[Any]:
        """The goals under `key` in these rows of observations, shape [N, ...]."""
        assert self._columns.obs is not None
        return self._columns.obs.part(key, obs_rows)

    def _edit(self, transition: StoredTransition, changes: dict[str, Any]) -> dict[str, Any]:
        if "next_state" in changes and changes["next_state"] is None:
            raise ValueError(_NO_GOAL.format("next_state"))
        if self.terminated_fn is None and np.any(changes.get("is_state_terminal", False)):
            raise ValueError(_UNKNOWN_END)
        return super()._edit(transition, changes)

    # State

    def _load_state(self, state: Mapping[str, Any], restore: Callable[[Any, Any], Columns]) -> None:
        super()._load_state(state, restore)
        self._find_episodes()

    def _load_order(
        self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], own: dict[str, NDArray[Any]], first: int, n: int
    ) -> None:
        successor = arrays["successor"][:n]
        in_order = (successor == np.arange(2, n + 2)) | (successor == ENDED)
        if not in_order.all() or (successor[n - 1 :] != ENDED).any():
            raise ValueError("its episodes do not lie one after the other")
        if self.terminated_fn is None and arrays["terminal"].any():
            raise ValueError(_UNKNOWN_END)
        super()._load_order(header, arrays, own, first, n)

    def _clear(self) -> None:
        super()._clear()
        self._find_episodes()


class _Relabelled(ReadOnlyDict):
    """A read-only drawn transition; its stored values may differ."""

    way_out = (
        "a hindsight buffer makes its steps anew for each draw, with other goals: change what is stored through "
        "buffer.memory, or a copy, dict(step)"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Windows:
    """Drawn items of up to L steps.

    Attributes:
        index: Sequence numbers of the items, shape [N].
        steps: Rows of their steps, shape [L, N].
        there: True for the steps that belong to the item, shape [L, N]; always True for the first.
        reward, terminal: Reward and termination of each step under the item's goal, shape [L, N].
        replaced: Positions of the items with a new goal, integers, shape [H].
        goal: The new goals, shape [H, ...].
    """

    index: Indices
    steps: Indices
    there: NDArray[np.bool_]
    reward: NDArray[np.float64]
    terminal: NDArray[np.bool_]
    replaced: Indices
    goal: NDArray[Any]


_NO_GOAL = "{}: got None, expected an observation, which tells the goal that a step achieved"
_UNKNOWN_END = (
    "terminated: a step is terminal, but terminated_fn is None, so that nobody knows whether it would be for another "
    "goal; expected terminated_fn=f, where f(achieved_goal, desired_goal, info) is True where the goal ends an episode"
)


def _check_goals(obs: Any) -> None:
    keys = (OBSERVATION, ACHIEVED_GOAL, DESIRED_GOAL)
    if not isinstance(obs, Mapping) or not obs.keys() >= set(keys):
        came = f"a dict with keys {list(obs)}" if isinstance(obs, Mapping) else type(obs).__name__
        raise ValueError(f"obs: got {came}, expected a dict with keys {list(keys)}")
    achieved, desired = as_array(obs[ACHIEVED_GOAL]), as_array(obs[DESIRED_GOAL])
    if achieved is None or desired is None or (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        came = f"{describe(obs[ACHIEVED_GOAL])} and {describe(obs[DESIRED_GOAL])}"
        raise ValueError(f"obs: got {came} as achieved_goal and desired_goal, expected arrays of one shape and dtype")


def _values(
    function: GoalFunction, name: str, achieved: NDArray[Any], desired: NDArray[Any], info: dict[str, Any]
) -> NDArray[Any]:
    """Call `reward_fn` or `terminated_fn` and check that it returns one number for each step, shape [B].

    Raises:
        ValueError: If it does not.
    """
    values = as_array(function(achieved, desired, info))
    if values is None or values.shape != (len(achieved),) or values.dtype.kind == "c":
        came = "no array of numbers" if values is None else f"an array of shape {values.shape}, {values.dtype}"
        raise ValueError(f"{name}: gave {came} for {len(achieved)} steps, expected a number for each of stacked goals")
    return values
