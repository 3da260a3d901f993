"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495, algorithm 1 and section 4.5)."""

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
from pfrl_like.replay_buffers.saved import Arrays
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION
from pfrl_like.utils.random import RandomSource, check_held, size_of_sample

Strategy = Literal["future", "final", "episode"]
Array = NDArray[Any]
#: Function of achieved goals [B, ...], desired goals [B, ...] and a dict of extra columns. It returns B values.
GoalFunction = Callable[[Array, Array, dict[str, Any]], Any]

_STRATEGIES = ("future", "final", "episode")


class HindsightReplayBuffer(ReplayBuffer):
    """Replay buffer of finished episodes that replaces the desired goals of most sampled items.

    Observations are dicts with the keys `observation`, `achieved_goal` and `desired_goal`. With probability k / (k + 1)
    the desired goal of an item is replaced by a goal that was achieved in a step of the same episode. The new goal is
    set in `obs` and `next_obs` of all steps of the item, and the rewards and terminations of the steps are recomputed.
    The stored values do not change. Items are defined as in `ReplayBuffer`, but an item can be sampled only after its
    episode has ended. If a step is terminal under the new goal, the item ends with this step. If the episode was
    truncated, targets bootstrap from its last observation. If the buffer has more than `capacity` items, the oldest
    items are removed, even if this removes only a part of an episode.

    The agent's `phi` concatenates observation and goal, because the network expects one vector::

        from pfrl_like.utils.goals import concatenate_goal

        buffer = HindsightReplayBuffer(100_000, env.compute_reward, terminated_fn=env.compute_terminated)
        agent = DQN(q_function, optimizer, buffer, gamma=0.98, explorer=explorer, phi=concatenate_goal)

    Args:
        capacity: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.
        reward_fn: Function that returns the rewards [B] of steps. It is called with arrays as (achieved_goal,
            desired_goal, info), where achieved_goal and desired_goal have shape [B, ...]. The `compute_reward` of a
            goal environment can be used if it accepts stacked goals. `info` is a dict of the stacked extra columns of
            these steps (extra keywords of `append`).
        strategy: Selection of the step whose achieved goal becomes the new goal. "future" samples a step from the
            item's first step to the end of the episode. "final" uses the last step of the episode. "episode" samples
            one of the stored steps of the episode. The achieved goal of a step is the `achieved_goal` of its next
            observation.
        n_goals: k, the number of items with a new goal per item with its original goal. If 0, no goals are replaced.
        num_steps: Number of transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        terminated_fn: Function that returns True for each step that ends the episode because it achieves the goal,
            shape [B]. It is called like `reward_fn`. If a stored step is terminal for another reason than its own goal,
            for instance a fall, it is also terminal under a new goal. Pass None if episodes end only by truncation.
            Terminal steps are then rejected, because it is unknown if they are terminal under other goals.
        rng: NumPy generator; None uses the global NumPy stream.

    Raises:
        ValueError: If `capacity` or `num_steps` is less than 1, if `n_goals` is negative or infinite, or if `strategy`
            is unknown.
        TypeError: If `reward_fn` or `terminated_fn` is not callable.
    """

    _kind = "hindsight replay buffer"
    tells_future = False  # the rewards in a continuation would depend on the new goal of each item
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
            raise TypeError(f"terminated_fn: got {terminated_fn!r}, expected a function like reward_fn, or None")
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy: got {strategy!r}, expected one of {list(_STRATEGIES)}")
        if not 0 <= n_goals < math.inf:
            raise ValueError(f"n_goals: got {n_goals}, expected a finite number of at least 0")
        self.reward_fn, self.strategy, self.n_goals = reward_fn, strategy, n_goals
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
        """Store one transition of each of several environments. End the episodes that are terminated or truncated.

        Raises:
            ValueError: If a value does not have the shape and type of the first transition, if the observations of the
                first transition have no goals, if a next observation is missing, or if a step is terminal and
                `terminated_fn` is None. Nothing is stored.
        """
        if self._columns.obs is None and len(reward):
            _check_goals(rows_of(obs, len(reward), "obs")[0])
        if any(one is None for one in next_obs):
            raise ValueError(_NO_GOAL.format("next_obs"))
        if self.terminated_fn is None and np.any(terminated):
            raise ValueError(_UNKNOWN_END)
        super().append_batch(obs, action, reward, next_obs, terminated, truncated, env_ids, **extra)

    #: `append_chunk` makes the checks of this `append_batch` itself.
    _chunked_methods = append_batch, ReplayBuffer.stop_current_episode

    def append_chunk(self, chunk: Any, env_ids: Sequence[Any] | None = None) -> None:
        """Store the steps of a chunk, in (t, environment) order. This equals one `append_batch` call for each t.

        Args:
            chunk: A `distributed.chunk.Chunk` of T steps of k environments; it is copied.
            env_ids: Ids of the k environments, hashable objects. If None, the ids are 0 to k - 1.

        Raises:
            NonFiniteError: If a reward is NaN, infinite or too large for float32. Nothing is stored.
            ValueError: If a value does not have the shape and type of the first transition, if the observations of the
                first transition have no goals, or if a step is terminal and `terminated_fn` is None. Nothing is stored.
        """
        if self._columns.obs is None:
            _check_goals(chunk.first_obs()[1][0])
        if self.terminated_fn is None and chunk.terminated.any():
            raise ValueError(_UNKNOWN_END)
        super().append_chunk(chunk, env_ids)

    def _add_items(self, rows: Sequence[int] | Indices) -> None:
        self._first_item[rows], self._last_item[rows] = self._next, self._next + len(rows) - 1
        super()._add_items(rows)

    def _find_episodes(self) -> None:
        """Fill two columns: the first and the last item of each step's episode."""
        columns, items = self._columns, np.arange(self._first, self._next)
        self._first_item: Indices = columns.steps.array((), np.int64)
        self._last_item: Indices = columns.steps.array((), np.int64)
        rows = self._rows(items)
        ends = items[columns.successor[rows] == ENDED]
        episode = np.searchsorted(ends, items)
        self._first_item[rows] = np.append(self._first, ends + 1)[episode]
        self._last_item[rows] = ends[episode]

    # Sampling

    def sample(self, num_experiences: int | None = None, *, n: int | None = None) -> Any:  # type: ignore[override]
        """Draw distinct items and replace goals. An item is a list of one to `num_steps` transition dicts.

        The transition dicts are created for this sample and are read-only. Use `memory` to change stored transitions.

        Args:
            num_experiences: Number of items.
            n: Another name of `num_experiences`; PFRL's episodic and prioritised buffers call it n.

        Raises:
            ValueError: If the number is larger than the buffer, or if `reward_fn` or `terminated_fn` returns values of
                the wrong shape or type.
            TypeError: If not exactly one of the arguments is passed.
        """
        number = size_of_sample(num_experiences, n)
        check_held("num_experiences", number, len(self), "items")
        if not number:
            return []
        _, steps, valid, reward, terminal, replaced, goals = self._draw_windows(number)
        transitions = self._columns.transitions(steps.T[valid.T])
        outcomes = zip(transitions, reward.T[valid.T].tolist(), terminal.T[valid.T].tolist(), strict=True)
        rest = ({**step, "reward": number, "is_state_terminal": end} for step, number, end in outcomes)
        items = [[next(rest) for _ in range(length)] for length in valid.sum(axis=0).tolist()]
        for i, goal in zip(replaced.tolist(), goals, strict=True):
            for step in items[i]:
                for name in ("state", "next_state"):
                    step[name] = {**step[name], DESIRED_GOAL: goal.copy()}
        return [[_SampledTransition(step) for step in item] for item in items]

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
        """Draw the same items as `sample`, and return them as tensors.

        Raises:
            ValueError: If `n` is larger than the buffer, if `n` is 0 and nothing was ever stored, if `continuation` is
                not 0, if `n_frames` is not 1, or if `reward_fn` or `terminated_fn` returns values of the wrong shape or
                type.
        """
        if n_frames != 1:
            raise ValueError(f"n_frames: got {n_frames!r}, expected 1, because observations with goals are dicts")
        if continuation:
            raise ValueError(f"continuation: got {continuation}, expected 0, because items have different goals")
        check_held("n", n, len(self), "items")
        if self._columns.obs is None:
            raise ValueError("n: got 0, but nothing was ever stored, so the shapes of a batch are unknown")
        index, steps, valid, reward, terminal, replaced, goals = self._draw_windows(n)
        length = valid.sum(axis=0)
        last = length - 1, np.arange(n)
        numbers = {
            "reward": (gamma ** np.arange(self.num_steps) @ (reward * valid)).astype(np.float32),
            "discount": np.where(terminal[last], 0.0, float(gamma) ** length).astype(np.float32),
        }
        batch = self._columns.gather(steps[0], steps[last], numbers, index, device, next_actions=next_actions)
        for obs in (batch.obs, batch.next_obs):
            obs[DESIRED_GOAL][torch.from_numpy(replaced).to(device)] = torch.from_numpy(goals).to(device)
        return batch

    def _draw_windows(self, n: int) -> tuple[Array, ...]:
        """Draw n items with up to L steps, and new goals for H of them. The caller checks n.

        Returns:
            Seven arrays: sequence numbers of the items, [n]; rows of their steps, [L, n]; True for each step that
            belongs to the item, [L, n]; rewards of the steps under the item's goal, [L, n]; True for each step that is
            terminal under this goal, [L, n]; indices of the items with a new goal, [H]; the new goals, [H, ...].
        """
        columns, index = self._columns, self._draw(n)[0]
        item, last_item = index + np.arange(self.num_steps)[:, None], self._last_item[self._rows(index)]
        valid = item <= last_item
        steps = self._rows(np.minimum(item, last_item))
        reward, terminal = columns.reward[steps], columns.terminal[steps]

        source: Any = np.random if self._rng is None else self._rng
        replaced = np.flatnonzero(source.random(n) * (self.n_goals + 1) < self.n_goals)
        goal = self._goals(ACHIEVED_GOAL, columns.next_row[self._rows(self._draw_goals(index[replaced], source))])
        if len(replaced):
            when, which = np.nonzero(valid[:, replaced])
            at = when, replaced[which]
            reward[at], terminal[at] = self._outcome(steps[at], goal[which])

        valid[1:] &= ~np.logical_or.accumulate(terminal[:-1], axis=0)
        return index, steps, valid, reward, terminal, replaced, goal

    def _draw_goals(self, index: Indices, source: Any) -> Indices:
        """Draw an item of the same episode for each item. The achieved goal of the drawn item becomes the new goal."""
        rows = self._rows(index)
        last = self._last_item[rows]
        if self.strategy == "final":
            return last
        first = index if self.strategy == "future" else np.maximum(self._first_item[rows], self._first)
        drawn: Indices = first + (source.random(len(index)) * (last - first + 1)).astype(np.int64)
        return drawn

    def _outcome(self, rows: Indices, goal: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the rewards and terminations of steps under new goals, each of shape [N]."""
        columns = self._columns
        achieved = self._goals(ACHIEVED_GOAL, columns.next_row[rows])
        info = columns.stacked_extras(rows)
        reward = _values(self.reward_fn, "reward_fn", achieved, goal, info)
        terminal = columns.terminal[rows]
        if self.terminated_fn is None:
            return reward, terminal
        reached = _values(self.terminated_fn, "terminated_fn", achieved, goal, info).astype(np.bool_)
        if terminal.any():
            own = self._goals(DESIRED_GOAL, columns.obs_row[rows])
            terminal &= ~_values(self.terminated_fn, "terminated_fn", achieved, own, info).astype(np.bool_)
        return reward, reached | terminal

    def _goals(self, key: str, obs_rows: Indices) -> Array:
        """Return the goals under `key` in these rows of observations, shape [N, ...]."""
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

    def _load_order(self, header: dict[str, Any], arrays: Arrays, extra: Arrays, first: int, n: int) -> None:
        successor = arrays["successor"][:n]
        in_order = (successor == np.arange(2, n + 2)) | (successor == ENDED)
        if not in_order.all() or (successor[n - 1 :] != ENDED).any():
            raise ValueError("the steps of the saved episodes are not in order")
        if self.terminated_fn is None and arrays["terminal"].any():
            raise ValueError(_UNKNOWN_END)
        super()._load_order(header, arrays, extra, first, n)

    def _clear(self) -> None:
        super()._clear()
        self._find_episodes()


class _SampledTransition(ReadOnlyDict):
    """Read-only transition of a sample. The stored transition may have another goal and reward."""

    advice = "a hindsight buffer creates the transitions of a sample: change buffer.memory, or a copy, dict(step)"


_NO_GOAL = "{}: got None, expected an observation with the goal that the step achieved"
_UNKNOWN_END = "terminated: a step is terminal, but terminated_fn is None; pass terminated_fn(achieved, desired, info)"


def _check_goals(obs: Any) -> None:
    keys = (OBSERVATION, ACHIEVED_GOAL, DESIRED_GOAL)
    if not isinstance(obs, Mapping) or not obs.keys() >= set(keys):
        got = f"a dict with keys {list(obs)}" if isinstance(obs, Mapping) else type(obs).__name__
        raise ValueError(f"obs: got {got}, expected a dict with keys {list(keys)}")
    achieved, desired = as_array(obs[ACHIEVED_GOAL]), as_array(obs[DESIRED_GOAL])
    if achieved is None or desired is None or (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        got = f"{describe(obs[ACHIEVED_GOAL])} and {describe(obs[DESIRED_GOAL])}"
        raise ValueError(f"obs: got {got} as achieved_goal and desired_goal, expected equal shapes and dtypes")


def _values(function: GoalFunction, name: str, achieved: Array, desired: Array, info: dict[str, Any]) -> Array:
    """Call `reward_fn` or `terminated_fn` and check that it returns one number for each step, shape [B].

    Raises:
        ValueError: If the function returns something else.
    """
    values = as_array(function(achieved, desired, info))
    if values is None or values.shape != (len(achieved),) or values.dtype.kind == "c":
        got = "no array of numbers" if values is None else f"an array of shape {values.shape}, {values.dtype}"
        raise ValueError(f"{name}: returned {got} for {len(achieved)} steps, expected one number per step")
    return values
