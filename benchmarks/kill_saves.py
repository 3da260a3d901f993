"""Kills a process at random moments while it saves an agent and a buffer, and counts what cannot be read afterwards.

    python benchmarks/kill_saves.py --kills 200

A save of number n fills every tensor, the optimiser's state, the counter and the buffer with n, so that a mixture of
two saves shows. Prints a line and exits with an error if anything was unreadable, mixed, or older than the save before.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.storage import read_arrays, write_arrays


class Counter(AttributeSavingMixin):
    """An agent all of whose numbers are one number."""

    saved_attributes = ("model", "target_model", "optimizer")

    def __init__(self, number: int) -> None:
        self.model, self.target_model = (
            torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 2)) for _ in range(2)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
        for parameter in self.model.parameters():
            self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.fill(number)

    def tensors(self) -> list[torch.Tensor]:
        """Everything that is saved, but for the counter."""
        momentum = [state["momentum_buffer"] for state in self.optimizer.state.values()]
        return [*self.model.state_dict().values(), *self.target_model.state_dict().values(), *momentum]

    def fill(self, number: int) -> None:
        self.t = number
        for tensor in self.tensors():
            tensor.fill_(number)

    def saved_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.t = state["t"]


def save_for_ever(folder: Path, number: int) -> None:
    agent = Counter(number)
    while True:
        agent.fill(number)
        agent.save(folder / "agent")
        write_arrays(folder / "buffer", {"n": number}, {"x": np.full(20_000, number), "y": np.full(100, number)})
        number += 1


def read_agent(folder: Path) -> int:
    agent = Counter(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a directory that needs the save before is not what is promised
        agent.load(folder / "agent")
    if not all((tensor == agent.t).all() for tensor in agent.tensors()):
        raise ValueError("the agent is a mixture of two saves")
    for name in ("model", "target_model", "optimizer"):
        copy = folder / "agent" / f"{name}.pt"
        if copy.exists():  # PFRL's names: not of the same save as each other, but whole
            torch.load(copy, weights_only=True)
    return agent.t


def read_buffer(folder: Path) -> int:
    header, arrays = read_arrays(folder / "buffer")
    number: int = header["n"]
    if not all((array == number).all() for array in arrays.values()):
        raise ValueError("the buffer is a mixture of two saves")
    return number


def kill_once(folder: Path, number: int, seconds: float) -> None:
    """Save in another process for some time, then end it with SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            save_for_ever(folder, number)
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the saving process ended by itself")


def run(kills: int, seed: int, folder: Path) -> list[str]:
    """Kill that many times; returns what went wrong."""
    rng = random.Random(seed)
    faults: list[str] = []
    Counter(0).save(folder / "agent")
    start = time.perf_counter()
    for _ in range(5):
        Counter(0).save(folder / "agent")
        write_arrays(folder / "buffer", {"n": 0}, {"x": np.zeros(20_000), "y": np.zeros(100)})
    seconds = (time.perf_counter() - start) / 5
    last = {"agent": 0, "buffer": 0}
    in_the_middle = 0
    for kill in range(kills):
        left = set(folder.rglob(".tmp-*"))
        kill_once(folder, max(last.values()) + 1, rng.uniform(0.5, 3.5) * seconds)
        in_the_middle += not left.issuperset(folder.rglob(".tmp-*"))
        for name, read in (("agent", read_agent), ("buffer", read_buffer)):
            try:
                number = read(folder)
            except Exception as error:
                faults.append(f"kill {kill}: {name}: {type(error).__name__}: {error}")
                continue
            if number < last[name]:
                faults.append(f"kill {kill}: {name}: save {number} after save {last[name]}")
            last[name] = number
    print(
        f"{kills} kills, {in_the_middle} of them while a file was being written, {last['agent']} saves of "
        f"{1000 * seconds:.1f} ms (agent and buffer): {len(faults)} unreadable"
    )
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        faults = run(arguments.kills, arguments.seed, Path(folder))
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
