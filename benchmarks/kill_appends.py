"""Kills a process at random moments while it appends to persistent buffers, and counts what is lost afterwards.

    python benchmarks/kill_appends.py --kills 1000

Every number in step n is made of n. The process notes n in memory that outlives it when `append` has returned; whoever
opens the directory afterwards must find step n, no gap, and no wrong number. Prints a line and exits with an error if
anything was lost, wrong or unreadable. `--folder` keeps the directories and the count of kills: the same call goes on
where it was stopped.
"""

import argparse
import json
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pfrl_like.replay_buffers import PersistentEpisodicReplayBuffer, PersistentReplayBuffer

CAPACITY = 400
EPISODE = 7


def open_buffer(folder: Path, kind: str) -> Any:
    # Short journals, so that kills hit the beginnings of new ones as well.
    options: dict[str, Any] = {"journal_length": 150, "sync_every": 40}
    if kind == "episodic":
        return PersistentEpisodicReplayBuffer(folder / kind, CAPACITY, **options)
    return PersistentReplayBuffer(folder / kind, CAPACITY, num_steps=3 if kind == "3-step" else 1, **options)


def observation(n: int, kind: str) -> np.ndarray:
    if kind == "frames":
        return np.stack([np.full((16, 16), (n + back) % 251, np.uint8) for back in range(4)])
    return np.full(5, n, np.float32)


def append_for_ever(folder: Path, kind: str, done: mmap.mmap, number: int) -> None:
    with open_buffer(folder, kind) as buffer:
        while True:
            number += 1
            ends = number % EPISODE == 0
            extra = {"note": np.full(3, number, np.int32)}
            obs, next_obs = observation(number, kind), observation(number + 1, kind)
            buffer.append(obs, np.int64(number), float(number), next_obs, is_state_terminal=ends, **extra)
            done[:8] = struct.pack("<q", number)


def check(folder: Path, kind: str, acknowledged: int) -> int:
    """The number of the last step that the directory holds; running episodes count."""
    with open_buffer(folder, kind) as buffer:
        waiting = [row for run in buffer._columns.running.values() for row in run.waiting]
        rows = buffer._rows(np.arange(buffer._first, buffer._next))
        steps = buffer._columns.transitions(np.concatenate([rows, np.array(waiting, np.int64)]))
        kept = len(buffer)
    numbers = [int(step["reward"]) for step in steps]
    for n, step in zip(numbers, steps, strict=True):
        whole = step["action"] == n and (step["note"] == n).all() and step["is_state_terminal"] == (n % EPISODE == 0)
        same = (step["state"] == observation(n, kind)).all() and (step["next_state"] == observation(n + 1, kind)).all()
        if not (whole and same):
            raise ValueError(f"step {n} is wrong: {step}")
    last = numbers[-1] if numbers else 0
    if last < acknowledged:
        raise ValueError(f"step {acknowledged} was acknowledged, the last one held is {last}")
    if numbers != list(range(last - len(numbers) + 1, last + 1)):
        raise ValueError(f"there are gaps: {numbers}")
    least = min(last, CAPACITY) - (EPISODE if kind == "episodic" else 3)
    if kept < least:
        raise ValueError(f"{kept} items are held, expected at least {least}")
    return last


def kill_once(folder: Path, kind: str, number: int, seconds: float) -> int:
    """Append in another process for some time, end it with SIGKILL; returns what it had acknowledged."""
    done = mmap.mmap(-1, 8)
    done[:8] = struct.pack("<q", number)
    child = os.fork()
    if child == 0:
        try:
            append_for_ever(folder, kind, done, number)
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the appending process ended by itself")
    acknowledged: int = struct.unpack("<q", done[:8])[0]
    return acknowledged


def run(kills: int, seed: int, folder: Path) -> list[str]:
    """Kill until it has been that many times; returns what went wrong."""
    progress = folder / "progress.json"
    kinds = ("uniform", "3-step", "frames", "episodic")
    state: dict[str, Any] = {"kills": 0, "faults": [], "last": dict.fromkeys(kinds, 0)}
    if progress.exists():
        state = json.loads(progress.read_text())
    while state["kills"] < kills:
        rng = random.Random(f"{seed} {state['kills']}")
        kind = kinds[state["kills"] % len(kinds)]
        acknowledged = kill_once(folder, kind, state["last"][kind], rng.uniform(0.02, 0.3))
        state["kills"] += 1
        try:
            state["last"][kind] = check(folder, kind, acknowledged)
        except Exception as error:
            state["faults"].append(f"kill {state['kills']}: {kind}: {type(error).__name__}: {error}")
            state["last"][kind] = acknowledged
        progress.write_text(json.dumps(state))
    total = sum(state["last"].values())
    print(f"{kills} kills, {total} appends acknowledged: {len(state['faults'])} faults")
    faults: list[str] = state["faults"]
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        faults = run(arguments.kills, arguments.seed, arguments.folder)
    else:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            faults = run(arguments.kills, arguments.seed, Path(folder))
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
