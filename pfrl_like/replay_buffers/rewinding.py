"""Saves of a buffer that lives in files: each says which of their rows it needs, and nothing is written into these."""

import hashlib
import logging
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from pfrl_like.columns import Columns, RecordedColumns, dump_places, keep_places, restore_places, settle
from pfrl_like.errors import CheckpointError
from pfrl_like.processes.rerun_order import ordered
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.saved import SavedFile, refusing_misfits
from pfrl_like.storage.arrays import read_arrays
from pfrl_like.storage.atomic import make_directory
from pfrl_like.storage.log_directory import META, ColumnFiles, LogDirectory


class RewindingBuffer(ReplayBuffer):
    """What `PersistentBuffer` does with checkpoints that follow one another; the fields are described there."""

    _directory: LogDirectory
    _files: ColumnFiles
    _refusal: str | None
    dirname: str
    logger: logging.Logger

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
        columns = self._columns
        assert isinstance(columns, RecordedColumns)
        columns.keep_only(self._directory.saves)
        keep_places(columns, path, state["arrays"])
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
        with refusing_misfits(folder):
            table = SavedFile.of(reference["table"])
            header, arrays = table.read(folder, allow_pickle=False)
            if header.get("files") != self._files.token:
                raise CheckpointError(folder, f"holds a save of another content than that of {self.dirname!r}")
            self._rewind({"header": header, "arrays": arrays, "rng": reference["rng"]})
        self._directory.saves = self._saves_and(os.path.join(folder, table.name))  # it may have been moved
        self._keep_saves()
        self._write_state_or_refuse()

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
                with refusing_misfits(path):
                    keep_places(self._columns, path, read_arrays(path)[1])
            except CheckpointError as error:
                self.logger.warning("%s: going back to a save will not be possible: %s", self.dirname, error)

    # What the buffers fill in

    @abstractmethod
    def sync(self) -> None:
        """Wait until everything stored so far would survive a power cut."""

    @abstractmethod
    def _check_open(self) -> None:
        """Refuse to go on after an error, after `close`, and in another process."""

    @abstractmethod
    def _empty_columns(self, files: ColumnFiles) -> RecordedColumns:
        """An empty store over these files."""

    @abstractmethod
    def _write_state_or_refuse(self) -> None:
        """Write the whole state; after an error nothing can be stored any more."""


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
