"""Minibatches of transitions and of trajectories, as arrays of single precision."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.dataset.components import PartialTrajectory, Transition
from pfrl_like.d3rlpy.dataset.nested import map_parts, stack_parts


class _Shapes:
    """Shapes of the values in a minibatch.

    Attributes:
        observations: Observations.
        actions: Actions.
        rewards: Rewards.
    """

    observations: Any
    actions: NDArray[np.float32]
    rewards: NDArray[np.float32]

    observation_shape = property(
        lambda self: map_parts(lambda array: array.shape[1:], self.observations),
        doc="Shape of an observation, or list of the shapes of its arrays.",
    )
    action_shape = property(lambda self: self.actions.shape[1:], doc="Shape of an action.")
    reward_shape = property(lambda self: self.rewards.shape[1:], doc="Shape of a reward.")

    def __len__(self) -> int:
        return len(self.actions)


def _column(items: Sequence[Any], name: str) -> Any:
    return stack_parts([getattr(item, name) for item in items], np.float32)


def _numbers(items: Sequence[Any], name: str) -> NDArray[np.float32]:
    return np.array([[getattr(item, name)] for item in items], np.float32)


@dataclasses.dataclass(frozen=True)
class TransitionMiniBatch(_Shapes):
    """Transitions as arrays, float32.

    Attributes:
        observations: Observations, [B, ...] or a list of such arrays.
        actions: Actions, [B, A], or [B, 1] if actions are indices.
        rewards: Rewards, [B, 1].
        next_observations: Observations after the steps, like `observations`.
        next_actions: Actions after the steps, like `actions`.
        terminals: 1 if the state after the steps is terminal, else 0, [B, 1].
        intervals: Numbers of steps, [B, 1].
        transitions: The transitions.
    """

    observations: Any
    actions: NDArray[np.float32]
    rewards: NDArray[np.float32]
    next_observations: Any
    next_actions: NDArray[np.float32]
    terminals: NDArray[np.float32]
    intervals: NDArray[np.float32]
    transitions: Sequence[Transition]

    @classmethod
    def from_transitions(cls, transitions: Sequence[Transition]) -> Self:
        """Return a minibatch of transitions, at least one."""
        names = ("observation", "action", "reward", "next_observation", "next_action")
        columns = {f"{name}s": _column(transitions, name) for name in names}
        numbers = {f"{name}s": _numbers(transitions, name) for name in ("terminal", "interval")}
        return cls(**columns, **numbers, transitions=transitions)


@dataclasses.dataclass(frozen=True)
class TrajectoryMiniBatch(_Shapes):
    """Partial trajectories as arrays, float32.

    Attributes:
        observations: Observations, [B, L, ...] or a list of such arrays.
        actions: Actions, [B, L, A].
        rewards: Rewards, [B, L, 1].
        returns_to_go: Sum of the rewards from each step to the end of the episode, [B, L, 1].
        terminals: 1 if the state after the step is terminal, else 0, [B, L, 1].
        timesteps: Number of each step in its episode, counted from 1; 0 before the first step, [B, L].
        masks: 0 before the first step, else 1, [B, L].
        length: L.
    """

    observations: Any
    actions: NDArray[np.float32]
    rewards: NDArray[np.float32]
    returns_to_go: NDArray[np.float32]
    terminals: NDArray[np.float32]
    timesteps: NDArray[np.float32]
    masks: NDArray[np.float32]
    length: int

    @classmethod
    def from_partial_trajectories(cls, trajectories: Sequence[PartialTrajectory]) -> Self:
        """Return a minibatch of trajectories of the same length, at least one."""
        names = [field.name for field in dataclasses.fields(cls)]
        columns = {name: _column(trajectories, name) for name in names if name != "length"}
        return cls(**columns, length=trajectories[0].length)
