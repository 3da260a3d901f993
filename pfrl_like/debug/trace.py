"""The trace of a run: checksums of its actions, observations, rewards and losses at every step, to compare two runs.

`trace.bin` has a record of fixed size for every tick of the loop: the step, and four rolling checksums of all actions,
observations, rewards and losses so far. Once two runs differ, all their later records differ, too. `trace.jsonl` has a
line for the start and every checkpoint, with the checksum of every tensor that the agent saves.
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
from pfrl_like.processes.rerun_order import ordered
from pfrl_like.processes.supervisor import close_all
from pfrl_like.runs.checksums import checksums_of, checksums_of_streams
from pfrl_like.runs.loop import Clock
from pfrl_like.storage import AppendedFile, sync_file
from pfrl_like.storage.plain_tensors import checksum

#: Names of the files, and the fields of a record.
RECORDS, TENSORS = "trace.bin", "trace.jsonl"
CHANNELS = ("action", "observation", "reward", "loss")
RECORD = np.dtype([("t", "<u8"), *((channel, "<u4") for channel in CHANNELS)])
_PACK = struct.Struct("<Q4I").pack  # a record
_SIZE = RECORD.itemsize
_NUMBER = struct.Struct("<q")
#: Most steps that wait for their records, and most bytes of records that wait in memory.
_PENDING = 64
_WAITING = 4096 * _SIZE
_LONGEST_LINE = 1 << 26  # bytes


class Trace:
    """A callback of the loop that writes the trace.

    In a program that was started again (see `crash_replay.train_again`), it writes a line about tensors and random
    streams for the start and for every step of an interval, and ends the program after the interval.

    Args:
        source: Source of the loop; its `last` has the observations, actions and rewards of the last tick.
        agent: The agent. Its `trailed`, if it has that attribute, are objects whose `trail` is a hash of their losses;
            the checksums of tensors are of its `state_dict`.
        outdir: Run directory.
        interval: Steps between lines about tensors, in addition to one at the end; None for no such lines in between.
        step_offset: Step at which the run starts; records and lines of an earlier part after it are removed.

    Attributes:
        writes_to: The files of the trace, so that a runner can set how their errors are handled.
    """

    def __init__(self, source: Any, agent: Any, outdir: str, interval: int | None, step_offset: int) -> None:
        self.source, self.agent, self.interval = source, agent, interval
        self._trailed = agent.trailed if hasattr(type(agent), "trailed") else ()
        order = ordered()
        self._order = order if order is not None and order.until else None
        count, self._last = _known_at(outdir, step_offset)
        if order is not None:
            _, self._last = _known_at(order.outdir, step_offset)
        self._records = bytearray()
        self._pending: list[tuple[int, Any, int]] = []  # steps without a record yet
        # A loop over many steps uses the cache better. Vector environments may reuse their arrays: their steps are
        # digested at once.
        self._most = 0 if hasattr(source, "num_envs") or self._order is not None else _PENDING
        size, self._written_at = _lines_up_to(outdir, step_offset)
        self._file = AppendedFile(os.path.join(outdir, RECORDS), keep=_SIZE * count)
        self._lines = AppendedFile(os.path.join(outdir, TENSORS), keep=size, after=self._file)
        self.writes_to = self._file, self._lines
        self._t = self._next = step_offset
        if self._order is not None and not self._order.checkpoint:
            self._look_closely(self._order.since, self._order.until)
        elif step_offset == 0 or self._order is not None:  # the random streams of a checkpoint are restored later
            self.write_tensors()

    def __call__(self, clock: Clock) -> None:  # kept minimal, since it runs at every step
        trail = 0
        for part in self._trailed:
            if part.trail:
                trail, part.trail = hash((trail, part.trail)), 0
        t = clock.t
        self._pending.append((t, self.source.last, trail))
        if t >= self._next:
            self._look(clock)

    def _look(self, clock: Clock) -> None:
        """Write the records and lines that are due, and compute when the next ones are due."""
        t, interval = clock.t, self.interval
        self._digest()
        if len(self._records) >= _WAITING:
            self._write_records()
        if self._order is not None:
            self._look_closely(self._order.since, self._order.until)
        elif interval is not None and t // interval != clock.previous_t // interval:
            self.write_tensors()
        self._next = t + self._most
        if interval is not None:
            self._next = min(self._next, t - t % interval + interval)

    def _look_closely(self, since: int, until: int) -> None:
        """Write a line if this step is in an interval, and end the program at the end of the interval."""
        if self._t >= since:
            self.write_tensors(**checksums_of_streams(self.agent, self.source))
        if self._t >= until:
            raise SystemExit(0)

    def _digest(self) -> None:
        """Compute the records of the steps that wait."""
        done, seen, got, learnt = self._last
        for t, (obs, action, reward), trail in self._pending:
            done, seen, got = checksum(action, done), checksum(obs, seen), checksum(reward, got)
            if trail:
                learnt = zlib.crc32(_NUMBER.pack(trail), learnt)
            self._records += _PACK(t, done, seen, got, learnt)
        if self._pending:
            self._t = self._pending[-1][0]
        self._last = done, seen, got, learnt
        self._pending.clear()

    def _write_records(self) -> None:
        """Write the records of all steps so far."""
        self._digest()
        records, self._records = self._records, bytearray()
        self._file.append(records)

    def write_tensors(self, **more: int) -> None:
        """Write a line with the checksums of the current tensors, after all records before it.

        Args:
            **more: Further checksums by name.
        """
        self._write_records()
        self._lines.append(json.dumps({"t": self._t, "tensors": checksums_of(self.agent) | more}).encode() + b"\n")
        self._written_at = self._t

    def flush(self) -> None:
        """Write everything that waits, and wait until it would survive a power cut.

        Raises:
            CheckpointError: If it cannot be written.
        """
        self._write_records()
        for file in self.writes_to:
            file.flush()
            sync_file(file.path)

    def saved_state(self) -> dict[str, Any]:
        """The checksums so far, the number of records, and the hashes of losses since the last step, as JSON."""
        self._write_records()
        trails = [part.trail for part in self._trailed]
        return {"t": self._t, "records": self._file.size // _SIZE, "sums": [*self._last], "trails": trails}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of `saved_state`, even if the files were lost.

        Raises:
            ValueError: If `state` is no state of a trace.
        """
        try:
            t, sums, trails = int(state["t"]), [int(each) for each in state["sums"]], [*map(int, state["trails"])]
            size = int(state["records"]) * _SIZE
            _PACK(t, *sums)
            if len(trails) != len(self._trailed):
                raise ValueError(f"the agent has {len(self._trailed)} losses, expected {len(trails)}")
        except (KeyError, TypeError, ValueError, struct.error) as error:
            raise ValueError(f"it is no state of a trace: {error!r:.200}") from error
        self._last = sums[0], sums[1], sums[2], sums[3]
        if self._file.size > size >= 0:  # records of later ticks without a step
            self._file.cut(size)
        for part, trail in zip(self._trailed, trails, strict=True):
            part.trail = trail

    def close(self) -> None:
        """Write everything that waits, with a last line about tensors, and close the files."""
        try:
            self._digest()
            if self._written_at != self._t:
                self.write_tensors()
        finally:
            self._write_records()
            close_all([self._lines, self._file])


def read_records(outdir: str) -> Any:
    """The records of a run, an array of dtype `RECORD`; an incomplete last one is left out.

    Raises:
        CheckpointError: If there is no file of records.
    """
    path = os.path.join(outdir, RECORDS)
    if not os.path.isfile(path):
        raise CheckpointError(outdir, f"holds no trace of a run: there is no {RECORDS} in it")
    return np.fromfile(path, RECORD)


def read_tensors(outdir: str) -> list[dict[str, Any]]:
    """The lines about tensors of a run, without an incomplete last one; empty if there is no file.

    Raises:
        CheckpointError: If the file has another line.
    """
    return [line for _, line in _lines_of(outdir)]


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
                raise CheckpointError(path, f"holds a line that is none of a trace: {text[:80]!r}")
            yield text, line


def _known_at(outdir: str, t: int) -> tuple[int, tuple[int, int, int, int]]:
    """Number of valid records up to a step, and the checksums of the last of them.

    A record of step 0 has been damaged by a power cut; reading stops there. The file, which may be long, is read in
    pieces, and not beyond step `t`.
    """
    count, sums = 0, (0, 0, 0, 0)
    with contextlib.suppress(FileNotFoundError), open(os.path.join(outdir, RECORDS), "rb") as file:
        while len(records := np.fromfile(file, RECORD, _WAITING // _SIZE)):
            beyond = np.flatnonzero((records["t"] == 0) | (records["t"] > t))
            known = records[: beyond[0]] if len(beyond) else records
            if len(known):
                sums = tuple(known[-1].tolist()[1:])
            count += len(known)
            if len(beyond):
                break
    return count, sums


def _lines_up_to(outdir: str, t: int) -> tuple[int, int]:
    """Size of the valid lines about tensors up to a step; reading stops at a line damaged by a power cut.

    Returns:
        The size in bytes, and the step of the last such line, -1 if there is none.
    """
    size, last = 0, -1
    with contextlib.suppress(CheckpointError):
        for text, line in _lines_of(outdir):
            if line["t"] > t:
                break
            size, last = size + len(text), line["t"]
    return size, last
