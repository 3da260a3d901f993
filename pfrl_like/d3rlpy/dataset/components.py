"""Parts of datasets: `Episode`, `Transition`, `PartialTrajectory`, and the descriptions of their values."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset.nested import parts_of
from pfrl_like.utils.env_values import action_size_of, space_kind


@dataclasses.dataclass(frozen=True)
class Signature:
    """Dtypes and shapes of the arrays that a value consists of.

    Attributes:
        dtype: Dtype of each array.
        shape: Shape of each array.
    """

    dtype: Sequence[Any]
    shape: Sequence[Sequence[int]]

    def sample(self) -> list[NDArray[Any]]:
        """Return an array of random numbers in [0, 1) for each dtype and shape, drawn from NumPy's global stream."""
        return [np.random.random(tuple(s)).astype(d) for d, s in zip(self.dtype, self.shape, strict=True)]


def signature_of(values: Any, n_axes: int = 0) -> Signature:
    """Return the signature of an array, or of a list or tuple of arrays.

    Args:
        values: The value.
        n_axes: Number of leading axes that are not part of the value.
    """
    parts = parts_of(values)
    return Signature([part.dtype for part in parts], [part.shape[n_axes:] for part in parts])


@dataclasses.dataclass(frozen=True)
class Transition:
    """One step, with the observation after it.

    Attributes:
        observation: Observation, an array or a list of arrays.
        action: Action, [A], or [1] if actions are indices.
        reward: Reward of `action`, [1]. For n-step transitions, the discounted sum of n rewards.
        next_observation: Observation after `interval` steps; zeros if the state is terminal.
        next_action: Action after `interval` steps; zeros if the state is terminal.
        terminal: 1 if the state after `interval` steps is terminal, else 0.
        interval: Number of steps.
        rewards_to_go: Rewards from this step to the end of the episode, [L, 1].
    """

    observation: Any
    action: NDArray[Any]
    reward: NDArray[Any]
    next_observation: Any
    next_action: NDArray[Any]
    terminal: float
    interval: int
    rewards_to_go: NDArray[Any]

    observation_signature = property(lambda self: signature_of(self.observation), doc="Signature of an observation.")
    action_signature = property(lambda self: signature_of(self.action), doc="Signature of an action.")
    reward_signature = property(lambda self: signature_of(self.reward), doc="Signature of a reward.")


class _Rows:
    """Signatures of a sequence of observations, actions and rewards.

    Attributes:
        observations: Observations, an array [n, ...] or a list of such arrays.
        actions: Actions, [n, A].
        rewards: Rewards of the actions in the same rows, [n, 1].
    """

    observations: Any
    actions: NDArray[Any]
    rewards: NDArray[Any]

    observation_signature = property(
        lambda self: signature_of(self.observations, 1), doc="Signature of an observation."
    )
    action_signature = property(lambda self: signature_of(self.actions, 1), doc="Signature of an action.")
    reward_signature = property(lambda self: signature_of(self.rewards, 1), doc="Signature of a reward.")


@dataclasses.dataclass(frozen=True)
class PartialTrajectory(_Rows):
    """Consecutive steps of an episode, with zeros before the first step if the episode is shorter than `length`.

    Attributes:
        observations: Observations, an array [L, ...] or a list of such arrays.
        actions: Actions, [L, A].
        rewards: Rewards, [L, 1].
        returns_to_go: Sum of the rewards from each step to the end of the episode, [L, 1].
        terminals: 1 if the state after the step is terminal, else 0, [L, 1], float32.
        timesteps: Number of each step in its episode, counted from 1; 0 before the first step, [L].
        masks: 0 before the first step, else 1, [L], float32.
        length: L.
    """

    observations: Any
    actions: NDArray[Any]
    rewards: NDArray[Any]
    returns_to_go: NDArray[Any]
    terminals: NDArray[Any]
    timesteps: NDArray[Any]
    masks: NDArray[Any]
    length: int

    def get_transition_count(self) -> int:
        """Return the number of steps with an observation after them: L if the last step is terminal, else L - 1."""
        return self.length if bool(self.terminals[-1, 0]) else self.length - 1

    def __len__(self) -> int:
        return self.length


class EpisodeBase(_Rows):
    """Base class of episodes, with the methods that follow from their columns.

    Attributes:
        observations: Observations, an array [n, ...] or a list of such arrays.
        actions: Actions, [n, A], or [n, 1] if they are indices.
        rewards: Rewards of the actions in the same rows, [n, 1].
        terminated: True if the state after the last row is terminal. If False, the last row only contains the
            observation after the last step, and is no transition.
    """

    terminated: bool

    def size(self) -> int:
        """Return the number of rows."""
        return len(self.rewards)

    def __len__(self) -> int:
        return self.size()

    @property
    def transition_count(self) -> int:
        """Number of transitions: one a row, without the last row if the episode was truncated."""
        return self.size() if self.terminated else self.size() - 1

    def compute_return(self) -> float:
        """Return the sum of the rewards of all rows, including the last row of a truncated episode."""
        return float(np.sum(self.rewards))

    def serialize(self) -> dict[str, Any]:
        """Return the columns by name: observations, actions, rewards, terminated."""
        return {name: getattr(self, name) for name in ("observations", "actions", "rewards", "terminated")}

    @classmethod
    def deserialize(cls, serializedData: dict[str, Any]) -> Self:  # noqa: N803
        """Return an episode of the columns that `serialize` returned."""
        return cls(**serializedData)


@dataclasses.dataclass(frozen=True)
class Episode(EpisodeBase):
    """An episode.

    Attributes:
        observations: Observations, an array [n, ...] or a list of such arrays.
        actions: Actions, [n, A], or [n, 1] if they are indices.
        rewards: Rewards of the actions in the same rows, [n, 1].
        terminated: True if the state after the last row is terminal. If False, the last row only contains the
            observation after the last step, and is no transition.
    """

    observations: Any
    actions: NDArray[Any]
    rewards: NDArray[Any]
    terminated: bool


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """Description of the values in a dataset.

    Attributes:
        observation_signature: Signature of an observation.
        action_signature: Signature of an action.
        reward_signature: Signature of a reward.
        action_space: Kind of the actions.
        action_size: Number of discrete actions, or length of an action vector.
    """

    observation_signature: Signature
    action_signature: Signature
    reward_signature: Signature
    action_space: ActionSpace
    action_size: int

    @classmethod
    def from_episodes(cls, episodes: Sequence[EpisodeBase]) -> Self:
        """Return the description of some episodes, at least one.

        Actions are discrete if all actions of the first episode equal their int32 values.
        """
        first = episodes[0]
        signatures = first.observation_signature, first.action_signature, first.reward_signature
        if np.array_equal(first.actions.astype(np.int32), first.actions):
            size = int(max(np.max(episode.actions) for episode in episodes)) + 1
            return cls(*signatures, ActionSpace.DISCRETE, size)
        return cls(*signatures, ActionSpace.CONTINUOUS, int(first.action_signature.shape[0][0]))

    @classmethod
    def from_env(cls, env: Any) -> Self:
        """Return the description of the values of an environment.

        Raises:
            ValueError: If the actions are neither discrete nor vectors, or if observations are neither arrays nor
                tuples of arrays.
        """
        observations = space_kind(env.observation_space)
        spaces = env.observation_space.spaces if observations == "tuple" else [env.observation_space]
        if any(space_kind(space) not in ("box", "discrete") for space in spaces):
            raise ValueError(
                f"env has the observation space {env.observation_space}, expected a Box or a Tuple of Boxes"
            )
        kind = ActionSpace.DISCRETE if space_kind(env.action_space) == "discrete" else ActionSpace.CONTINUOUS
        action = Signature([env.action_space.dtype], [env.action_space.shape])
        reward = Signature([np.dtype(np.float32)], [[1]])
        observation = Signature([space.dtype for space in spaces], [space.shape for space in spaces])
        return cls(observation, action, reward, kind, action_size_of(env.action_space))
