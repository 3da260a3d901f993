"""Replay buffer with d3rlpy's interface: it appends rows and samples a `TransitionMiniBatch`."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like import replay_buffers
from pfrl_like.columns import as_array
from pfrl_like.dataset import Episode, MDPDataset, Transition, TransitionMiniBatch
from pfrl_like.dataset.episode import as_episodes
from pfrl_like.dataset.transition import UNSET
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.replay_buffers.memory import StoredTransition
from pfrl_like.utils.checks import check_action, check_finite, check_observation, check_reward
from pfrl_like.utils.env_values import action_size_of, space_kind
from pfrl_like.utils.random import RandomSource, check_held


class ReplayBuffer(replay_buffers.ReplayBuffer):
    """Replay buffer of the last `maxlen` transitions with uniform sampling. Agents can also use this buffer.

    Args:
        maxlen: Maximum number of transitions.
        env: Environment whose spaces define the shapes of observations and actions, or an environment id.
        episodes: Episodes that are added in the constructor. None adds no episodes.
        rng: Source of randomness; None uses the global NumPy generator.

    Raises:
        ValueError: If `maxlen` is less than 1, the environment's actions are neither discrete nor continuous, no
            episode has a transition, or `append_episode` raises a ValueError.
        TypeError: If an item of `episodes` is not an episode, or the observations of `env` are not arrays.

    Attributes:
        observation_space: Observation space of `env`.
        action_space: Action space of `env`.
        observation_shape: Shape of an observation of `env`.
        action_size: Size of a continuous action, or number of discrete actions.
        prev_observation: Observation of the last appended row; None at the start of an episode.
        prev_action: Action of the last appended row; None at the start of an episode.
        prev_reward: Reward of the last appended row; None at the start of an episode.
    """

    prev_observation: Any = None
    prev_action: Any = None
    prev_reward: float | None = None

    @accept_env_ids("env")
    def __init__(
        self, maxlen: int, env: Any, episodes: Iterable[Episode] | None = None, *, rng: RandomSource = None
    ) -> None:
        super().__init__(maxlen, rng=rng)
        if getattr(getattr(env, "observation_space", None), "shape", None) is None:
            raise TypeError(f"env is {env!r:.80}, expected an environment whose observations are arrays")
        self._first_rewards: dict[int, float] = {}  # rewards before the first steps of episodes, by item
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.observation_shape, self.action_size = tuple(env.observation_space.shape), action_size_of(env.action_space)
        for episode in as_episodes(episodes) if episodes else ():
            self.append_episode(episode)

    # Agents call the following methods. `append` and `sample` below have the signatures of d3rlpy.
    append_batch = replay_buffers.ReplayBuffer.append_batch
    sample_batch = replay_buffers.ReplayBuffer.sample_batch

    def append(self, observation: Any, action: Any, reward: float, terminal: bool | float) -> None:  # type: ignore[override]
        """Add a row: an observation, the reward of the previous action, and the action chosen for the observation.

        The row and the previous row together form a transition. The row after a terminal row starts a new episode.
        After a truncated episode, call `stop_current_episode`.

        Args:
            observation: The observation.
            action: The action chosen for the observation. It is ignored if the state is terminal.
            reward: The reward of the previous action. The reward of an episode's first row is not used in training.
            terminal: True if the observation belongs to a terminal state.

        Raises:
            ValueError: If the shape of the observation differs from the observation space of `env`, or the action is
                outside the action space and the state is not terminal. Nothing is stored.
            TypeError: If the reward is not a number. Nothing is stored.
            NonFiniteError: If a value is NaN or infinite. Nothing is stored.
        """
        ended = bool(terminal)
        self._check_row(observation, reward)
        if not ended:
            self._check_action(action)
        if self.prev_observation is not None:
            step = (self.prev_observation, self.prev_action, float(reward), np.asarray(observation), ended)
            self._append_step(*step, float(self.prev_reward or 0.0))
        if not ended:
            self.prev_observation, self.prev_action = np.array(observation), copy(action)
            self.prev_reward = float(reward)

    def append_episode(self, episode: Episode) -> None:
        """Add the transitions of an episode. If the last state is not terminal, the episode is stored as truncated.

        Raises:
            TypeError: If `episode` is not an `Episode`.
            ValueError: If the shape of an observation differs from the observation space of `env`, or an action is
                outside the action space. Nothing is stored.
            NonFiniteError: If a value is NaN or infinite. Nothing is stored.
        """
        if not isinstance(episode, Episode):
            raise TypeError(f"episode is {type(episode).__name__}, expected an Episode")
        steps, before = episode.transitions, float(episode.table.lead[episode.number])
        for step in steps:
            self._check_row(step.observation, step.action_reward)
            self._check_action(step.action)
        for step in steps[-1:]:  # empty if the episode has no transition
            self._check_row(step.next_observation, before)
        self.stop_current_episode()
        for step in steps:
            ended = bool(step.terminal)
            self._append_step(step.observation, step.action, step.action_reward, step.next_observation, ended, before)
        self.stop_current_episode()

    def _check_row(self, observation: Any, reward: Any) -> None:
        check_observation(self.observation_space, observation, "observation")
        check_finite("observation", observation)
        check_reward(reward)

    def _check_action(self, action: Any) -> None:
        space = self.action_space
        array = as_array(action) if space_kind(space) == "box" else None
        check_action(space, action if array is None else array.astype(space.dtype))  # the dtype of the bounds

    def _append_step(
        self, obs: Any, action: Any, reward: float, next_obs: Any, ended: bool, reward_before: float
    ) -> None:
        """Store a transition. If the transition is the first of an episode, also store `reward_before`."""
        if 0 not in self._columns.running:
            while self._first_rewards and (oldest := next(iter(self._first_rewards))) < self._first:
                del self._first_rewards[oldest]
            self._first_rewards[self._next] = reward_before
        self.append_batch([obs], [action], [reward], [next_obs], [ended], [False])

    def _edit(self, transition: StoredTransition, changes: dict[str, Any]) -> dict[str, Any]:
        """Change a stored transition; raise an error if `append` would raise an error for a new value."""
        for name in {"state", "next_state"} & changes.keys():
            if changes[name] is not None:
                check_observation(self.observation_space, changes[name], name)
                check_finite(name, changes[name])
        if "reward" in changes:
            check_reward(changes["reward"])
        if "action" in changes:
            self._check_action(changes["action"])
        return super()._edit(transition, changes)

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        stored = {item: reward for item, reward in self._first_rewards.items() if item >= self._first}
        items, rewards = np.array([*stored], np.int64), np.array([*stored.values()], np.float64)
        return {}, {"first_items": items, "first_rewards": rewards}

    def _load_extra_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], first: int, n: int) -> None:
        items, rewards = (arrays.get(name, np.zeros(0)) for name in ("first_items", "first_rewards"))
        if items.ndim != 1 or items.shape != rewards.shape:
            raise ValueError(f"the saved first rewards have shape {rewards.shape}, expected shape {items.shape}")
        self._first_rewards = dict(zip(items.astype(int).tolist(), rewards.astype(float).tolist(), strict=True))
        self._forget_row()

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """Truncate the running episode of environment `env_id`; the next row starts a new episode."""
        self._forget_row()
        super().stop_current_episode(env_id)

    def _forget_row(self) -> None:
        self.prev_observation = self.prev_action = self.prev_reward = None

    @property
    def transitions(self) -> Sequence[Transition]:
        """Transitions, oldest first; a `Transition` is created on access."""
        return _Transitions(self)

    @property
    def prev_transition(self) -> Transition | None:
        """Newest transition of the running episode; None at the start of an episode."""
        return self.transitions[-1] if self._columns.running and len(self) else None

    def sample(  # type: ignore[override]
        self, batch_size: int, n_frames: int = 1, n_steps: int = 1, gamma: float = 0.99
    ) -> TransitionMiniBatch:
        """Sample distinct transitions as a minibatch of arrays.

        Args:
            batch_size: Number of transitions.
            n_frames: Number of consecutive images that are stacked into one observation.
            n_steps: Maximum number of steps whose rewards are summed, as in `TransitionMiniBatch`.
            gamma: Discount factor per step, for sums of several rewards.

        Raises:
            ValueError: If `batch_size` is larger than the number of transitions in the buffer.
        """
        check_held("batch_size", batch_size, len(self), "transitions", least=1)
        items, _ = self._draw(batch_size)
        transitions = [BufferTransition(self, item) for item in items.tolist()]
        return TransitionMiniBatch(transitions, n_frames, n_steps, gamma)

    def to_mdp_dataset(self, *, reward_convention: str | None = None) -> MDPDataset:
        """Return a dataset with a copy of the steps, as `MDPDataset.from_buffer` does.

        Args:
            reward_convention: Convention of the dataset, "next_row" or "same_row". If None, "next_row".

        Raises:
            ValueError: If the buffer is empty, or if the convention is unknown.
        """
        return MDPDataset.from_buffer(self, reward_convention=reward_convention)

    def size(self) -> int:
        """Return the number of transitions."""
        return len(self)

    def _has_next(self, item: int) -> bool:
        """Return True if the buffer contains `item` and `item + 1`, and both are consecutive steps of one episode."""
        if not self._first <= item < self._next - 1:
            return False
        row, next_row = self._rows(np.array([item, item + 1])).tolist()
        return bool(self._columns.successor[row] == next_row)


#: Name of the interface of buffers in d3rlpy. There is one class here.
Buffer = ReplayBuffer


class BufferTransition(Transition):
    """Transition of a buffer. The previous and next transitions are None if the buffer has overwritten them."""

    def __init__(self, buffer: ReplayBuffer, item: int) -> None:
        items = [*range(item - buffer._has_next(item - 1), item + buffer._has_next(item) + 1)]
        steps = dict(zip(items, buffer._columns.transitions(buffer._rows(np.array(items))), strict=True))
        step = steps[item]
        action = step["action"]
        super().__init__(
            buffer.observation_shape, buffer.action_size,
            observation=step["state"], action=action,
            reward=steps[item - 1]["reward"] if item - 1 in steps else buffer._first_rewards.get(item, 0.0),
            next_observation=step["next_state"],
            next_action=steps[item + 1]["action"] if item + 1 in steps else np.zeros_like(action),
            next_reward=step["reward"], terminal=step["is_state_terminal"],
        )  # fmt: skip
        self._buffer, self._item = buffer, item
        self._prev = self._next = UNSET

    def _neighbour(self, distance: int) -> Transition | None:
        first = min(self._item, self._item + distance)
        return BufferTransition(self._buffer, self._item + distance) if self._buffer._has_next(first) else None


class _Transitions(Sequence[Transition]):
    """Sequence of the transitions in a buffer, which creates each transition on access."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self._buffer = buffer

    def __len__(self) -> int:
        return len(self._buffer)

    def __getitem__(self, index: Any) -> Any:
        items = range(self._buffer._first, self._buffer._next)[index]
        if isinstance(index, slice):
            return [BufferTransition(self._buffer, item) for item in items]
        return BufferTransition(self._buffer, items)
