"""The directory of a persistent buffer: its location, its state, and saves.

A save is a small file that `save_increment` writes. It refers to rows of the buffer's files. As long as the save
exists, these rows are not overwritten, so that `load_increment` can restore the content.
"""

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from pfrl_like.columns import Columns, RecordedColumns, dump_locators, keep_locators, load_locators, mark_used, restore
from pfrl_like.errors import CheckpointError
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.saved import MISFIT, PathLike, SavedFile
from pfrl_like.storage.arrays import read_arrays
from pfrl_like.storage.atomic import make_directory, named_errors, names_in, read_errors
from pfrl_like.storage.log_directory import META, ColumnFiles, LogDirectory

CAPACITY = "capacity"  # header key: capacity of the buffer that wrote the records; they are replayed with this capacity
_STEP_BYTES = 160  # upper bound of the bytes per step in states and journal, for small actions
_SPARE = 1.25  # number of rows in the files, divided by the rows in use; files grow in chunks
_SHARD = re.compile(r"rank-([0-9]+)-of-([0-9]+)")


class RewindingBuffer(ReplayBuffer):
    """Base of `PersistentBuffer`: writes the state of its directory, and saves and restores its content."""

    _columns: RecordedColumns
    _directory: LogDirectory
    _files: ColumnFiles
    _failure: str | None = None  # reason why nothing more can be stored; None if the buffer works
    _wanted_capacity: int | None
    _process: int
    dirname: str
    logger: logging.Logger
    #: Journal of the steps after a save (`experiments.cluster.replay_journal.JournaledBuffer`). None if there is none.
    journal: Any = None

    def _empty_columns(self, files: ColumnFiles) -> RecordedColumns:
        # The columns hold no reference to the buffer, so that the buffer and its lock are freed with the last
        # reference.
        return RecordedColumns(files.open, partial(_announce, self.dirname, self._wanted_capacity, self.logger))

    def _check_open(self) -> None:
        if self._failure is not None:
            raise CheckpointError(self.dirname, self._failure)
        if os.getpid() != self._process:
            reason = f"is written by process {self._process}, the parent of this process; a buffer has one writer"
            raise CheckpointError(self.dirname, reason)

    def _call_or_disable(self, act: Callable[..., None], *arguments: Any) -> None:
        """Call a function. If it raises an error, the buffer is disabled: all later calls that store data raise."""
        try:
            act(*arguments)
        except BaseException as error:
            self._failure = f"cannot store any more after an earlier error: {error!r}"
            raise

    def _write_state(self) -> None:
        """Write the whole state, synced to the disk, and begin a new journal."""
        columns = self._columns
        columns.clear_env_numbers()
        columns.records.clear()
        state = self._state(dump_locators)
        self._directory.begin({**state["header"], CAPACITY: self._capacity}, state["arrays"], self._files)
        self._schema = columns.schema
        self._synced()

    def sync(self) -> None:
        """Wait until all stored steps are on the disk, so that a power failure cannot destroy them.

        Raises:
            CheckpointError: If the buffer is closed or the disk reports an error. After such an error nothing more can
                be stored, because the system may have dropped data that a second sync would not write.
        """
        self._check_open()
        self._call_or_disable(self._directory.sync)
        self._synced()

    def _synced(self) -> None:
        self._columns.recycle()
        self._unsynced, self._last_sync = 0, time.monotonic()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content, in memory and in the directory, with the result of `state_dict`.

        Raises:
            ValueError: If the state does not match this buffer. The old content stays.
        """
        self._check_open()
        files, before = ColumnFiles(self.dirname), self._files
        columns = self._empty_columns(files)
        try:
            self._load_state(state, lambda header, arrays: restore(header, arrays, columns))
        except BaseException:
            files.close()
            self._directory.clean(f"columns-{before.token}-")
            raise
        self._files = files
        self._directory.saves = []  # the saves refer to the old files, which are removed
        self._call_or_disable(self._write_state)

    # Saves

    def save_increment(
        self, folder: PathLike, last: Mapping[str, Any] | None = None, *, allow_pickle: bool = False
    ) -> dict[str, Any]:
        """Write a file with references to the current rows. These rows are kept until `prune` removes this file.

        The values are not copied, so a save is useless without the directory. If the file of a save was removed, the
        next call of this method frees the rows that only the removed save needed.

        Raises:
            CheckpointError: If a file cannot be written. The files of earlier saves are unchanged.
        """
        folder = os.path.abspath(folder)
        make_directory(folder)
        self.sync()
        state = self._state(dump_locators)
        header = {**state["header"], "files": self._files.token}
        table = SavedFile.write(folder, "table", header, state["arrays"])
        path = os.path.join(folder, table.name)
        self._directory.set_saves(self._saves_with(path))
        self._columns.keep_only(self._directory.saves)
        keep_locators(self._columns, path, state["arrays"])
        reference = self._reference(folder, [], table, state["rng"])
        return reference if self.journal is None else {**reference, "journal": self.journal.begin(folder)}

    def load_increment(self, folder: PathLike, reference: Mapping[str, Any], *, allow_pickle: bool = False) -> None:
        """Restore the content of a save, in memory and in the directory.

        Raises:
            CheckpointError: If the save is damaged, belongs to another directory, or was made with a different type of
                `rng`. The content stays. The error is also raised if rows of the save have changed. The directory must
                then be opened again.
        """
        self._check_open()
        folder = os.path.abspath(folder)
        with read_errors(folder, MISFIT):
            table = SavedFile.from_entry(reference["table"])
            header, arrays = table.read(folder, allow_pickle=False)
            if header.get("files") != self._files.token:
                raise CheckpointError(folder, f"contains a save of another buffer than {self.dirname!r}")
            self._rewind({"header": header, "arrays": arrays, "rng": reference["rng"]})
        self._directory.saves = self._saves_with(os.path.join(folder, table.name))  # the file may have been moved
        self._protect_saved_rows()
        self._call_or_disable(self._write_state)
        if self.journal is not None:
            self.journal.loaded = (folder, int(reference["journal"])) if "journal" in reference else None

    def _rewind(self, state: Mapping[str, Any]) -> None:
        columns = self._empty_columns(self._files)

        def fill(header: Any, arrays: Any) -> Columns:
            self._failure = "must be opened again, because restoring a save failed"
            self._files.grow(False)
            load_locators(header, arrays, columns)
            self._files.grow()
            mark_used(columns, np.arange(1, len(arrays["reward"]) + 1), check=True)
            return columns

        self._load_state(state, fill)
        self._failure = None

    def _saves_with(self, path: str) -> list[str]:
        """Return the paths of the earlier saves that still exist, and `path`, the path of this save.

        If an earlier save has been moved to the folder of this save, its new path is returned.
        """
        folder, before = os.path.dirname(path), self._directory.saves
        places = [save if os.path.exists(save) else os.path.join(folder, os.path.basename(save)) for save in before]
        return [*dict.fromkeys([*filter(os.path.exists, places), path])]

    def _protect_saved_rows(self) -> None:
        """Protect the rows that saves refer to from being overwritten."""
        for path in filter(os.path.exists, self._directory.saves):
            try:
                with read_errors(path, MISFIT):
                    keep_locators(self._columns, path, read_arrays(path)[1])
            except CheckpointError as error:
                self.logger.warning("%s: a save cannot be restored: %s", self.dirname, error)


def _announce(dirname: str, capacity: int | None, logger: logging.Logger, row_bytes: int) -> None:
    """Log the expected size of the directory. Raise an error if the disk is too small for the directory."""
    if capacity is None:
        return
    size = int(capacity * (_SPARE * row_bytes + _STEP_BYTES))
    logger.info("%s: %d transitions will take about %.1f MB", dirname, capacity, size / 1e6)
    with named_errors(dirname, "measured"):
        used = sum(entry.stat().st_size for entry in os.scandir(dirname))
        free = shutil.disk_usage(dirname).free
    if size - used > free:
        need = f"{capacity=} needs about {size / 1e6:.1f} MB: free disk space or use a smaller capacity"
        raise CheckpointError(dirname, f"is on a disk with {free / 1e6:.1f} MB left, but {need}")


def rerun_paths(dirname: str, ancestor: str | None, shard: str | None) -> tuple[str, str | None]:
    """Return a buffer's directory and ancestor. They are the arguments, unless the program reruns a recorded run.

    A rerun does not change the directories of the recorded run. Its buffer is in the scratch folder of the rerun and
    starts with a copy of `dirname`. If the rerun begins at a checkpoint, training then restores the content that the
    checkpoint names. If the rerun begins at step 0, and the buffer of the recorded run was new, the buffer of the rerun
    is also new. The function assumes that the buffer of the recorded run was new if it is inside the directory of the
    run, or if the program names an ancestor.

    Args:
        dirname: The directory that the program names, an absolute path.
        ancestor: Directory that the program names as the ancestor, whose buffer is copied. None if the program names no
            ancestor.
        shard: Name of this process's subdirectory; None if the buffer is not distributed.
    """
    request = rerun_request()
    if request is None:
        return dirname, ancestor
    name = hashlib.sha256(os.fsencode(os.path.realpath(dirname))).hexdigest()[:16]
    place = os.path.join(request.scratch, f"buffer-{name}")
    source = request.current_path(dirname)
    was_new = not request.checkpoint and (request.is_of_run(dirname) or ancestor is not None)
    if was_new or _holds_buffer(place, shard) or not _holds_buffer(source, shard):
        return place, ancestor
    return place, source


def _holds_buffer(dirname: str, shard: str | None) -> bool:
    return os.path.lexists(os.path.join(dirname, shard or "", META))


def shard_of(distributed: bool, group: Any) -> str | None:
    """Return the name of the subdirectory of this process; None if `distributed` is False.

    Raises:
        ValueError: If `torch.distributed` is not running, or this process is not in the group.
    """
    if not distributed:
        if group is not None:
            raise ValueError(f"group: got {group!r}, expected None without distributed=True")
        return None
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        advice = 'start the script with torchrun and call torch.distributed.init_process_group("gloo") first'
        raise ValueError(f"distributed: got True, but torch.distributed is not running; {advice}")
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("group: this process does not belong to the group")
    return f"rank-{rank}-of-{size}"


def check_shards(dirname: str, shard: str | None) -> None:
    """Raise an error if a directory has subdirectories for a different number of processes than this buffer.

    Raises:
        CheckpointError: If the number of processes differs, or if only one of directory and buffer is distributed.
    """
    if not os.path.isdir(dirname):
        return
    parts = [match for match in map(_SHARD.fullmatch, names_in(dirname)) if match]
    size = None if shard is None else shard.rpartition("-")[2]
    if parts and size is None:
        raise CheckpointError(dirname, f"is divided among {parts[0][2]} processes; open it with distributed=True")
    if other := [part[2] for part in parts if part[2] != size]:
        reason = f"is divided among {other[0]} processes, but the group has {size}; start {other[0]} processes"
        raise CheckpointError(dirname, reason)
    if size is not None and os.path.lexists(os.path.join(dirname, META)):
        raise CheckpointError(dirname, "is the buffer of a single process; use another directory if distributed")


def ancestor_of(ancestor: str, shard: str | None) -> str:
    """Return the directory from which this process copies: the ancestor, or its subdirectory for this process."""
    if shard is None or os.path.lexists(os.path.join(ancestor, META)):
        return ancestor
    return os.path.join(ancestor, shard)
