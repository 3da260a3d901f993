"""The directory of a buffer that lives in files: where it lies, its whole state, and saves that it goes back to.

A save says which rows of the files it needs, and nothing is written into these.
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

from pfrl_like.columns import Columns, RecordedColumns, dump_places, keep_places, restore, restore_places, settle
from pfrl_like.errors import CheckpointError
from pfrl_like.processes.rerun_order import ordered
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.saved import MISFIT, SavedFile
from pfrl_like.storage.arrays import read_arrays
from pfrl_like.storage.atomic import make_directory, named_errors, names_in, refused
from pfrl_like.storage.log_directory import META, ColumnFiles, LogDirectory

CAPACITY = "capacity"  # in the header: that of the buffer which wrote it, as which its records are replayed
_STEP_BYTES = 160  # beside the values: at most so much in the states and the journal, for actions of a few numbers
_SPARE = 1.25  # rows that files have beyond those in use
_SHARD = re.compile(r"rank-([0-9]+)-of-([0-9]+)")


class RewindingBuffer(ReplayBuffer):
    """What `PersistentBuffer` does with its directory as a whole; it opens that, and keeps a journal of the steps."""

    _columns: RecordedColumns
    _directory: LogDirectory
    _files: ColumnFiles
    _refusal: str | None = None  # why nothing can be stored any more
    _wanted_capacity: int | None
    _process: int
    dirname: str
    logger: logging.Logger

    def _empty_columns(self, files: ColumnFiles) -> RecordedColumns:
        # They do not know this buffer, so that it lets go of its directory as soon as nobody knows it any more.
        return RecordedColumns(files.open, partial(_announce, self.dirname, self._wanted_capacity, self.logger))

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise CheckpointError(self.dirname, self._refusal)
        if os.getpid() != self._process:
            reason = f"is written by process {self._process}, which started this one; a buffer has one writer"
            raise CheckpointError(self.dirname, reason)

    def _or_refuse(self, act: Callable[..., None], *arguments: Any) -> None:
        """Do something, after whose error nothing can be stored any more."""
        try:
            act(*arguments)
        except BaseException as error:
            self._refusal = f"cannot store any more since {error!r}"
            raise

    def _write_state(self) -> None:
        """Write the whole state, on the disk when this returns, and begin a new journal."""
        columns = self._columns
        columns.forget_names()
        columns.records.clear()
        state = self._state(dump_places)
        self._directory.begin({**state["header"], CAPACITY: self._capacity}, state["arrays"], self._files)
        self._schema = columns.schema
        self._synced()

    def sync(self) -> None:
        """Wait until everything stored so far would survive a power cut.

        Raises:
            CheckpointError: If the disk reports an error, or the buffer is closed. Nothing can be stored from then on,
                since what the disk has dropped is not written by asking again.
        """
        self._check_open()
        self._or_refuse(self._directory.sync)
        self._synced()

    def _synced(self) -> None:
        self._columns.recycle()
        self._unsynced, self._last_sync = 0, time.monotonic()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content, in memory and in the directory, by what `state_dict` gave.

        Raises:
            ValueError: If it does not fit; the old content stays.
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
        self._directory.saves = []  # of files that are gone then
        self._or_refuse(self._write_state)

    # Saves

    def save_increment(
        self, folder: str | os.PathLike[str], last: Mapping[str, Any] | None = None, *, allow_pickle: bool = False
    ) -> dict[str, Any]:
        """Say in a file which rows of the directory make up the content now; they stay until `prune` removes this file.

        What is in the directory is not written again, so a save without it is nothing. Rows that only saves need are
        freed at the first save after their files are gone.

        Raises:
            CheckpointError: If something cannot be written; what earlier references name is still in place.
        """
        folder = os.path.abspath(folder)
        make_directory(folder)
        self.sync()
        state = self._state(dump_places)
        header = {**state["header"], "files": self._files.token}
        table = SavedFile.write(folder, "table", header, state["arrays"])
        path = os.path.join(folder, table.name)
        self._directory.note_saves(self._saves_and(path))
        self._columns.keep_only(self._directory.saves)
        keep_places(self._columns, path, state["arrays"])
        return self._reference(folder, [], table, state["rng"])

    def load_increment(
        self, folder: str | os.PathLike[str], reference: Mapping[str, Any], *, allow_pickle: bool = False
    ) -> None:
        """Go back, in memory and in the directory, to what a save has named.

        Raises:
            CheckpointError: If it is no save of this directory or of its `rng`, or is damaged; the content stays. If
                rows it needs are not what they were, too, and then the directory has to be opened again.
        """
        self._check_open()
        folder = os.path.abspath(folder)
        with refused(folder, MISFIT):
            table = SavedFile.of(reference["table"])
            header, arrays = table.read(folder, allow_pickle=False)
            if header.get("files") != self._files.token:
                raise CheckpointError(folder, f"holds a save of another content than that of {self.dirname!r}")
            self._rewind({"header": header, "arrays": arrays, "rng": reference["rng"]})
        self._directory.saves = self._saves_and(os.path.join(folder, table.name))  # it may have been moved
        self._keep_saves()
        self._or_refuse(self._write_state)

    def _rewind(self, state: Mapping[str, Any]) -> None:
        columns = self._empty_columns(self._files)

        def fill(header: Any, arrays: Any) -> Columns:
            self._refusal = "has to be opened again, since going back to a save has failed"
            self._files.grow(False)
            restore_places(header, arrays, columns)
            self._files.grow()
            settle(columns, np.arange(1, len(arrays["reward"]) + 1), check=True)
            return columns

        self._load_state(state, fill)
        self._refusal = None

    def _saves_and(self, path: str) -> list[str]:
        """The saves that are still there, or were moved together with this one, and this one."""
        folder, before = os.path.dirname(path), self._directory.saves
        places = [save if os.path.exists(save) else os.path.join(folder, os.path.basename(save)) for save in before]
        return [*dict.fromkeys([*filter(os.path.exists, places), path])]

    def _keep_saves(self) -> None:
        """Let nothing be written into rows that saves name."""
        for path in filter(os.path.exists, self._directory.saves):
            try:
                with refused(path, MISFIT):
                    keep_places(self._columns, path, read_arrays(path)[1])
            except CheckpointError as error:
                self.logger.warning("%s: going back to a save will not be possible: %s", self.dirname, error)


def _announce(dirname: str, capacity: int | None, logger: logging.Logger, row_bytes: int) -> None:
    """Say how large the directory will be, and refuse if the disk is too small for that."""
    if capacity is None:
        return
    size = int(capacity * (_SPARE * row_bytes + _STEP_BYTES))
    logger.info("%s: %d transitions will take about %.1f MB", dirname, capacity, size / 1e6)
    with named_errors(dirname, "measured"):
        there = sum(entry.stat().st_size for entry in os.scandir(dirname))
        free = shutil.disk_usage(dirname).free
    if size - there > free:
        raise CheckpointError(
            dirname,
            f"is on a disk with {free / 1e6:.1f} MB left, but capacity={capacity} transitions need about "
            f"{size / 1e6:.1f} MB: make room or take a smaller capacity",
        )


def diverted(dirname: str, ancestor: str | None, shard: str | None) -> tuple[str, str | None]:
    """Where a buffer lies and what it begins with: as the program says, unless it was started again.

    Then it lies among what the program writes meanwhile, and begins with what is in `dirname`, of which training goes
    back to what a checkpoint names. Training from the start begins as the run did: without what that has stored in its
    own directory, or in one that was new.

    Args:
        dirname: The directory that the program names, absolute.
        ancestor: The one that the program has its content from, if it is new.
        shard: Name of this process's part; None if there are no parts.
    """
    order = ordered()
    if order is None:
        return dirname, ancestor
    name = hashlib.sha256(os.fsencode(os.path.realpath(dirname))).hexdigest()[:16]
    place = os.path.join(order.scratch, f"buffer-{name}")
    source = order.found(dirname)
    was_new = not order.checkpoint and (order.is_of_run(dirname) or ancestor is not None)
    if was_new or _holds_buffer(place, shard) or not _holds_buffer(source, shard):
        return place, ancestor
    return place, source


def _holds_buffer(dirname: str, shard: str | None) -> bool:
    return os.path.lexists(os.path.join(dirname, shard or "", META))


def shard_of(distributed: bool, group: Any) -> str | None:
    """Name of the part of this process, None if there are no parts."""
    if not distributed:
        if group is not None:
            raise ValueError(f"group: got {group!r}, expected None without distributed=True")
        return None
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(
            "distributed: got True, but torch.distributed is not running; start the script with torchrun and call "
            'torch.distributed.init_process_group("gloo") first'
        )
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("group: this process does not belong to it")
    return f"rank-{rank}-of-{size}"


def refuse_shards(dirname: str, shard: str | None) -> None:
    """Refuse a directory that is divided in another way."""
    if not os.path.isdir(dirname):
        return
    parts = [match for match in map(_SHARD.fullmatch, names_in(dirname)) if match]
    size = None if shard is None else shard.rpartition("-")[2]
    if parts and size is None:
        raise CheckpointError(dirname, f"is divided among {parts[0][2]} processes; open it with distributed=True")
    if other := [part[2] for part in parts if part[2] != size]:
        reason = f"is divided among {other[0]} processes, the group has {size}; start as many as before"
        raise CheckpointError(dirname, reason)
    if size is not None and os.path.lexists(os.path.join(dirname, META)):
        raise CheckpointError(dirname, "is the buffer of a single process; give distributed buffers another directory")


def ancestor_of(ancestor: str, shard: str | None) -> str:
    """Where the content of an ancestor lies for this process: in its part, if the ancestor is divided."""
    if shard is None or os.path.lexists(os.path.join(ancestor, META)):
        return ancestor
    return os.path.join(ancestor, shard)
