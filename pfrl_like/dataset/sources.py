"""Conversions of `MDPDataset` from and to arrays, files, replay buffers and pandas frames."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pfrl_like.columns import Columns, Indices
from pfrl_like.dataset.conventions import log_probs_of, table_from_arrays, table_from_rows
from pfrl_like.dataset.episode import Episode, as_episodes, common_table
from pfrl_like.dataset.flat import flat_of, looks_discrete, table_of
from pfrl_like.dataset.io.dataframe import frame_of, table_from_frame
from pfrl_like.dataset.io.hdf5 import is_hdf5, read_hdf5, write_hdf5
from pfrl_like.dataset.io.minari import read_minari, write_minari
from pfrl_like.dataset.io.npz import read_npz, write_npz
from pfrl_like.dataset.table import NO_OBS, SAME_ROW, Table, concatenate_tables
from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import PersistentReplayBuffer, ReplayBuffer
from pfrl_like.storage.tensors import model_format
from pfrl_like.utils.checks import check_counts


def table_from_buffer(buffer: ReplayBuffer) -> tuple[Table, bool]:
    """Copy the steps of a buffer to a table. Also return True if the actions are discrete.

    Running episodes are treated as truncated. If a user has changed a step in the buffer to terminal, the episode ends
    after this step. If the next observation of a step is not the observation of the following step, the episode is
    truncated after this step.

    Raises:
        ValueError: If the buffer is empty, or if its actions are not numbers or vectors.
        TypeError: If `buffer` is not a replay buffer of this library.
    """
    if not hasattr(buffer, "stored_steps"):
        raise TypeError(f"buffer: got {type(buffer).__name__}, expected a buffer of pfrl_like.replay_buffers")
    columns, rows = buffer.stored_steps()
    if not len(rows) or columns.obs is None or columns.action is None:
        raise ValueError("buffer: is empty, expected at least one transition")
    action = columns.action.plain
    if action is None or action.dtype.kind not in "biuf" or action.ndim > 2:
        raise ValueError("buffer: expected actions that are numbers or vectors of numbers")
    rows, ends = sort_by_episode(columns, rows)
    obs_row, next_row = columns.obs_row[rows], columns.next_row[rows]
    known, terminal = next_row[ends] != obs_row[ends], columns.terminal[rows[ends]]
    discrete = action.ndim == 1 and action.dtype.kind != "f"
    actions = action[rows].astype(np.int64) if discrete else action[rows].reshape(len(rows), -1)
    extended = known | terminal
    log_prob = columns.stacked_extras(rows).get("log_prob")
    # An unknown terminal state is replaced by the observation before it.
    table = table_from_rows(
        columns.obs, actions, columns.reward[rows], terminal, ends, extended,
        obs_row=obs_row, end_obs=next_row[ends][extended],
        log_prob=None if log_prob is None else log_probs_of("log_prob", log_prob, len(rows), discrete),
    )  # fmt: skip
    return concatenate_tables([table.with_made_up(table.made_up | np.where(~known & terminal, NO_OBS, 0))]), discrete


def sort_by_episode(columns: Columns, rows: Indices) -> tuple[Indices, Indices]:
    """Return the rows sorted by episode, and the indices of the last step of each episode in the sorted rows.

    Episodes are in the order of their first steps.
    """
    count = len(rows)
    place = np.full(columns.steps.size, -1, np.int64)
    place[rows] = np.arange(count)
    successor = columns.successor[rows]
    after = np.where(successor > 0, place[np.maximum(successor, 0)], -1)
    linked = after >= 0
    linked[linked] = columns.next_row[rows[linked]] == columns.obs_row[rows[after[linked]]]
    linked &= ~columns.terminal[rows]  # a user may have changed a step in the middle of an episode to terminal
    head, depth = np.arange(count), np.zeros(count, np.int64)
    head[after[linked]] = np.flatnonzero(linked)
    depth[after[linked]] = 1
    while (head[head] != head).any():  # each round doubles the distance of the links
        depth += depth[head]
        head = head[head]
    order = np.lexsort((depth, head))
    last = np.append(head[order][1:] != head[order][:-1], True)
    return rows[order], np.flatnonzero(last)


PathLike = str | os.PathLike[str]

#: File extensions that `dump` rejects. All other extensions except `.npz` mean HDF5.
_OTHER_FORMATS = {
    ".arrow", ".csv", ".feather", ".json", ".jsonl", ".mat", ".npy", ".parquet", ".pickle", ".pkl", ".pt", ".tsv",
    ".txt", ".xlsx", ".zip",
}  # fmt: skip


class DatasetSources:
    """Mixin of `MDPDataset` with the conversions from and to other formats."""

    @classmethod
    def of_table(cls, table: Table, discrete_action: bool, action_size: int = 0) -> Self:
        """Return a dataset of a table, with at least `action_size` discrete actions."""
        dataset = cls.__new__(cls)
        dataset._set_table(table, discrete_action, action_size)
        return dataset

    def _set_table(self, table: Table, discrete_action: bool, action_size: int = 0) -> None:
        self._tables = [table]
        self.discrete_action = bool(discrete_action)
        self._known_actions = action_size
        self._episodes: list[Episode] | None = None

    @property
    def table(self) -> Table:
        """Table of all episodes."""
        if len(self._tables) > 1:
            self._tables = [concatenate_tables(self._tables)]
        return self._tables[0]

    def get_action_size(self) -> int:
        """Return the length of an action vector or, if actions are discrete, the largest known action + 1."""
        if self.discrete_action:
            return max(self._known_actions, *(1 + int(table.action.max()) for table in self._tables))
        return int(self._tables[0].action.shape[1])

    # Other datasets

    @classmethod
    def from_episodes(cls, episodes: Any) -> Self:
        """Return a dataset of some episodes, for example a slice, or a part from scikit-learn's `train_test_split`.

        The number of discrete actions is the maximum over the datasets of the episodes. The reward convention is the
        convention of the first episode's dataset.

        Args:
            episodes: Episodes of one or several datasets, or a dataset. If all episodes belong to one dataset, their
                observations are not copied.

        Raises:
            ValueError: If there are no transitions, or if the observations or actions of the episodes have different
                shapes or types.
            TypeError: If an item is not an episode.
        """
        episodes = as_episodes(episodes)
        table, numbers = common_table(episodes)
        size = max(episode.get_action_size() for episode in episodes)
        return cls.of_table(table.of_episodes(numbers), table.action.ndim == 1, size)

    # Arrays

    @classmethod
    def from_arrays(
        cls,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        timeouts: Any = None,
        next_observations: Any = None,
        discrete_action: bool | None = None,
        *,
        log_probs: Any = None,
    ) -> Self:
        """Return a dataset of arrays in which the reward of an action is in the row of the action (gymnasium, D4RL).

        The dataset has the same steps as a dataset that is constructed with `reward_convention="same_row"`, but its own
        reward convention is "next_row".

        An episode ends in each row in which `terminals` or `timeouts` is True, and in the last row of the arrays. The
        observation after the last action of a truncated episode is known only from `next_observations`.
        Without `next_observations`, only the observation in the last row is used, not its action and reward.

        Args:
            observations: Array [n, ...], which is not copied unless `next_observations` is given. Or a dict or tuple of
                arrays.
            actions: Actions, shape [n, A], or [n] if discrete.
            rewards: Rewards, shape [n].
            terminals: Flags, shape [n]: True if the step ended in a terminal state.
            timeouts: Flags, shape [n]: True if the episode was truncated after the step. None if no episode was
                truncated.
            next_observations: Observations after the steps, shape [n, ...]. None if they are unknown.
            discrete_action: True if actions are indices. If None, True if each row contains a single integer.
            log_probs: Log-probabilities (densities, if continuous) of the actions under the behaviour policy, shape
                [n]. Values in last rows are ignored, but must be valid log-probabilities. None if they were not
                recorded.

        Raises:
            ValueError: If lengths, shapes or values are invalid. The message contains the row.
            NonFiniteError: If a value is NaN or infinite.
        """
        discrete = looks_discrete(np.asarray(actions)) if discrete_action is None else bool(discrete_action)
        table = table_from_arrays(
            observations, actions, rewards, terminals, timeouts, discrete_action=discrete, reward_convention=SAME_ROW,
            next_observations=next_observations, log_probs=log_probs,
        )  # fmt: skip
        return cls.of_table(table, discrete)

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        observations: Sequence[str],
        actions: str | Sequence[str],
        reward: str = "reward",
        terminal: str = "terminal",
        timeout: str | None = None,
        episode: str | None = None,
        *,
        reward_convention: str | None = None,
        log_prob: str | None = None,
        next_observations: Sequence[str] | None = None,
    ) -> Self:
        """Return a dataset of a pandas frame with one row per time step.

        As in `from_arrays`, the observation after the last action of a truncated episode is known only from
        `next_observations`. Without `next_observations`, T rows of such an episode contain T - 1 steps.

        If the frame is a result of `to_dataframe`, the dataset has the reward convention of the dataset that was
        converted. For other frames, the reward convention of the dataset is "next_row".

        Args:
            frame: The frame.
            observations: Columns of the observation.
            actions: The column of discrete actions, or a list of the columns of continuous actions.
            reward: Column of the reward.
            terminal: Column of terminal flags.
            timeout: Column of truncation flags. None if no episode was truncated.
            episode: Column whose value changes when a new episode begins. None if there is no such column.
            reward_convention: Reward convention of the frame: "same_row" as in `from_arrays`, or "next_row" as in the
                constructor. If None, results of `to_dataframe` have the convention in
                `frame.attrs["reward_convention"]`, and other frames have "same_row".
            log_prob: Column of the log-probabilities (densities) of the actions. None if they were not recorded.
            next_observations: Columns of the observation after the step, as many as `observations`, only with
                "same_row". None if there are no such columns.

        Raises:
            ValueError: If the data are invalid, if a value is missing or not a number, if a list of columns is empty,
                or if the frame contains a different convention.
            KeyError: If the frame does not have a column.
            TypeError: If `frame` is not a frame, or if `observations` or `next_observations` is not a list.
        """
        optional = {"terminal": terminal, "timeout": timeout, "episode": episode, "log_prob": log_prob}
        arguments = frame, observations, actions, next_observations, reward, optional, reward_convention
        return cls.of_table(*table_from_frame(*arguments))

    def to_dataframe(self, *, reward_convention: str | None = None) -> Any:
        """Return a pandas frame with one row per time step, for `from_dataframe`.

        The columns are observation_0, ..., action or action_0, ..., reward, terminal, timeout, episode (the episode
        number, counted from 0), and, if recorded, log_prob. `frame.attrs["reward_convention"]` contains the reward
        convention. Formats without `attrs`, such as CSV files, do not store it: pass it to `from_dataframe` then.

        Args:
            reward_convention: With "next_row", rewards are in the row after their action. With "same_row", rewards are
                in the row of their action. If None, the convention of the dataset is used.

        Raises:
            MissingDependencyError: If pandas is not installed.
            ValueError: If observations are not vectors, if the convention is unknown, or with "same_row" if there are
                no transitions.
        """
        return frame_of(self.table, self.discrete_action, reward_convention)

    # Files

    def dump(self, fname: PathLike, *, reward_convention: str | None = None) -> None:
        """Write the dataset to one file, atomically: a NumPy archive if the name ends with `.npz`, else HDF5.

        Args:
            fname: The file. An existing file of this name is replaced. File extensions of other formats, such as
                `.csv`, are rejected.
            reward_convention: With "next_row", rewards are in the row after their action, and all data are kept. With
                "same_row", rewards are in the row of their action, and d3rlpy from version 1.1 on can read the file. If
                an episode ended in a terminal state, this state is then omitted, and the episode is omitted if it has
                no transitions. If None, the convention of the dataset is used.

        Raises:
            ValueError: If the convention is unknown, if there are no transitions with "same_row", or if the file
                extension belongs to another format.
            CheckpointError: If the file cannot be written.
            MissingDependencyError: If the format is HDF5 and h5py is not installed.
        """
        path = os.fspath(fname)
        ending = os.path.splitext(path)[1].lower()
        if ending in _OTHER_FORMATS:
            advice = "use the extension .h5 (HDF5) or .npz, or write the result of to_dataframe"
            raise ValueError(f"fname is {path!r}, but datasets are not written as {ending}: {advice}")
        write = write_npz if ending == ".npz" else write_hdf5
        write(path, flat_of(self.table, self.discrete_action, reward_convention, self.get_action_size()))

    @classmethod
    def load(
        cls,
        fname: PathLike,
        *,
        reward_convention: str | None = None,
        discrete_action: bool | None = None,
        memory_map: bool | None = None,
        max_bytes: int | None = None,
    ) -> Self:
        """Read a dataset from a file: a file of `dump`, an HDF5 file of d3rlpy, or arrays with the same names.

        A dataset from a file of `dump` has the `reward_convention` of the dataset that was written. A dataset from
        another file has "next_row". Use `load_minari` for folders of Minari, `from_directory` for folders of runs, and
        `from_dataframe` for frames.

        Args:
            fname: The file.
            reward_convention: Convention for files that do not contain it: "next_row" (`rewards[t + 1]` is the reward
                of `actions[t]`, as in d3rlpy before 1.1) or "same_row" (as in D4RL).
            discrete_action: True if actions are indices, for files that do not contain this information. If None, the
                dtype and the shape decide.
            memory_map: True to leave the observations in the HDF5 file and to map the file to memory. The file must not
                change later. Observations are then not checked for NaN and infinity; call `check` to do this. If None,
                True if the observations are larger than 1 GiB and contiguous.
            max_bytes: Limit on the memory of the arrays, in bytes, for a file of any size. None means 128 times the
                file size, at least 64 MiB.

        Raises:
            CheckpointError: If the file is damaged, has an unknown format, is invalid, or exceeds the memory limit.
            TypeError: If `max_bytes` is not an integer.
            MissingDependencyError: If the file is HDF5 and h5py is not installed.
        """
        check_counts(optional=True, max_bytes=max_bytes)
        path = os.fspath(fname)
        if os.path.isdir(path):
            hint = "load_minari reads folders of Minari, from_directory reads folders of runs"
            raise CheckpointError(path, f"is a folder, expected a file: {hint}")
        hdf5 = is_hdf5(path)
        try:
            flat = read_hdf5(path, memory_map, max_bytes) if hdf5 else read_npz(path, max_bytes)
            return cls.of_table(*table_of(flat, reward_convention, discrete_action))
        except (CheckpointError, ValueError) as error:
            if model := model_format(path):
                raise CheckpointError(path, f"is {model}, expected a dataset") from error
            if not isinstance(error, CheckpointError):
                raise CheckpointError(path, str(error)) from error
            if hdf5 or os.path.splitext(path)[1].lower() not in _OTHER_FORMATS:
                raise
            hint = "read the file with pandas and call from_dataframe, or call from_arrays"
            raise CheckpointError(path, f"{error.reason}; {hint}") from error

    def dump_minari(self, directory: PathLike, dataset_id: str, *, env_spec: str | None = None) -> None:
        """Write the dataset as `directory`/`dataset_id`/data, in the form that Minari reads.

        Args:
            directory: The directory of all datasets, `MINARI_DATASETS_PATH`.
            dataset_id: Id of the dataset, for instance "cartpole/mixed-v0".
            env_spec: `env.spec.to_json()` of the environment. None if unknown.

        Raises:
            ValueError: If the id is invalid, or if there are no transitions.
            CheckpointError: If the dataset cannot be written.
            MissingDependencyError: If h5py is not installed.
        """
        n_actions = self.get_action_size() if self.discrete_action else None
        write_minari(self.table, n_actions, Path(directory), dataset_id, env_spec)

    @classmethod
    def load_minari(cls, directory: PathLike, *, max_bytes: int | None = None) -> Self:
        """Read a dataset of Minari. The package Minari is not needed, but h5py is.

        Args:
            directory: The dataset's folder, `<MINARI_DATASETS_PATH>/<dataset id>`, or its subfolder `data`.
            max_bytes: Limit on the memory of the arrays, in bytes, for a file of any size. None means 128 times the
                file size, at least 64 MiB.

        Raises:
            CheckpointError: If the folder contains no dataset, or the dataset is damaged or exceeds the memory limit.
            TypeError: If `max_bytes` is not an integer.
            MissingDependencyError: If h5py is not installed.
        """
        check_counts(optional=True, max_bytes=max_bytes)
        return cls.of_table(*read_minari(Path(directory), max_bytes))

    # Replay buffers

    @classmethod
    def from_buffer(cls, buffer: ReplayBuffer, *, reward_convention: str | None = None) -> Self:
        """Return a dataset with a copy of a replay buffer's steps.

        The extra column "log_prob" is copied if all steps have it. Other extra columns, for instance action masks, are
        not copied. If the buffer has the attribute `action_size`, the dataset has at least this number of discrete
        actions. Running episodes are treated as truncated. If the next observation of a step is not the observation
        of the following step, the episode is truncated after this step.

        Args:
            buffer: The replay buffer.
            reward_convention: Convention of the dataset, "next_row" or "same_row". If None, "next_row".

        Raises:
            ValueError: If the buffer is empty, if its actions are not numbers or vectors, or if the convention is
                unknown.
            TypeError: If `buffer` is not a replay buffer.
        """
        table, discrete = table_from_buffer(buffer)
        if reward_convention is not None:
            table = table.declared_as(reward_convention)
        return cls.of_table(table, discrete, getattr(buffer, "action_size", 0))

    @classmethod
    def from_directory(cls, directory: PathLike) -> Self:
        """Return a dataset of a run's recorded steps: a persistent replay buffer, or a run's `demonstrations.replay`.

        Args:
            directory: Directory of a persistent buffer, which may be in use and is not changed. Or a directory that
                contains `demonstrations.replay`.

        Raises:
            CheckpointError: If the directory contains neither.
        """
        path = Path(directory)
        saved = path / "demonstrations.replay"
        if saved.exists():
            buffer = ReplayBuffer()
            buffer.load(str(saved))
            return cls.from_buffer(buffer)
        if not (path / "meta.json").exists():
            raise CheckpointError(path, "contains neither a persistent replay buffer nor demonstrations.replay")
        with tempfile.TemporaryDirectory() as copy, PersistentReplayBuffer(copy, None, ancestor=path) as recorded:
            return cls.from_buffer(recorded)

    def to_columns(self) -> tuple[Columns, list[Indices]]:
        """Return columns, and the rows of each episode's steps in these columns, for `ReplayBuffer.from_dataset`.

        Actions are converted to single precision. Episodes without a step are dropped.
        """
        steps, lengths = self.table.steps, self.table.lengths
        rows = np.split(steps, np.cumsum(lengths[lengths > 0])[:-1]) if len(steps) else []
        return self.table.to_columns(), rows
