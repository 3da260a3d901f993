"""What it costs to keep a replay buffer on disk: `sample_batch(32)` and `append` beside the buffer in memory.

    python benchmarks/persistent_speed.py

Both buffers hold the same transitions and are sampled in turn, in one process with one thread; prints for 17 + 6 floats
and for stacks of four 84x84 frames the ratio of the medians, microseconds an `append`, and the bytes on disk.
"""

import statistics
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
    torch.set_num_threads(1)
    for name, fill, steps in (("17 + 6 floats", fill_floats, 100_000), ("84x84x4 frames", fill_frames, 20_000)):
        with tempfile.TemporaryDirectory(dir=".") as folder, PersistentReplayBuffer(folder, steps) as mapped:
            memory = ReplayBuffer(steps)
            append = []
            for buffer in (memory, mapped):
                start = time.perf_counter()
                fill(buffer, steps)
                append.append(1e6 * (time.perf_counter() - start) / steps)
            rates = [(rate(memory), rate(mapped)) for _ in range(ROUNDS)]
            in_memory, on_disk = (statistics.median(column) for column in zip(*rates, strict=True))
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(
            f"{name}: {on_disk:.0f} batches/s, {in_memory:.0f} in memory, ratio {on_disk / in_memory:.2f}; append "
            f"{append[1]:.0f} us, {append[0]:.0f} in memory; {size / steps:.0f} bytes a transition on disk"
        )


if __name__ == "__main__":
    main()
