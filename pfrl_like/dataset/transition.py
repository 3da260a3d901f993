"""`Transition`, with links to its neighbours in the episode, and `TransitionMiniBatch`."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.batch import map_nested
from pfrl_like.columns import Indices, as_array, stacks
from pfrl_like.columns.leaves import describe
from pfrl_like.dataset.table import NEXT_ROW, SAME_ROW, Table
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.reprs import dtype_and_shape, never_raising

#: Value of a link that the user has not set: the neighbour is looked up.
UNSET: Any = Ellipsis  # copies of it are the same object
#: Maximum size of an observation or action whose values `repr` contains.
_SHOWN = 8


class Transition:
    """A step of an episode, from time t to t+1.

    The reward of the action at t is `action_reward`. With the reward convention "next_row", `next_reward` is the
    same reward. With "same_row", `reward` is the same reward.

    Args:
        observation_shape: Shape of an observation.
        action_size: Length of an action vector or, if actions are discrete, the number of actions.
        observation: Observation at t.
        action: Action at t, an integer if discrete.
        reward: Reward at t.
        next_observation: Observation at t+1.
        next_action: Action at t+1.
        next_reward: Reward at t+1.
        terminal: 1 if the state at t+1 is terminal, else 0.
        prev_transition: Previous transition of the episode. Its `next_transition` is set to this transition.
        next_transition: Next transition of the episode. Its `prev_transition` is set to this transition.

    Attributes:
        reward_convention: "next_row", or "same_row" if the transition belongs to a dataset with this convention.
        observation: Observation at t.
        action: Action at t, an integer if discrete.
        reward: Reward in the row of the observation at t. With "same_row", the reward of the action at t.
        next_observation: Observation at t+1.
        next_action: Action at t+1. 0 if the episode ended at t+1 and the action is unknown.
        next_reward: Reward of the action at t. With "same_row", the reward of the action at t+1, or 0 after the last
            step.
        terminal: 1 if the state at t+1 is terminal, else 0.
    """

    reward_convention: str = NEXT_ROW
    _prev: "Transition | None" = UNSET
    _next: "Transition | None" = UNSET

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        action_size: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        next_action: Any,
        next_reward: float,
        terminal: int,
        prev_transition: "Transition | None" = None,
        next_transition: "Transition | None" = None,
    ) -> None:
        self._observation_shape, self._action_size = observation_shape, action_size
        self.observation, self.next_observation = observation, next_observation
        self.action, self.next_action = action, next_action
        self.reward, self.next_reward, self.terminal = float(reward), float(next_reward), int(terminal)
        self._prev, self._next = prev_transition, next_transition
        if prev_transition is not None and prev_transition.next_transition is None:
            prev_transition._next = self
        if next_transition is not None and next_transition.prev_transition is None:
            next_transition._prev = self

    @never_raising
    def __repr__(self) -> str:
        reward_name = "reward" if self.reward_convention == SAME_ROW else "next_reward"
        values = {name: getattr(self, name) for name in ("observation", "action", reward_name, "next_observation")}
        text = ", ".join(f"{name} {_short(value)}" for name, value in values.items())
        return f"Transition({text}, terminal {self.terminal})"

    def get_observation_shape(self) -> tuple[int, ...]:
        """Return the shape of an observation."""
        return self._observation_shape

    def get_action_size(self) -> int:
        """Return the length of an action vector or, if actions are discrete, the number of actions."""
        return self._action_size

    @property
    def prev_transition(self) -> "Transition | None":
        """Previous transition. None at the beginning of the episode. Setting it does not change its own links."""
        return self._neighbour(-1) if self._prev is UNSET else self._prev

    @prev_transition.setter
    def prev_transition(self, transition: "Transition | None") -> None:
        self._prev = transition

    @property
    def next_transition(self) -> "Transition | None":
        """Next transition. None at the end of the episode. Setting it does not change its own links."""
        return self._neighbour(1) if self._next is UNSET else self._next

    @next_transition.setter
    def next_transition(self, transition: "Transition | None") -> None:
        self._next = transition

    def _neighbour(self, distance: int) -> "Transition | None":
        """Return the previous (`distance` -1) or next (1) transition where it is stored, or None."""
        return None

    @property
    def action_reward(self) -> float:
        """Reward of the action at t, in either reward convention."""
        return self.reward if self.reward_convention == SAME_ROW else self.next_reward

    def in_convention(self, reward_convention: str) -> "Transition":
        """Return this transition with its rewards in another convention. An unknown reward is 0."""
        if reward_convention == self.reward_convention:
            return self
        neighbour = self.next_transition if reward_convention == SAME_ROW else self.prev_transition
        other = 0.0 if neighbour is None else neighbour.action_reward
        first, second = (self.action_reward, other) if reward_convention == SAME_ROW else (other, self.action_reward)
        converted = Transition(
            self.get_observation_shape(), self.get_action_size(), self.observation, self.action, first,
            self.next_observation, self.next_action, second, self.terminal,
        )  # fmt: skip
        converted.reward_convention = reward_convention
        return converted


class StoredTransition(Transition):
    """Transition of a table, created on access. Transitions of the same row are equal, but not the same object."""

    def __init__(self, table: Table, row: int, action_size: int) -> None:
        self.table, self.row, self._action_size = table, row, action_size
        self.reward_convention = table.convention

    def get_observation_shape(self) -> Any:
        return self.table.obs_shape

    observation = property(lambda self: _first(self.table.observations(np.array([self.row]))), doc="Observation at t.")
    next_observation = property(
        lambda self: _first(self.table.next_observations(np.array([self.row]))), doc="Observation at t+1."
    )
    action = property(lambda self: _plain(self.table.action[self.row - 1]), doc="Action at t.")
    next_action = property(lambda self: _plain(self.table.action[self.row]), doc="Action at t+1.")
    reward = property(lambda self: float(self.table.current_reward[self.row - 1]), doc="Reward at t.")
    next_reward = property(lambda self: float(self.table.next_reward[self.row - 1]), doc="Reward at t+1.")
    terminal = property(lambda self: int(self.table.terminal[self.row]), doc="1 if the state at t+1 is terminal.")

    def _neighbour(self, distance: int) -> Self | None:
        linked = self.table.position if distance < 0 else self.table.columns.successor
        return type(self)(self.table, self.row + distance, self._action_size) if linked[self.row] else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredTransition) and self.table is other.table and self.row == other.row

    def __hash__(self) -> int:
        return hash((id(self.table), self.row))


class Transitions(Sequence[Transition]):
    """Transitions in some rows of a table, each created on access."""

    def __init__(self, table: Table, rows: Indices, action_size: int) -> None:
        self._table, self._rows, self._action_size = table, rows, action_size

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        rows = self._rows[index]
        if isinstance(index, slice):
            return [StoredTransition(self._table, row, self._action_size) for row in rows.tolist()]
        return StoredTransition(self._table, int(rows), self._action_size)


class TransitionMiniBatch(Sequence[Transition]):
    """Transitions as arrays with one row per transition.

    Rewards and flags have shape [B, 1], actions [B, A], or [B] if discrete.

    `action_rewards[i]` is the reward of `actions[i]`. With the reward convention "next_row", `next_rewards[i]` is the
    same reward. With "same_row", `rewards[i]` is the same reward.

    Args:
        transitions: The transitions.
        n_frames: Number of images to stack, the newest image last: 4 images of shape (3, 84, 84) are stacked to (12,
            84, 84). The other images are observations of earlier transitions of the episode, or zeros before the first
            transition. Observations that do not have three axes are not stacked.
        n_steps: Maximum number of steps from `observations` to `next_observations`. The rewards of the steps are summed
            with discounts. At the end of an episode there are fewer steps.
        gamma: Discount factor per step, for sums of several rewards.

    Raises:
        ValueError: If there are no transitions, if they have different reward conventions, or if `n_frames` or
            `n_steps` is less than 1.
        TypeError: If `n_frames` or `n_steps` is not an integer.

    Attributes:
        transitions: The transitions.
        n_frames: Number of stacked images.
        reward_convention: "next_row" or "same_row".
        observations: Observations at t, [B, ...], stacked if `n_frames` > 1.
        actions: Actions at t, [B, A], or [B] if discrete.
        rewards: `reward` of each transition, [B, 1].
        next_observations: Observations at t+1, [B, ...], stacked if `n_frames` > 1.
        next_actions: Actions at t+1, like `actions`.
        next_rewards: `next_reward` of each transition, [B, 1].
        terminals: 1 if the state at t+1 is terminal, else 0, [B, 1].
        extra: Other columns for `Batch.extra`, keyed by name; None if there are none.
        last_transitions: The transitions that lead to `next_observations`. With `n_steps` 1 they are `transitions`.
            With k steps `next_observations`, `next_actions`, `next_rewards` and `terminals` belong to t+k, and the sum
            of the rewards is in `action_rewards`, which is `next_rewards` or `rewards`.
    """

    extra: Mapping[str, Any] | None = None
    _n_steps: NDArray[np.float32] | None = None

    def __init__(
        self, transitions: Sequence[Transition], n_frames: int = 1, n_steps: int = 1, gamma: float = 0.99
    ) -> None:
        if not len(transitions):
            raise ValueError("transitions: got no transitions, expected at least one")
        check_counts(n_frames=n_frames, n_steps=n_steps)
        self.last_transitions = transitions
        self.transitions, self.n_frames = transitions, n_frames
        stored = [transition for transition in transitions if isinstance(transition, StoredTransition)]
        if len(stored) == len(transitions) and len({id(transition.table) for transition in stored}) == 1:
            self._gather(stored[0].table, np.array([transition.row for transition in stored]))
        else:
            self._collect()
        if n_steps > 1:
            self._sum_rewards(n_steps, gamma)

    @classmethod
    def of_rows(cls, transitions: Sequence[Transition], table: Table, rows: Indices, n_frames: int) -> Self:
        """Return a minibatch of some rows of a table, without creating the `transitions`."""
        batch = cls.__new__(cls)
        batch.transitions = batch.last_transitions = transitions
        batch.n_frames = n_frames
        batch._gather(table, rows)
        return batch

    def _gather(self, table: Table, rows: Indices) -> None:
        self.reward_convention = table.convention
        self.observations: Any = observations_of(table, rows, self.n_frames)
        self.next_observations: Any = observations_of(table, rows, self.n_frames, following=True)
        self.actions, self.next_actions = _columns(table.action[rows - 1]), _columns(table.action[rows])
        self.rewards, self.next_rewards = _column(table.current_reward[rows - 1]), _column(table.next_reward[rows - 1])
        self.terminals = _column(table.terminal[rows])

    def _collect(self) -> None:
        conventions = {transition.reward_convention for transition in self.transitions}
        if len(conventions) > 1:
            raise ValueError("transitions: got both reward conventions, expected only one of them")
        (self.reward_convention,) = conventions
        pairs = [_frames(transition, self.n_frames) for transition in self.transitions]
        self.observations, self.next_observations = (np.stack(side) for side in zip(*pairs, strict=True))

        def each(name: str) -> NDArray[Any]:
            return np.stack([getattr(transition, name) for transition in self.transitions])

        self.actions, self.next_actions = _columns(each("action")), _columns(each("next_action"))
        self.rewards, self.next_rewards = _column(each("reward")), _column(each("next_reward"))
        self.terminals = _column(each("terminal"))

    def _sum_rewards(self, n_steps: int, gamma: float) -> None:
        """Replace next rows and rewards with those after up to `n_steps` steps, which `next_transition` links."""
        windows = [[*itertools.islice(linked_steps(each), n_steps)] for each in self.transitions]
        last = TransitionMiniBatch([window[-1] for window in windows], self.n_frames)
        self.last_transitions = last.transitions
        self.next_observations, self.next_actions = last.next_observations, last.next_actions
        self.next_rewards, self.terminals = last.next_rewards, last.terminals
        sums = _column([sum(gamma**k * step.action_reward for k, step in enumerate(window)) for window in windows])
        if self.reward_convention == SAME_ROW:
            self.rewards = sums
        else:
            self.next_rewards = sums
        self._n_steps = _column([len(window) for window in windows])

    @never_raising
    def __repr__(self) -> str:
        obs, actions = map_nested(dtype_and_shape, (self.observations, self.actions))
        return f"{type(self).__name__}({len(self):,} transitions, observations {obs}, actions {actions})"

    def __len__(self) -> int:
        return len(self.transitions)

    def __getitem__(self, index: Any) -> Any:
        return self.transitions[index]

    def size(self) -> int:
        """Return the number of transitions."""
        return len(self)

    @property
    def n_steps(self) -> NDArray[np.float32]:
        """Number of steps from `observations` to `next_observations`, [B, 1]."""
        return np.ones((len(self), 1), np.float32) if self._n_steps is None else self._n_steps

    @property
    def action_rewards(self) -> NDArray[np.float32]:
        """Rewards of the actions, or their sums over `n_steps`, in either reward convention, [B, 1]."""
        return self.rewards if self.reward_convention == SAME_ROW else self.next_rewards


def linked_steps(transition: Transition) -> Iterator[Transition]:
    """Yield a transition and the later transitions of its episode."""
    step: Transition | None = transition
    while step is not None:
        yield step
        step = step.next_transition


def observations_of(table: Table, rows: Indices, n_frames: int, *, following: bool = False) -> Any:
    """Return the observations of some steps, or the observations after them, with stacked images, [B, ...]."""
    stacked = stacks(table.columns, n_frames) if n_frames > 1 else None
    if stacked is not None:
        return stacked(rows, following=following)
    return table.next_observations(rows) if following else table.observations(rows)


def stacked_shape(shape: tuple[int, ...], n_frames: int) -> tuple[int, ...]:
    """Return the shape of an observation with stacked images. Observations without three axes are not stacked."""
    return (shape[0] * n_frames, *shape[1:]) if len(shape) == 3 else shape


def _frames(transition: Transition, n_frames: int) -> tuple[Any, Any]:
    """Return the stacked images that end at t, and the stacked images that end at t+1."""
    if n_frames == 1 or np.ndim(transition.observation) != 3:
        return transition.observation, transition.next_observation
    frames, at = [transition.next_observation, transition.observation], transition.prev_transition
    while at is not None and len(frames) <= n_frames:
        frames.append(at.observation)
        at = at.prev_transition
    frames += [np.zeros_like(frames[0])] * (n_frames + 1 - len(frames))
    return np.concatenate(frames[:0:-1]), np.concatenate(frames[-2::-1])


def _first(stacked: Any) -> Any:
    return map_nested(lambda leaf: leaf[0], stacked)


def _short(value: Any) -> str:
    """Return a number or short vector as text, or the shape and dtype of another array, or the type of an object."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_short(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_short, value)) + ")"
    array = as_array(value)
    if array is None or array.ndim > 1 or array.size > _SHOWN:
        return describe(value)
    return np.array2string(array, precision=4, separator=", ")


def _plain(action: Any) -> Any:
    return int(action) if np.ndim(action) == 0 else action


def _column(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, np.float32).reshape(-1, 1)


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    """Return actions as [B, A]; discrete actions, which are integers, stay [B]."""
    return values if values.ndim == 1 and values.dtype.kind in "biu" else values.reshape(len(values), -1)
