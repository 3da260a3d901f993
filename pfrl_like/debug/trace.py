"""The trace of a run: checksums of actions, observations, rewards and losses at every step, to compare two runs.

`trace.bin` contains a record of fixed size for every tick of the loop: the step, and four checksums of all actions,
observations, rewards and losses up to this step. After the first difference of two runs, all later records differ, too.
`trace.jsonl` contains a line for the start and for every checkpoint, with the checksum of every tensor that the agent
saves.
"""

import contextlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pfrl_like.errors import CheckpointError
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.processes.supervisor import close_all
from pfrl_like.runs.checksums import checksums_of, checksums_of_streams
from pfrl_like.runs.loop import Clock
from pfrl_like.storage import AppendedFile
from pfrl_like.storage.atomic import sync_file
from pfrl_like.storage.plain_tensors import checksum

#: Names of the files, and the fields of a record.
RECORDS, TENSORS = "trace.bin", "trace.jsonl"
CHANNELS = ("action", "observation", "reward", "loss")
RECORD = np.dtype([("t", "<u8"), *((channel, "<u4") for channel in CHANNELS)])
_PACK = struct.Struct("<Q4I").pack  # makes the bytes of a record
_SIZE = RECORD.itemsize
_NUMBER = struct.Struct("<q")
#: `_MAX_PENDING`: maximum number of steps whose records are not yet computed. `_MAX_UNWRITTEN`: maximum size of
#: unwritten records in bytes.
_MAX_PENDING = 64
_MAX_UNWRITTEN = 4096 * _SIZE
_LONGEST_LINE = 1 << 26  # maximum length of a line in bytes


class Trace:
    """Callback that writes the trace.

    If the program was started by `crash_replay.rerun_training`, the callback writes a line with the checksums of
    tensors and random streams for the start and for every step of the requested interval. After the interval, it ends
    the program.

    Args:
        source: Source of training steps. Its attribute `last` contains the observations, actions and rewards of the
            last tick.
        agent: Agent. The checksums of tensors are computed from its `state_dict`. The checksums of losses are computed
            from its `trailed`, a sequence of objects whose `trail` is a hash of the latest losses. If the agent has no
            `trailed`, losses are not traced.
        outdir: Run directory.
        interval: Number of steps between lines with checksums of tensors. If None, lines are written only at the start
            and at the end.
        step_offset: Step at which the run starts. Records and lines of later steps are removed.

    Attributes:
        writes_to: Tuple of the files of the trace. The runner sets the attribute `error_context` of each file, which
            handles failed writes.
    """

    def __init__(self, source: Any, agent: Any, outdir: str, interval: int | None, step_offset: int) -> None:
        self.source, self.agent, self.interval = source, agent, interval
        self._trailed = agent.trailed if hasattr(type(agent), "trailed") else ()
        request = rerun_request()
        self._request = request if request is not None and request.until else None
        count, self._last = _valid_records(outdir, step_offset)
        if request is not None:
            _, self._last = _valid_records(request.outdir, step_offset)
        self._records = bytearray()
        self._pending: list[tuple[int, Any, int]] = []  # steps whose records are not yet computed
        # Checksums of many steps are computed in one loop, because this uses the CPU cache better. Vector environments
        # may reuse their arrays. Therefore the checksums of their steps are computed immediately.
        self._max_pending = 0 if hasattr(source, "num_envs") or self._request is not None else _MAX_PENDING
        size, self._written_at = _valid_lines(outdir, step_offset)
        self._file = AppendedFile(os.path.join(outdir, RECORDS), keep=_SIZE * count)
        self._lines = AppendedFile(os.path.join(outdir, TENSORS), keep=size, after=self._file)
        self.writes_to = self._file, self._lines
        self._t = self._next = step_offset
        if self._request is not None and not self._request.checkpoint:
            self._trace_interval(self._request.since, self._request.until)
        elif step_offset == 0 or self._request is not None:
            # The line contains no random streams: if a rerun starts from a checkpoint, they are restored later.
            self.write_tensors()

    def __call__(self, clock: Clock) -> None:  # short, because it is called at every step
        trail = 0
        for part in self._trailed:
            if part.trail:
                trail, part.trail = hash((trail, part.trail)), 0
        t = clock.t
        self._pending.append((t, self.source.last, trail))
        if t >= self._next:
            self._write_due(clock)

    def _write_due(self, clock: Clock) -> None:
        """Write the records and lines that are due, and compute the step at which the next ones are due."""
        t, interval = clock.t, self.interval
        self._digest()
        if len(self._records) >= _MAX_UNWRITTEN:
            self._write_records()
        if self._request is not None:
            self._trace_interval(self._request.since, self._request.until)
        elif interval is not None and t // interval != clock.previous_t // interval:
            self.write_tensors()
        self._next = t + self._max_pending
        if interval is not None:
            self._next = min(self._next, t - t % interval + interval)

    def _trace_interval(self, since: int, until: int) -> None:
        """Write a line if this step is in the interval. End the program at the end of the interval."""
        if self._t >= since:
            self.write_tensors(**checksums_of_streams(self.agent, self.source))
        if self._t >= until:
            raise SystemExit(0)

    def _digest(self) -> None:
        """Compute the records of the pending steps."""
        actions, obs_sum, rewards, losses = self._last
        for t, (obs, action, reward), trail in self._pending:
            actions, obs_sum, rewards = checksum(action, actions), checksum(obs, obs_sum), checksum(reward, rewards)
            if trail:
                losses = zlib.crc32(_NUMBER.pack(trail), losses)
            self._records += _PACK(t, actions, obs_sum, rewards, losses)
        if self._pending:
            self._t = self._pending[-1][0]
        self._last = actions, obs_sum, rewards, losses
        self._pending.clear()

    def _write_records(self) -> None:
        """Write the records of all steps so far."""
        self._digest()
        records, self._records = self._records, bytearray()
        self._file.append(records)

    def write_tensors(self, **more: int) -> None:
        """Write all records so far, then a line with the checksums of the current tensors.

        Args:
            **more: Additional checksums, keyed by name.
        """
        self._write_records()
        self._lines.append(json.dumps({"t": self._t, "tensors": checksums_of(self.agent) | more}).encode() + b"\n")
        self._written_at = self._t

    def flush(self) -> None:
        """Write all pending records, and sync the files to disk.

        Raises:
            CheckpointError: If a file cannot be written.
        """
        self._write_records()
        for file in self.writes_to:
            file.flush()
            sync_file(file.path)

    def saved_state(self) -> dict[str, Any]:
        """Return the current checksums, the number of records, and the hashes of losses since the last step."""
        self._write_records()
        trails = [part.trail for part in self._trailed]
        return {"t": self._t, "records": self._file.size // _SIZE, "sums": [*self._last], "trails": trails}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`, even if the files were lost.

        Raises:
            ValueError: If `state` is not the state of a trace.
        """
        try:
            t, sums, trails = int(state["t"]), [int(each) for each in state["sums"]], [*map(int, state["trails"])]
            size = int(state["records"]) * _SIZE
            _PACK(t, *sums)
            if len(trails) != len(self._trailed):
                raise ValueError(f"the agent has {len(self._trailed)} hashes of losses, expected {len(trails)}")
        except (KeyError, TypeError, ValueError, struct.error) as error:
            raise ValueError(f"state is not the state of a trace: {error!r:.200}") from error
        self._last = sums[0], sums[1], sums[2], sums[3]
        # Ticks after the checkpoint that made no step left records with the step of the checkpoint.
        if self._file.size > size >= 0:
            self._file.cut(size)
        for part, trail in zip(self._trailed, trails, strict=True):
            part.trail = trail

    def close(self) -> None:
        """Write all pending records and a last line with checksums of tensors, and close the files."""
        try:
            self._digest()
            if self._written_at != self._t:
                self.write_tensors()
        finally:
            self._write_records()
            close_all([self._lines, self._file])


def read_records(outdir: str) -> Any:
    """Return the records of a run as an array of dtype `RECORD`, without an incomplete last record.

    Raises:
        CheckpointError: If the file of records does not exist.
    """
    path = os.path.join(outdir, RECORDS)
    if not os.path.isfile(path):
        raise CheckpointError(outdir, f"contains no trace of a run: it has no file {RECORDS}")
    return np.fromfile(path, RECORD)


def read_tensors(outdir: str) -> dict[int, dict[str, int]]:
    """Return the checksums of tensors, keyed by step and name; empty if the file is missing.

    An incomplete last line is skipped.

    Raises:
        CheckpointError: If a line is not a valid line of a trace.
    """
    return {line["t"]: line["tensors"] for _, line in _lines_of(outdir)}


def _lines_of(outdir: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    path = os.path.join(outdir, TENSORS)
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        while (text := file.readline(_LONGEST_LINE)).endswith(b"\n"):
            try:
                line = json.loads(text)
                is_known = type(line["t"]) is int and isinstance(line["tensors"], dict)
            except (ValueError, KeyError, TypeError, RecursionError):
                is_known = False
            if not is_known:
                raise CheckpointError(path, f"contains a line that is not a line of a trace: {text[:80]!r}")
            yield text, line


def _valid_records(outdir: str, t: int) -> tuple[int, tuple[int, int, int, int]]:
    """Return the number of valid records up to a step, and the checksums of the last of these records.

    Reading stops at a record with step 0, because only a power failure leaves such records. The file may be long.
    Therefore it is read in chunks, and only up to step `t`.
    """
    count, sums = 0, (0, 0, 0, 0)
    with contextlib.suppress(FileNotFoundError), open(os.path.join(outdir, RECORDS), "rb") as file:
        while len(records := np.fromfile(file, RECORD, _MAX_UNWRITTEN // _SIZE)):
            beyond = np.flatnonzero((records["t"] == 0) | (records["t"] > t))
            known = records[: beyond[0]] if len(beyond) else records
            if len(known):
                sums = tuple(known[-1].tolist()[1:])
            count += len(known)
            if len(beyond):
                break
    return count, sums


def _valid_lines(outdir: str, t: int) -> tuple[int, int]:
    """Return the size of the valid lines up to a step. Reading stops at a line that a power failure damaged.

    Returns:
        The size in bytes, and the step of the last valid line, or -1 if no line is valid.
    """
    size, last = 0, -1
    with contextlib.suppress(CheckpointError):
        for text, line in _lines_of(outdir):
            if line["t"] > t:
                break
            size, last = size + len(text), line["t"]
    return size, last
