"""The trace of a run: what it saw, did, got and learnt at every step as numbers that tell two runs apart.

`trace.bin` has a record of one size for every tick of the loop: the step, and four rolling checksums, of actions,
observations, rewards and losses so far. Once two runs differ, so do all their later records. `trace.jsonl` has a line
for every checkpoint, with the checksum of every tensor that the agent saves.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from pfrl_like.experiments.loop import Clock
from pfrl_like.utils.isolated_rng import isolated_rng

#: Its files, and what a record says.
RECORDS, TENSORS = "trace.bin", "trace.jsonl"
CHANNELS = ("action", "observation", "reward", "loss")
RECORD = np.dtype([("t", "<u8"), *((channel, "<u4") for channel in CHANNELS)])
_PACK = struct.Struct("<Q4I").pack  # a record
_SIZE = RECORD.itemsize
_DOUBLE, _NUMBER = struct.Struct("<d"), struct.Struct("<q")
#: Steps that wait for their records, and bytes of records that wait in memory.
_PENDING = 64
_WAITING = 4096 * _SIZE


class Trace:
    """A callback of the loop that keeps the trace.

    Args:
        source: Its `last` is what came of the last tick: observations, actions, rewards.
        agent: Its `take_trail()`, if any, gives a number that all losses since have gone into; its `state_dict` what is
            learnt.
        outdir: Run directory.
        interval: Steps between lines about tensors, beside one at the end; None for none.
        step_offset: Step at which the run starts: what an earlier part left beyond it is cut off.
    """

    def __init__(self, source: Any, agent: Any, outdir: str, interval: int | None, step_offset: int) -> None:
        self.source, self.agent, self.interval = source, agent, interval
        self._has_trail = hasattr(agent, "take_trail")
        kept = read_records(outdir)
        kept = kept[kept["t"] <= step_offset] if step_offset else kept[:0]
        lines = [line for line in read_tensors(outdir) if line["t"] <= step_offset] if step_offset else []
        self._last: tuple[int, int, int, int] = kept[-1].tolist()[1:] if len(kept) else (0, 0, 0, 0)
        self._records = bytearray()
        self._pending: list[tuple[int, Any, int]] = []  # steps of which there is no record yet
        # A loop over many steps finds in the cache what it needs. Several environments may reuse their arrays.
        self._most = 1 if hasattr(source, "num_envs") else _PENDING
        self._file = open(os.path.join(outdir, RECORDS), "wb")  # noqa: SIM115 (closed by close)
        self._file.write(kept.tobytes())
        self._lines = open(os.path.join(outdir, TENSORS), "w", encoding="utf-8")  # noqa: SIM115
        self._lines.writelines(json.dumps(line) + "\n" for line in lines)
        self._written_at = self._t = step_offset

    def __call__(self, clock: Clock) -> None:
        self._t = t = clock.t
        self._pending.append((t, self.source.last, self.agent.take_trail() if self._has_trail else 0))
        if len(self._pending) >= self._most:
            self._digest()
        if self.interval is not None and t // self.interval != clock.previous_t // self.interval:
            self.write_tensors()

    def _digest(self) -> None:
        """Make records of the steps that wait."""
        done, seen, got, learnt = self._last
        for t, (obs, action, reward), trail in self._pending:
            done, seen, got = checksum(action, done), checksum(obs, seen), checksum(reward, got)
            if trail:
                learnt = zlib.crc32(_NUMBER.pack(trail), learnt)
            self._records += _PACK(t, done, seen, got, learnt)
        self._last = done, seen, got, learnt
        self._pending.clear()
        if len(self._records) >= _WAITING:
            self._write_records()

    def _write_records(self) -> None:
        self._file.write(self._records)
        self._file.flush()
        self._records.clear()

    def write_tensors(self) -> None:
        """Write a line about the tensors as they are now, and all records before it."""
        self.flush()
        self._lines.write(json.dumps({"t": self._t, "tensors": checksums_of(self.agent)}) + "\n")
        self._lines.flush()
        self._written_at = self._t

    def flush(self) -> None:
        """Hand the records to the system, which keeps them if the process ends now."""
        self._digest()
        self._write_records()

    def close(self) -> None:
        """Write what is left."""
        try:
            if self._written_at != self._t:
                self.write_tensors()
        finally:
            self.flush()
            self._file.close()
            self._lines.close()


def checksum(value: Any, start: int) -> int:
    """The CRC-32 of an observation, action or reward, going on from another; of stacked frames that of the newest."""
    if type(value) is float:
        value = _DOUBLE.pack(value)
    elif type(value) is int:
        value = b"%d" % value
    try:
        return zlib.crc32(value, start)  # of arrays, and NumPy's numbers
    except (TypeError, ValueError, BufferError):
        return _checksum_of_others(value, start)


def _checksum_of_others(value: Any, start: int) -> int:
    if isinstance(value, Mapping):
        value = [item for pair in value.items() for item in pair]
    frames = getattr(value, "_frames", None)
    if frames is not None:
        value = frames[-1]
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            return start  # nobody waits for a GPU
        whole = value.detach().clone(memory_format=torch.contiguous_format)  # one number may have any stride
        value = whole.reshape(-1).view(torch.uint8).numpy() if value.numel() else ()
    if isinstance(value, list | tuple):
        for item in value:
            start = checksum(item, start)
        return start
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        return zlib.crc32(np.ascontiguousarray(value).data, start)
    return zlib.crc32(repr(value).encode(), start)


def checksums_of(agent: Any) -> dict[str, int]:
    """The checksum of everything that an agent saves, by name; empty for one without `state_dict`."""
    if not hasattr(agent, "state_dict"):
        return {}
    with isolated_rng():
        state = agent.state_dict()
    return {name: checksum(value, 0) for name, value in _leaves("", state.get("attributes", state))}


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield name, value.cpu() if isinstance(value, torch.Tensor) else value
        return
    for key, item in items:
        yield from _leaves(f"{name}.{key}" if name else str(key), item)


def read_records(outdir: str) -> Any:
    """The records of a run, an array of `RECORD`; a torn last one is left out, and without a file there is none."""
    try:
        with open(os.path.join(outdir, RECORDS), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return np.zeros(0, RECORD)
    return np.frombuffer(content, RECORD, count=len(content) // RECORD.itemsize)


def read_tensors(outdir: str) -> list[dict[str, Any]]:
    """The lines about tensors of a run; a torn last one is left out, and without a file there is none."""
    try:
        with open(os.path.join(outdir, TENSORS), encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]
