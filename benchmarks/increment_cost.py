"""What saving a replay buffer in a checkpoint costs: whole, and what is new since the checkpoint before.

    python benchmarks/increment_cost.py --steps 1000000 --new 10000 --results benchmarks/results/trust.jsonl

The buffer holds stacks of four 84x84 frames, prioritised, as of an Atari game. Prints seconds and megabytes of the
first save, of some after so many new steps, and seconds of a plain write with fsync of as many bytes. A million steps
take 8 GB of memory, and twice as much of the disk.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measurement_lock import measuring

from pfrl_like.replay_buffers import PrioritizedReplayBuffer, prune


def feed(buffer: Any, frames: Iterator[Any], stack: list[Any], steps: int) -> None:
    for step in range(steps):
        obs = np.stack(stack)
        stack[:] = [*stack[1:], next(frames)]
        buffer.append(obs, step % 4, 1.0, np.stack(stack), is_state_terminal=step % 1_000 == 999)


def noise() -> Iterator[Any]:
    rng = np.random.default_rng(0)
    while True:
        yield from rng.integers(0, 256, (500, 84, 84), np.uint8)


def timed(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, seconds of the processor, and what a function gives."""
    start, cpu = time.perf_counter(), time.process_time()
    value = function()
    return time.perf_counter() - start, time.process_time() - cpu, value


def write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()


def tell(row: dict[str, Any], results: Path | None) -> None:
    line = json.dumps({"script": Path(__file__).name} | row)
    print(line, flush=True)
    if results is not None:
        with results.open("a") as file:
            file.write(line + "\n")


@measuring()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=10_000)
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--results", type=Path, help="file that the lines of JSON are appended to")
    options = parser.parse_args()
    buffer, frames = PrioritizedReplayBuffer(options.steps), noise()
    stack = [next(frames) for _ in range(4)]
    feed(buffer, frames, stack, options.steps)
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder, reference = Path(name), None
        for save in range(options.saves + 1):
            before = {path.name for path in folder.iterdir()}
            seconds, cpu, reference = timed(lambda reference=reference: buffer.save_increment(folder, reference))
            size = sum(path.stat().st_size for path in folder.iterdir() if path.name not in before)
            disk = timed(lambda size=size: write(folder / "plain", size))[0]
            prune(folder, [reference])
            row = {"steps": options.steps, "save": save, "seconds": round(seconds, 2), "cpu": round(cpu, 2)}
            tell({**row, "MB": round(size / 1e6, 1), "plain write": round(disk, 2)}, options.results)
            feed(buffer, frames, stack, options.new)
        buffer = PrioritizedReplayBuffer(options.steps)  # in the place of the one that was saved
        seconds, cpu, _ = timed(lambda: buffer.load_increment(folder, reference))
        row = {"steps": options.steps, "load": round(seconds, 2), "cpu": round(cpu, 2), "items": len(buffer)}
        tell(row, options.results)


if __name__ == "__main__":
    main()
