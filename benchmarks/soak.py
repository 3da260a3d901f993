"""What memory grows by while a full replay buffer goes on: bytes for each append beyond its capacity.

    python benchmarks/soak.py --appends 5000000 --results benchmarks/results/trust.jsonl

Each kind of buffer is a process of its own. It is filled twice over, so that all arrays have their size; the growth of
the resident memory and of what Python has allocated (`tracemalloc`, over a part of the appends) is then that of so many
appends, with a draw each 64.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pfrl_like.replay_buffers import (
    EpisodicReplayBuffer,
    HindsightReplayBuffer,
    PersistentReplayBuffer,
    PrioritizedEpisodicReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
)

CAPACITY = 10_000
EPISODE = 50
LIMIT = 1.0  # bytes for each append
TRACED = 10  # one in so many appends is traced, which slows it down


def distance(achieved: Any, desired: Any, info: Any) -> Any:
    return -np.abs(achieved - desired)[..., 0]


def plain(step: int) -> Any:
    return np.array([step, step + 1.0], np.float32)


def goal(step: int) -> Any:
    return {"observation": plain(step), "achieved_goal": plain(step), "desired_goal": plain(-step)}


def stack(step: int) -> Any:
    return np.stack([np.full((16, 16), (step + back) % 251, np.uint8) for back in range(4)])


KINDS: dict[str, tuple[Callable[[str], Any], Callable[[int], Any]]] = {
    "uniform": (lambda folder: ReplayBuffer(CAPACITY), plain),
    "3-step": (lambda folder: ReplayBuffer(CAPACITY, 3), plain),
    "stacked frames": (lambda folder: ReplayBuffer(CAPACITY), stack),
    "prioritised": (lambda folder: PrioritizedReplayBuffer(CAPACITY), plain),
    "episodic": (lambda folder: EpisodicReplayBuffer(CAPACITY), plain),
    "prioritised episodic": (lambda folder: PrioritizedEpisodicReplayBuffer(CAPACITY), plain),
    "hindsight": (lambda folder: HindsightReplayBuffer(CAPACITY, distance), goal),
    "persistent": (lambda folder: PersistentReplayBuffer(folder, CAPACITY), plain),
}


def go_on(buffer: Any, obs: Callable[[int], Any], steps: range) -> None:
    for step in steps:
        buffer.append(obs(step), 1, 1.0, obs(step + 1))
        if step % EPISODE == EPISODE - 1:
            buffer.stop_current_episode()
        if step % 64 == 0 and len(buffer) >= 10 * EPISODE:
            if isinstance(buffer, PrioritizedEpisodicReplayBuffer):
                buffer.update_priorities(buffer.sample_sequences(4, 8).index, np.ones(4))
                continue
            batch = buffer.sample_batch(32)
            if buffer.prioritized:
                buffer.update_priorities(batch.index, np.ones(32))


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(kind: str, appends: int) -> dict[str, Any]:
    make, obs = KINDS[kind]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        buffer = make(folder)
        go_on(buffer, obs, range(2 * CAPACITY))
        before, traced = resident(), appends // TRACED
        go_on(buffer, obs, range(2 * CAPACITY, 2 * CAPACITY + appends - traced))
        grown = resident() - before
        tracemalloc.start()
        go_on(buffer, obs, range(appends, appends + 2 * CAPACITY))  # what is replaced is known to it from here on
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        go_on(buffer, obs, range(appends, appends + traced))
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0] - start
        on_disk = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "script": "soak.py",
        "kind": kind,
        "capacity": CAPACITY,
        "appends": appends,
        "resident bytes an append": round(grown / (appends - traced), 4),
        "allocated bytes an append": round(allocated / traced, 4),
        "bytes on disk": on_disk,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--appends", type=int, default=5_000_000)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--results", type=Path, help="file that a line of JSON for each kind is appended to")
    parser.add_argument("--here", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.kinds[0], options.appends)))
        return
    too_much = []
    for kind in options.kinds:
        command = [sys.executable, __file__, "--here", "--kinds", kind, "--appends", str(options.appends)]
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        print(line, end="", flush=True)
        if options.results is not None:
            with options.results.open("a") as file:
                file.write(line)
        fields = json.loads(line)
        if max(fields["resident bytes an append"], fields["allocated bytes an append"]) >= LIMIT:
            too_much.append(kind)
    if too_much:
        sys.exit(f"{', '.join(too_much)}: {LIMIT} bytes an append or more")


if __name__ == "__main__":
    main()
