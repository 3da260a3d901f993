"""What it costs to keep a replay buffer on disk: `sample_batch(32)` and `append` beside the buffer in memory.

    python benchmarks/persistent_speed.py --results benchmarks/results/persistent_speed.jsonl

Both buffers hold the same transitions and are sampled in turn, in one process with one thread. A line for 17 + 6 floats
and one for stacks of four 84x84 frames have the rates of every round, microseconds of the processor an `append`, and
the bytes on disk.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measurement_lock import measuring

from pfrl_like.replay_buffers import PersistentReplayBuffer, ReplayBuffer

ROUNDS = 30
SECONDS = 0.15  # for each buffer and round


def fill_floats(buffer: Any, steps: int) -> None:
    rng = np.random.default_rng(0)
    obs = rng.standard_normal(17, np.float32)
    for step in range(steps):
        next_obs, action = rng.standard_normal(17, np.float32), rng.standard_normal(6, np.float32)
        buffer.append(obs, action, 1.0, next_obs, is_state_terminal=step % 1_000 == 999)
        obs = next_obs


def fill_frames(buffer: Any, steps: int) -> None:
    rng = np.random.default_rng(0)
    frames = list(rng.integers(0, 256, (4, 84, 84), np.uint8))
    obs = np.stack(frames)
    for step in range(steps):
        frames = [*frames[1:], rng.integers(0, 256, (84, 84), np.uint8)]
        next_obs = np.stack(frames)
        buffer.append(obs, step % 4, 1.0, next_obs, is_state_terminal=step % 1_000 == 999)
        obs = next_obs


def rate(buffer: Any) -> float:
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS:
        buffer.sample_batch(32, 0.99)
        calls += 1
    return calls / elapsed


@measuring()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="file that the lines of JSON are appended to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, fill, steps in (("17 + 6 floats", fill_floats, 100_000), ("84x84x4 frames", fill_frames, 20_000)):
        with tempfile.TemporaryDirectory(dir=".") as folder, PersistentReplayBuffer(folder, steps) as mapped:
            memory = ReplayBuffer(steps)
            append = []
            for buffer in (memory, mapped):
                start = time.process_time()
                fill(buffer, steps)
                append.append(1e6 * (time.process_time() - start) / steps)
            rates = [(rate(memory), rate(mapped)) for _ in range(ROUNDS)]
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
        in_memory, on_disk = zip(*rates, strict=True)
        line = json.dumps({
            "case": name, "batches/s on disk": [round(each) for each in on_disk],
            "batches/s in memory": [round(each) for each in in_memory], "cpu us an append on disk": round(append[1], 1),
            "cpu us an append in memory": round(append[0], 1), "bytes a transition on disk": round(size / steps),
        })  # fmt: skip
        print(line, flush=True)
        if options.results is not None:
            with options.results.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
