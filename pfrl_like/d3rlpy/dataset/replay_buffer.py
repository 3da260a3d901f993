"""`ReplayBuffer`, a dataset of episodes, `MDPDataset`, `MixedReplayBuffer`, and functions that create datasets."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pfrl_like.columns import Indices
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset.buffers import BufferProtocol, FIFOBuffer, InfiniteBuffer
from pfrl_like.d3rlpy.dataset.columns import EpisodeColumns, table_of_episodes
from pfrl_like.d3rlpy.dataset.components import (
    DatasetInfo,
    Episode,
    EpisodeBase,
    PartialTrajectory,
    Signature,
    Transition,
)
from pfrl_like.d3rlpy.dataset.episode_generator import EpisodeGenerator, EpisodeGeneratorProtocol
from pfrl_like.d3rlpy.dataset.io import PathOrFile, dump, load
from pfrl_like.d3rlpy.dataset.mini_batch import TrajectoryMiniBatch, TransitionMiniBatch
from pfrl_like.d3rlpy.dataset.trajectory_slicers import BasicTrajectorySlicer, TrajectorySlicerProtocol
from pfrl_like.d3rlpy.dataset.transition_pickers import BasicTransitionPicker, TransitionPickerProtocol
from pfrl_like.d3rlpy.dataset.writers import BasicWriterPreprocess, ExperienceWriter, WriterPreprocessProtocol
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.dataset.table import SAME_ROW
from pfrl_like.utils.checks import check_counts, check_numbers


class ReplayBuffer:
    """Dataset of episodes, from which agents learn by the library's columns.

    Args:
        buffer: Buffer of the transitions: `InfiniteBuffer()`, `FIFOBuffer(limit)`, or an object with their methods.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        writer_preprocessor: Preprocessor of the values that `append` stores. If None, they do not change.
        episodes: First episodes. If None, `env` or all descriptions of the values are necessary.
        env: Environment that describes the values.
        observation_signature: Signature of an observation. If None, it is found from `episodes` or `env`.
        action_signature: Signature of an action. If None, it is found from `episodes` or `env`.
        reward_signature: Signature of a reward. If None, it is found from `episodes` or `env`.
        action_space: Kind of the actions. If None, they are discrete if the first episode contains only integers, or if
            the action space of `env` is discrete.
        action_size: Number of discrete actions, or length of an action vector. If None, it is found from `episodes` or
            `env`.
        cache_size: Maximum number of rows of an episode that is appended row by row.
        write_at_termination: True to add the transitions of an appended episode at its end, False to add each
            transition when it is known.

    Attributes:
        buffer: Buffer of the transitions.
        transition_picker: Function that makes a transition of a row.
        trajectory_slicer: Function that makes a trajectory of rows.
        dataset_info: Description of the values.

    Raises:
        ValueError: If the values are not described, or if `cache_size` is less than 1.
        TypeError: If `cache_size` is not an integer.
    """

    buffer: BufferProtocol
    transition_picker: TransitionPickerProtocol
    trajectory_slicer: TrajectorySlicerProtocol
    dataset_info: DatasetInfo

    def __init__(
        self,
        buffer: BufferProtocol,
        transition_picker: TransitionPickerProtocol | None = None,
        trajectory_slicer: TrajectorySlicerProtocol | None = None,
        writer_preprocessor: WriterPreprocessProtocol | None = None,
        episodes: Sequence[EpisodeBase] | None = None,
        env: Any = None,
        observation_signature: Signature | None = None,
        action_signature: Signature | None = None,
        reward_signature: Signature | None = None,
        action_space: ActionSpace | None = None,
        action_size: int | None = None,
        cache_size: int = 10000,
        write_at_termination: bool = False,
    ) -> None:
        check_counts(cache_size=cache_size)
        given: dict[str, Any] = {
            "observation_signature": observation_signature, "action_signature": action_signature,
            "reward_signature": reward_signature, "action_space": action_space, "action_size": action_size,
        }  # fmt: skip
        self.dataset_info = _described(
            {name: value for name, value in given.items() if value is not None}, episodes, env
        )
        self.buffer = buffer
        self.transition_picker = transition_picker or BasicTransitionPicker()
        self.trajectory_slicer = trajectory_slicer or BasicTrajectorySlicer()
        preprocessor = writer_preprocessor or BasicWriterPreprocess()
        self._writer = ExperienceWriter(buffer, preprocessor, self.dataset_info, write_at_termination, cache_size)
        self._columns: EpisodeColumns | None = None
        for episode in episodes or ():
            self.append_episode(episode)

    def append(self, observation: Any, action: Any, reward: Any) -> None:
        """Append a row to the running episode, or begin an episode.

        Args:
            observation: Observation, an array or a tuple of arrays.
            action: Action at the observation.
            reward: Reward of the action.

        Raises:
            ValueError: If a value has another form or shape than in the first row, or if the episode has more than
                `cache_size` rows.
        """
        self._writer.append(self.columns, observation, action, reward)

    def append_episode(self, episode: EpisodeBase) -> None:
        """Add the transitions of an episode."""
        for index in range(episode.transition_count):
            self.buffer.append(episode, index)

    def clip_episode(self, terminated: bool) -> None:
        """End the running episode. If it was truncated, its last row is no transition.

        An episode of a single row is a transition if it is terminal, and is dropped if it was truncated.

        Args:
            terminated: True if the state after the last row is terminal.
        """
        self._writer.clip_episode(terminated)

    def shares(self, n: int) -> "list[tuple[ReplayBuffer, int]]":
        """Return the datasets from which n transitions are sampled, with their numbers: this dataset, and n."""
        return [(self, n)]

    def sample_indices(self, n: int) -> Indices:
        """Sample numbers of transitions with replacement, [n], with NumPy's global stream.

        Raises:
            ValueError: If there are no transitions.
        """
        if not self.transition_count:
            raise ValueError("the dataset has no transitions, expected at least one")
        return np.random.randint(self.transition_count, size=n)

    def sample_transition(self) -> Transition:
        """Sample a transition with NumPy's global stream.

        Raises:
            ValueError: If there are no transitions.
        """
        return self.transition_picker(*self.buffer[int(self.sample_indices(1)[0])])

    def sample_transition_batch(self, batch_size: int) -> TransitionMiniBatch:
        """Sample transitions like `sample_transition`, with replacement.

        Args:
            batch_size: Number of transitions.

        Raises:
            ValueError: If there are no transitions.
        """
        shares = self.shares(batch_size)
        return TransitionMiniBatch.from_transitions([each.sample_transition() for each, n in shares for _ in range(n)])

    def sample_trajectory(self, length: int) -> PartialTrajectory:
        """Sample a transition, and return the `length` rows of its episode that end with it.

        Args:
            length: Number of rows. Missing rows before the first one are zeros.

        Raises:
            ValueError: If there are no transitions.
        """
        return self.trajectory_slicer(*self.buffer[int(self.sample_indices(1)[0])], length)

    def sample_trajectory_batch(self, batch_size: int, length: int) -> TrajectoryMiniBatch:
        """Sample trajectories like `sample_trajectory`, with replacement.

        Args:
            batch_size: Number of trajectories.
            length: Number of rows of a trajectory.

        Raises:
            ValueError: If there are no transitions.
        """
        parts = [each.sample_trajectory(length) for each, n in self.shares(batch_size) for _ in range(n)]
        return TrajectoryMiniBatch.from_partial_trajectories(parts)

    def dump(self, f: PathOrFile) -> None:
        """Write the episodes to an HDF5 file.

        Args:
            f: Path of the file, which is replaced, or a binary file object that can be read and written.

        Raises:
            CheckpointError: If the file cannot be written.
            MissingDependencyError: If h5py is not installed.
        """
        dump(self.episodes, f)

    @classmethod
    def from_episode_generator(
        cls,
        episode_generator: EpisodeGeneratorProtocol,
        buffer: BufferProtocol,
        transition_picker: TransitionPickerProtocol | None = None,
        trajectory_slicer: TrajectorySlicerProtocol | None = None,
        writer_preprocessor: WriterPreprocessProtocol | None = None,
    ) -> "ReplayBuffer":
        """Return a dataset of the episodes that a generator returns.

        Args:
            episode_generator: Function without arguments that returns a list of episodes.
            buffer: Buffer of the transitions: `InfiniteBuffer()`, `FIFOBuffer(limit)`, or an object with their methods.
            transition_picker: Function that makes a transition of a row. If None, single steps.
            trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
            writer_preprocessor: Preprocessor of the values that `append` stores. If None, they do not change.
        """
        episodes = episode_generator()
        return ReplayBuffer(buffer, transition_picker, trajectory_slicer, writer_preprocessor, episodes)

    @classmethod
    def load(
        cls,
        f: PathOrFile,
        buffer: BufferProtocol,
        episode_cls: type[EpisodeBase] = Episode,
        transition_picker: TransitionPickerProtocol | None = None,
        trajectory_slicer: TrajectorySlicerProtocol | None = None,
        writer_preprocessor: WriterPreprocessProtocol | None = None,
    ) -> "ReplayBuffer":
        """Return a dataset of the episodes in a file of `dump`. Files of d3rlpy 1.x are read by `load_v1`.

        Args:
            f: Path of the file, or a binary file object.
            buffer: Buffer of the transitions: `InfiniteBuffer()`, `FIFOBuffer(limit)`, or an object with their methods.
            episode_cls: Class of the episodes.
            transition_picker: Function that makes a transition of a row. If None, single steps.
            trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
            writer_preprocessor: Preprocessor of the values that `append` stores. If None, they do not change.

        Raises:
            CheckpointError: If the file is damaged, or not a file of `dump`.
            MissingDependencyError: If h5py is not installed.
        """
        episodes = load(episode_cls, f)
        return ReplayBuffer(buffer, transition_picker, trajectory_slicer, writer_preprocessor, episodes)

    @property
    def episodes(self) -> Sequence[EpisodeBase]:
        """Episodes with at least one transition."""
        return self.buffer.episodes

    def size(self) -> int:
        """Return the number of episodes."""
        return len(self.buffer.episodes)

    @property
    def columns(self) -> EpisodeColumns:
        """The library's columns of the episodes."""
        if self._columns is None:
            self._columns = EpisodeColumns(self.episodes, self.dataset_info.action_space == ActionSpace.DISCRETE)
        return self._columns

    def to_library_dataset(self) -> LibraryDataset:
        """Convert this dataset to a dataset of `pfrl_like.dataset`, with the reward convention "same_row".

        Estimators of this library call this method. Observations are shared if they are views of one array. The rewards
        of the last rows of truncated episodes are dropped, because the observations after their actions are unknown.

        Raises:
            ValueError: If there are no transitions, or if discrete actions are not single numbers >= 0.
            NonFiniteError: If a value is NaN or infinite.
        """
        if not self.transition_count:
            raise ValueError("the dataset has no transitions, expected at least one")
        discrete = self.dataset_info.action_space == ActionSpace.DISCRETE
        table = table_of_episodes(self.episodes, discrete).declared_as(SAME_ROW)
        return LibraryDataset.of_table(table, discrete, self.dataset_info.action_size if discrete else 0)

    @property
    def transition_count(self) -> int:
        """Number of transitions."""
        return self.buffer.transition_count

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_columns": None}  # they are built again from the episodes


def _described(given: dict[str, Any], episodes: Sequence[EpisodeBase] | None, env: Any) -> DatasetInfo:
    """Return the description of the values in a dataset.

    Raises:
        ValueError: If there are neither episodes nor an environment, and a description is missing.
    """
    if episodes:
        return dataclasses.replace(DatasetInfo.from_episodes(episodes), **given)
    if env is not None:
        return dataclasses.replace(DatasetInfo.from_env(env), **given)
    names = [field.name for field in dataclasses.fields(DatasetInfo)]
    if missing := [name for name in names if name not in given]:
        raise ValueError(f"got neither episodes nor env: pass one of them, or {', '.join(missing)}")
    return DatasetInfo(**given)


class MDPDataset(ReplayBuffer):
    """Dataset of arrays in which the reward of an action is in the row of the action.

    An episode ends in each row in which `terminals` or `timeouts` is not 0. Rows after the last end are dropped. An
    episode of n rows that ends in a terminal state has n transitions. A truncated episode has n - 1 transitions,
    because the observation after its last action is unknown.

    Args:
        observations: Observations, an array [n, ...] or a list or tuple of such arrays. They are not copied.
        actions: Actions, [n] or [n, A].
        rewards: Rewards, [n] or [n, 1].
        terminals: Not 0 where the state after the row is terminal, [n].
        timeouts: Not 0 where the episode was truncated, [n]. If None, no episode was truncated.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        action_space: Kind of the actions. If None, they are discrete if the first episode contains only integers.
        action_size: Number of discrete actions, or length of an action vector. If None, it is found from `actions`.

    Raises:
        TypeError: If an array is a list.
        ValueError: If the arrays have different lengths.
        EpisodeEndError: If no row ends an episode, or if a row has both flags.
    """

    def __init__(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        timeouts: Any = None,
        transition_picker: TransitionPickerProtocol | None = None,
        trajectory_slicer: TrajectorySlicerProtocol | None = None,
        action_space: ActionSpace | None = None,
        action_size: int | None = None,
    ) -> None:
        super().__init__(
            InfiniteBuffer(),
            transition_picker=transition_picker,
            trajectory_slicer=trajectory_slicer,
            episodes=EpisodeGenerator(observations, actions, rewards, terminals, timeouts)(),
            action_space=action_space,
            action_size=action_size,
        )


class MixedReplayBuffer(ReplayBuffer):
    """Two datasets from which minibatches are sampled in a fixed ratio.

    New rows, `buffer`, `transition_picker`, `trajectory_slicer` and `dataset_info` are those of the first dataset.

    Args:
        primary_replay_buffer: First dataset.
        secondary_replay_buffer: Second dataset, of the same kind of values.
        secondary_mix_ratio: Share of the second dataset in a minibatch. The share of the first is rounded down.

    Attributes:
        primary_replay_buffer: First dataset.
        secondary_replay_buffer: Second dataset.

    Raises:
        ValueError: If the ratio is not from 0 to 1.
        TypeError: If the ratio is not a number.
    """

    primary_replay_buffer: ReplayBuffer
    secondary_replay_buffer: ReplayBuffer

    def __init__(
        self, primary_replay_buffer: ReplayBuffer, secondary_replay_buffer: ReplayBuffer, secondary_mix_ratio: float
    ) -> None:
        check_numbers(0, 1, secondary_mix_ratio=secondary_mix_ratio)
        self.primary_replay_buffer = primary_replay_buffer
        self.secondary_replay_buffer = secondary_replay_buffer
        self._ratio = secondary_mix_ratio
        for name in ("buffer", "transition_picker", "trajectory_slicer", "dataset_info"):
            setattr(self, name, getattr(primary_replay_buffer, name))

    def shares(self, n: int) -> list[tuple[ReplayBuffer, int]]:
        """Return the datasets from which n transitions are sampled, with the number of transitions of each."""
        primary = int((1 - self._ratio) * n)
        both = (self.primary_replay_buffer, primary), (self.secondary_replay_buffer, n - primary)
        return [share for dataset, count in both if count for share in dataset.shares(count)]

    def append(self, observation: Any, action: Any, reward: Any) -> None:
        """Append a row to the running episode of the first dataset."""
        self.primary_replay_buffer.append(observation, action, reward)

    def append_episode(self, episode: EpisodeBase) -> None:
        """Add the transitions of an episode to the first dataset."""
        self.primary_replay_buffer.append_episode(episode)

    def clip_episode(self, terminated: bool) -> None:
        """End the running episode of the first dataset."""
        self.primary_replay_buffer.clip_episode(terminated)

    def sample_transition(self) -> Transition:
        """Raise an error, because a single transition cannot be mixed.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("MixedReplayBuffer mixes whole minibatches: call sample_transition_batch")

    def sample_trajectory(self, length: int) -> PartialTrajectory:
        """Raise an error, because a single trajectory cannot be mixed.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("MixedReplayBuffer mixes whole minibatches: call sample_trajectory_batch")

    def dump(self, f: PathOrFile) -> None:
        """Raise an error, because a file contains one dataset.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("MixedReplayBuffer: call dump of primary_replay_buffer and secondary_replay_buffer")

    @property
    def episodes(self) -> Sequence[EpisodeBase]:
        """Episodes of both datasets."""
        return [*self.primary_replay_buffer.episodes, *self.secondary_replay_buffer.episodes]

    def size(self) -> int:
        """Return the number of episodes of both datasets."""
        return self.primary_replay_buffer.size() + self.secondary_replay_buffer.size()

    @property
    def transition_count(self) -> int:
        """Number of transitions of both datasets."""
        return self.primary_replay_buffer.transition_count + self.secondary_replay_buffer.transition_count


#: d3rlpy's name of the class that all datasets have in common.
ReplayBufferBase = ReplayBuffer


def create_infinite_replay_buffer(
    episodes: Sequence[EpisodeBase] | None = None,
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    writer_preprocessor: WriterPreprocessProtocol | None = None,
    env: Any = None,
    write_at_termination: bool = False,
) -> ReplayBuffer:
    """Return a dataset without a limit.

    Args:
        episodes: First episodes. If None, `env` is necessary.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        writer_preprocessor: Preprocessor of the values that `append` stores. If None, they do not change.
        env: Environment that describes the values.
        write_at_termination: True to add the transitions of an appended episode at its end.
    """
    parts = transition_picker, trajectory_slicer, writer_preprocessor, episodes, env
    return ReplayBuffer(InfiniteBuffer(), *parts, write_at_termination=write_at_termination)


def create_fifo_replay_buffer(
    limit: int,
    episodes: Sequence[EpisodeBase] | None = None,
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    writer_preprocessor: WriterPreprocessProtocol | None = None,
    env: Any = None,
    write_at_termination: bool = False,
) -> ReplayBuffer:
    """Return a dataset that drops the oldest transition when it has more than `limit` transitions.

    Args:
        limit: Maximum number of transitions.
        episodes: First episodes. If None, `env` is necessary.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        writer_preprocessor: Preprocessor of the values that `append` stores. If None, they do not change.
        env: Environment that describes the values.
        write_at_termination: True to add the transitions of an appended episode at its end.
    """
    parts = transition_picker, trajectory_slicer, writer_preprocessor, episodes, env
    return ReplayBuffer(FIFOBuffer(limit), *parts, write_at_termination=write_at_termination)
