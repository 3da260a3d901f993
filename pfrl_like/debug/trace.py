"""The trace of a run: what it saw, did, got and learnt at every step as numbers that tell two runs apart.

`trace.bin` has a record of one size for every tick of the loop: the step, and four rolling checksums, of actions,
observations, rewards and losses so far. Once two runs differ, so do all their later records. `trace.jsonl` has a line
for the start and every checkpoint, with the checksum of every tensor that the agent saves.
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

#: Its files, and what a record says.
RECORDS, TENSORS = "trace.bin", "trace.jsonl"
CHANNELS = ("action", "observation", "reward", "loss")
RECORD = np.dtype([("t", "<u8"), *((channel, "<u4") for channel in CHANNELS)])
_PACK = struct.Struct("<Q4I").pack  # a record
_SIZE = RECORD.itemsize
_NUMBER = struct.Struct("<q")
#: Steps that wait for their records, and bytes of records that wait in memory.
_PENDING = 64
_WAITING = 4096 * _SIZE
_LONGEST_LINE = 1 << 26  # bytes


class Trace:
    """A callback of the loop that keeps the trace.

    In a program that was started again for a closer look (see `crash_replay.train_again`) there is a line about tensors
    and random streams for the start and every step, and the program ends where it was told to.

    Args:
        source: Its `last` is what came of the last tick: observations, actions, rewards.
        agent: `trailed`, if it has that, are parts whose `trail` is a number that their losses have gone into; its
            `state_dict` is what is learnt.
        outdir: Run directory.
        interval: Steps between lines about tensors, beside one at the end; None for none.
        step_offset: Step at which the run starts: what an earlier part left beyond it is cut off.

    Attributes:
        writes_to: Its files, so that a runner can say what becomes of a failure.
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
        self._pending: list[tuple[int, Any, int]] = []  # steps of which there is no record yet
        # A loop over many steps finds in the cache what it needs. Several environments may reuse their arrays.
        self._most = 0 if hasattr(source, "num_envs") or self._order is not None else _PENDING
        size, self._written_at = _lines_up_to(outdir, step_offset)
        self._file = AppendedFile(os.path.join(outdir, RECORDS), keep=_SIZE * count)
        self._lines = AppendedFile(os.path.join(outdir, TENSORS), keep=size, after=self._file)
        self.writes_to = self._file, self._lines
        self._t = self._next = step_offset
        if self._order is not None and not self._order.checkpoint:
            self._look_closely(self._order.since, self._order.until)
        elif step_offset == 0 or self._order is not None:  # the random streams of a checkpoint come later
            self.write_tensors()

    def __call__(self, clock: Clock) -> None:  # as little as can be: it comes at every step
        trail = 0
        for part in self._trailed:
            if part.trail:
                trail, part.trail = hash((trail, part.trail)), 0
        t = clock.t
        self._pending.append((t, self.source.last, trail))
        if t >= self._next:
            self._look(clock)

    def _look(self, clock: Clock) -> None:
        """Do what is due now, and find out when something will be due again."""
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
        """Write a line about each step of an interval, and end the program after it."""
        if self._t >= since:
            self.write_tensors(**checksums_of_streams(self.agent, self.source))
        if self._t >= until:
            raise SystemExit(0)

    def _digest(self) -> None:
        """Make records of the steps that wait."""
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
        """Write a line about the tensors as they are now, and all records before it.

        Args:
            **more: Further checksums.
        """
        self._write_records()
        self._lines.append(json.dumps({"t": self._t, "tensors": checksums_of(self.agent) | more}).encode() + b"\n")
        self._written_at = self._t

    def flush(self) -> None:
        """Write what is left, and wait until all of it would survive a power cut.

        Raises:
            CheckpointError: If that cannot be.
        """
        self._write_records()
        for file in self.writes_to:
            file.flush()
            sync_file(file.path)

    def saved_state(self) -> dict[str, Any]:
        """The checksums so far, of how many records, and what losses since the last step have gone into."""
        self._write_records()
        trails = [part.trail for part in self._trailed]
        return {"t": self._t, "records": self._file.size // _SIZE, "sums": [*self._last], "trails": trails}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from the checksums that `saved_state` gave, also where the files were lost.

        Raises:
            ValueError: If it comes from something else.
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
        if self._file.size > size >= 0:  # of ticks that made no step
            self._file.cut(size)
        for part, trail in zip(self._trailed, trails, strict=True):
            part.trail = trail

    def close(self) -> None:
        """Write what is left."""
        try:
            self._digest()
            if self._written_at != self._t:
                self.write_tensors()
        finally:
            self._write_records()
            close_all([self._lines, self._file])


def read_records(outdir: str) -> Any:
    """The records of a run, an array of `RECORD`; a torn last one is left out.

    Raises:
        CheckpointError: If there is no file of them.
    """
    path = os.path.join(outdir, RECORDS)
    if not os.path.isfile(path):
        raise CheckpointError(outdir, f"holds no trace of a run: there is no {RECORDS} in it")
    return np.fromfile(path, RECORD)


def read_tensors(outdir: str) -> list[dict[str, Any]]:
    """The lines about tensors of a run; a torn last one is left out, and without a file there is none.

    Raises:
        CheckpointError: If the file holds something else.
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
    """How many records are of steps up to one, up to the first that a power cut has spoilt; and the last checksums.

    No step is 0. The file, which may be long, is read in pieces, and not beyond that step.
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
    """How many bytes of the lines about tensors, up to the first that a power cut has spoilt, are of such steps.

    Returns:
        Their number, and the step of the last such line; -1 if there is none.
    """
    size, last = 0, -1
    with contextlib.suppress(CheckpointError):
        for text, line in _lines_of(outdir):
            if line["t"] > t:
                break
            size, last = size + len(text), line["t"]
    return size, last
