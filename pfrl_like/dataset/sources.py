"""Conversions of datasets: arrays, files, replay buffers, tables of columns."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pfrl_like.columns import Columns, Indices
from pfrl_like.dataset.conventions import assembled, log_probs_of, table_from_arrays
from pfrl_like.dataset.episode import Episode, in_one_table, listed
from pfrl_like.dataset.flat import flat_of, looks_discrete, table_of
from pfrl_like.dataset.io.dataframe import frame_of, table_from_frame
from pfrl_like.dataset.io.hdf5 import is_hdf5, read_hdf5, write_hdf5
from pfrl_like.dataset.io.minari import read_minari, write_minari
from pfrl_like.dataset.io.npz import read_npz, write_npz
from pfrl_like.dataset.table import NO_OBS, SAME_ROW, Table, joined
from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import PersistentReplayBuffer, ReplayBuffer
from pfrl_like.utils.checks import check_counts


def table_from_buffer(buffer: ReplayBuffer) -> tuple[Table, bool]:
    """Table with a copy of a buffer's steps, and whether their actions are discrete.

    Running episodes are cut off. An episode also ends after a step that was made terminal in the buffer, and is cut off
    where a step's next observation is not the observation of the following step.

    Raises:
        ValueError: If the buffer is empty, or its actions are no numbers.
        TypeError: If `buffer` is no replay buffer of this library.
    """
    if not hasattr(buffer, "stored_steps"):
        raise TypeError(f"buffer: got {type(buffer).__name__}, expected one of pfrl_like.replay_buffers")
    columns, rows = buffer.stored_steps()
    if not len(rows) or columns.obs is None or columns.action is None:
        raise ValueError("buffer: got an empty one, expected at least one transition")
    action = columns.action.plain
    if action is None or action.dtype.kind not in "biuf" or action.ndim > 2:
        raise ValueError("buffer: expected actions that are numbers or vectors of numbers")
    rows, ends = in_episodes(columns, rows)
    at, following = columns.obs_row[rows], columns.next_row[rows]
    told, terminal = following[ends] != at[ends], columns.terminal[rows[ends]]
    discrete = action.ndim == 1 and action.dtype.kind != "f"
    chosen = action[rows].astype(np.int64) if discrete else action[rows].reshape(len(rows), -1)
    extended = told | terminal
    held = columns.further(rows).get("log_prob")
    # As elsewhere, an unknown state is shown as the one before it.
    table = assembled(
        columns.obs, chosen, columns.reward[rows], terminal, ends, extended,
        obs_row=at, end_obs=following[ends][extended],
        log_prob=None if held is None else log_probs_of("log_prob", held, len(rows), discrete),
    )  # fmt: skip
    return joined([table.with_made_up(table.made_up | np.where(~told & terminal, NO_OBS, 0))]), discrete


def in_episodes(columns: Columns, rows: Indices) -> tuple[Indices, Indices]:
    """Rows sorted by episode, in the order of the episodes' first steps, and the places of the episodes' last steps."""
    count = len(rows)
    place = np.full(columns.steps.size, -1, np.int64)
    place[rows] = np.arange(count)
    successor = columns.successor[rows]
    after = np.where(successor > 0, place[np.maximum(successor, 0)], -1)
    linked = after >= 0
    linked[linked] = columns.next_row[rows[linked]] == columns.obs_row[rows[after[linked]]]
    linked &= ~columns.terminal[rows]  # a step in mid-episode may have been made terminal
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

#: Endings of formats that datasets are not written in; any other ending except `.npz` means HDF5.
_OTHER_FORMATS = {
    ".arrow", ".csv", ".feather", ".json", ".jsonl", ".mat", ".npy", ".parquet", ".pickle", ".pkl", ".pt", ".tsv",
    ".txt", ".xlsx", ".zip",
}  # fmt: skip


class DatasetSources:
    """Tables of an `MDPDataset`, and conversions from and to other forms of the same data."""

    @classmethod
    def of_table(cls, table: Table, discrete_action: bool, action_size: int = 0) -> Self:
        """Dataset over a table, with at least `action_size` discrete actions."""
        dataset = cls.__new__(cls)
        dataset._use(table, discrete_action, action_size)
        return dataset

    def _use(self, table: Table, discrete_action: bool, action_size: int = 0) -> None:
        self._tables = [table]
        self.discrete_action = bool(discrete_action)
        self._known_actions = action_size
        self._episodes: list[Episode] | None = None

    @property
    def table(self) -> Table:
        """Table of all episodes."""
        if len(self._tables) > 1:
            self._tables = [joined(self._tables)]
        return self._tables[0]

    def get_action_size(self) -> int:
        """Length of an action vector or, if actions are discrete, the largest known one + 1."""
        if self.discrete_action:
            return max(self._known_actions, *(1 + int(table.action.max()) for table in self._tables))
        return int(self._tables[0].action.shape[1])

    # Other datasets

    @classmethod
    def from_episodes(cls, episodes: Any) -> Self:
        """Dataset of some episodes: of a slice, or of one part of scikit-learn's `train_test_split`.

        It has all discrete actions of the datasets that contained the episodes, including those that no episode uses.
        Its reward convention is that of the first episode's dataset.

        Args:
            episodes: Episodes, of one dataset, whose observations are not copied, or of several; or a dataset.

        Raises:
            ValueError: If there is no transition, or the episodes are not all of one kind.
            TypeError: If an item is no episode.
        """
        table, numbers = in_one_table(chosen := listed(episodes))
        size = max(episode.get_action_size() for episode in chosen)
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
        """Dataset of arrays whose reward is for the action of the same row, as in gymnasium, D4RL and `to_arrays`.

        It has the same steps as a dataset made with the constructor's `reward_convention="same_row"`, but its
        attributes use "next_row".

        An episode ends with each row whose `terminals` or `timeouts` is set, and with the last row. Where it was cut
        off, the outcome of the last action is known only from `next_observations`. Without them the last row serves as
        the last observation, and its reward is left out.

        Args:
            observations: Array [n, ...], which is not copied (unless with `next_observations`), or a dict or tuple of
                such.
            actions: Shape [n, A], or [n] if discrete.
            rewards: Shape [n].
            terminals: Flags, shape [n]: the step ended in a terminal state.
            timeouts: Flags, shape [n]: the episode was cut off after the step. None for none.
            next_observations: Observations after the steps, shape [n, ...].
            discrete_action: Whether actions are indices; None if they are integers, one in a row.
            log_probs: Log-probabilities (densities, if continuous) of the actions under the policy that took them,
                shape [n]. Values in last rows do not count, but must be possible ones. None if they were not recorded.

        Raises:
            ValueError: If lengths, shapes or values are invalid; the text names the row.
            NonFiniteError: On NaN or infinity.
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
        """Dataset of a pandas frame with a row for each time step.

        As in `from_arrays`, the outcome of the last action of an episode that was cut off is known only from
        `next_observations`. Without them that row serves as the last observation, so that T rows hold T - 1 steps.
        `reward_convention` says how rewards are read. The attributes of the dataset are shown as in the dataset that a
        frame of `to_dataframe` comes from, and in the convention "next_row" for other frames.

        Args:
            frame: The frame.
            observations: Columns of the observation.
            actions: The column of discrete actions, or a list of those of continuous ones.
            reward: Column of the reward.
            terminal: Column of terminal flags.
            timeout: Column of flags of episodes that were cut off; None for none.
            episode: Column whose value changes where another episode begins; None for none.
            reward_convention: "same_row" as in `from_arrays`, or "next_row" as in the constructor. None is the
                convention in `frame.attrs["reward_convention"]`, which frames of `to_dataframe` have, else "same_row".
            log_prob: Column of the `log_probs` of the constructor; None if there is none.
            next_observations: Columns of the observation after the step, as many as `observations`, with "same_row";
                None if there are none.

        Raises:
            ValueError: If the data are invalid, a value is missing or no number, no column is named, or the frame names
                another convention.
            KeyError: If the frame lacks a column.
            TypeError: If it is no frame, or `observations` or `next_observations` is not a list.
        """
        optional = {"terminal": terminal, "timeout": timeout, "episode": episode, "log_prob": log_prob}
        given = frame, observations, actions, next_observations, reward, optional, reward_convention
        return cls.of_table(*table_from_frame(*given))

    def to_dataframe(self, *, reward_convention: str | None = None) -> Any:
        """Pandas frame with a row for each time step, which `from_dataframe` reads.

        Columns are observation_0, ..., action or action_0, ..., reward, terminal, timeout, episode (its number from 0
        on), and, if recorded, log_prob. `frame.attrs["reward_convention"]` names the convention. Formats that lose it,
        such as CSV files, are read as "same_row" unless `from_dataframe` is given another convention.

        Args:
            reward_convention: "next_row": rewards are in the row after their action. "same_row": rewards are in the row
                of their action. None for the convention of the dataset, whose frame has the same rows as the
                attributes.

        Raises:
            MissingDependencyError: If pandas is not installed.
            ValueError: If observations are no vectors, on another convention, or with "same_row" if there is no
                transition.
        """
        return frame_of(self.table, self.discrete_action, reward_convention)

    # Files

    def dump(self, fname: PathLike, *, reward_convention: str | None = None) -> None:
        """Write the dataset to one file, atomically: HDF5, or an archive of NumPy arrays if the name ends with `.npz`.

        Args:
            fname: The file; an old one of this name is replaced. Names with the ending of another format, such as
                `.csv`, are refused.
            reward_convention: "next_row": rewards are in the row after their action, and everything is kept.
                "same_row": rewards are in the row of their action, in the form that d3rlpy reads from version 1.0 on.
                This form leaves out the last observations of episodes that ended in a terminal state, and therefore
                such episodes without a transition. None for the convention of the dataset, whose file has the same rows
                as the attributes.

        Raises:
            ValueError: On another convention, or with "same_row" if there is no transition, or on the ending of another
                format.
            CheckpointError: If it cannot be written.
            MissingDependencyError: If HDF5 is asked for, and h5py is not installed.
        """
        path = os.fspath(fname)
        ending = os.path.splitext(path)[1].lower()
        if ending in _OTHER_FORMATS:
            raise ValueError(
                f"fname is {path!r}, but datasets are not written as {ending}: let it end in .h5 (HDF5) or .npz; "
                "to_dataframe makes a pandas DataFrame, which writes other formats"
            )
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
        """Read a dataset from a file: a file of `dump`, HDF5 files of d3rlpy, or arrays of the same names.

        A file of `dump` gives a dataset with the same `reward_convention`; other files give one that uses "next_row".
        Use `load_minari` for folders of Minari, `from_directory` for those of runs, and `from_dataframe` for tables.

        Args:
            fname: The file.
            reward_convention: For files that do not name theirs: "next_row" (`rewards[t + 1]` is for `actions[t]`;
                d3rlpy before 1.0) or "same_row" (D4RL).
            discrete_action: Whether actions are indices, for files that do not say; None decides by their dtype.
            memory_map: Leave the observations in the HDF5 file, which must not change; only `check` then checks their
                values. None does it for more than 1 GiB, where they are contiguous in the file.
            max_bytes: Limit on the memory of the arrays, whatever the size of the file; None is 128 times its size, and
                at least 64 MiB.

        Raises:
            CheckpointError: If the file is damaged, of another format, invalid, or exceeds the memory limit.
            TypeError: If `max_bytes` is no integer.
            MissingDependencyError: If it is HDF5 and h5py is not installed.
        """
        check_counts(optional=True, max_bytes=max_bytes)
        path = os.fspath(fname)
        if os.path.isdir(path):
            hint = "load_minari reads Minari's folders, from_directory those of runs"
            raise CheckpointError(path, f"is a folder, expected a file: {hint}")
        hdf5 = is_hdf5(path)
        try:
            flat = read_hdf5(path, memory_map, max_bytes) if hdf5 else read_npz(path, max_bytes)
            return cls.of_table(*table_of(flat, reward_convention, discrete_action))
        except CheckpointError as error:
            if hdf5 or os.path.splitext(path)[1].lower() not in _OTHER_FORMATS:
                raise
            hint = "from_dataframe takes a table that pandas has read, from_arrays arrays"
            raise CheckpointError(path, f"{error.reason}; {hint}") from error
        except ValueError as error:
            raise CheckpointError(path, str(error)) from error

    def dump_minari(self, directory: PathLike, dataset_id: str, *, env_spec: str | None = None) -> None:
        """Write the dataset as `directory`/`dataset_id`/data, in the form that Minari reads.

        Args:
            directory: The directory that `MINARI_DATASETS_PATH` names.
            dataset_id: Its name, for instance "cartpole/mixed-v0".
            env_spec: `env.spec.to_json()` of its environment.

        Raises:
            ValueError: If the name is invalid, or there is no transition.
            CheckpointError: If it cannot be written.
            MissingDependencyError: If h5py is not installed.
        """
        n_actions = self.get_action_size() if self.discrete_action else None
        write_minari(self.table, n_actions, Path(directory), dataset_id, env_spec)

    @classmethod
    def load_minari(cls, directory: PathLike, *, max_bytes: int | None = None) -> Self:
        """Read a dataset of Minari; only h5py is needed.

        Args:
            directory: The dataset's folder, `<MINARI_DATASETS_PATH>/<dataset id>`, or its `data`.
            max_bytes: Limit on the memory of the arrays, whatever the size of the file; None is 128 times its size, and
                at least 64 MiB.

        Raises:
            CheckpointError: If there is none, it is damaged, or it exceeds the memory limit.
            TypeError: If `max_bytes` is no integer.
            MissingDependencyError: If h5py is not installed.
        """
        check_counts(optional=True, max_bytes=max_bytes)
        return cls.of_table(*read_minari(Path(directory), max_bytes))

    # Replay buffers

    @classmethod
    def from_buffer(cls, buffer: ReplayBuffer, *, reward_convention: str | None = None) -> Self:
        """Dataset with a copy of a replay buffer's steps, and with the column "log_prob" if all steps have it.

        Other additional columns, for instance action masks, are not copied.

        Running episodes are cut off. An episode is also cut where a step's next observation is not the observation of
        the following step.

        Args:
            buffer: The replay buffer.
            reward_convention: Convention of the dataset, "next_row" or "same_row". None uses "next_row"; `append` then
                gives the constructor's warning, since the convention of its arrays is open.

        Raises:
            ValueError: If the buffer is empty, or its actions are no numbers or vectors, or on another convention.
            TypeError: If it is no replay buffer.
        """
        table, discrete = table_from_buffer(buffer)
        if reward_convention is not None:
            table = table.declared_as(reward_convention)
        return cls.of_table(table, discrete)

    @classmethod
    def from_directory(cls, directory: PathLike) -> Self:
        """Dataset of a run's recorded steps: a persistent replay buffer, or a run's `demonstrations.replay`.

        Args:
            directory: The persistent buffer's directory, which is read only and may be in use; or one that contains
                such a file.

        Raises:
            CheckpointError: If there is neither.
        """
        path = Path(directory)
        saved = path / "demonstrations.replay"
        if saved.exists():
            buffer = ReplayBuffer()
            buffer.load(str(saved))
            return cls.from_buffer(buffer)
        if not (path / "meta.json").exists():
            raise CheckpointError(path, "holds neither a persistent replay buffer nor demonstrations.replay")
        with tempfile.TemporaryDirectory() as copy, PersistentReplayBuffer(copy, None, ancestor=path) as recorded:
            return cls.from_buffer(recorded)

    def to_columns(self) -> tuple[Columns, list[Indices]]:
        """Store, and the rows of each episode's steps in it, for `ReplayBuffer.from_dataset`.

        Actions become single precision, like those of policies. Episodes without a step are left out.
        """
        steps, lengths = self.table.steps, self.table.lengths
        rows = np.split(steps, np.cumsum(lengths[lengths > 0])[:-1]) if len(steps) else []
        return self.table.to_columns(), rows
