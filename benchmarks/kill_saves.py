"""Kills a process at random moments while it saves, and counts what cannot be read or is lost afterwards.

    python benchmarks/kill_saves.py --kills 1000 --folder /dev/shm/kills --results benchmarks/results/trust.jsonl

Modes are an agent, an agent that gets a new name each time, a buffer in one file, increments of a buffer, a persistent
buffer (of which each `append` is a save) and checkpoints of a run; see `kill_cases.py`. The process notes the number of
a save in memory that outlives it when it begins and when it has returned. What had returned must be there, and what was
begun is all that may be missing.
`--folder` keeps the files and the count of kills: the same call goes on where it was stopped.
"""

import argparse
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from kill_cases import MODES, Case

KINDS_OF_FAULTS = ("unreadable", "acknowledged lost", "more than one interval lost")
SHORTEST = 0.15  # seconds that a process may live at least, which are many saves if these are fast
BEGUN, RETURNED = range(2)  # places of the numbers of the last such saves, each written by one machine instruction


def save_for_ever(case: Case, number: int, told: memoryview, ready: int) -> None:
    os.write(ready, b"!")
    while True:
        number += 1
        told[BEGUN] = number
        case.save(number)
        told[RETURNED] = number


def kill_once(case: Case, number: int, seconds: float) -> tuple[int, int]:
    """Save in another process for some time, then end it with SIGKILL; returns what it had noted."""
    told = memoryview(mmap.mmap(-1, 16)).cast("q")
    told[BEGUN] = told[RETURNED] = number
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            save_for_ever(case, number, told, writer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the saving process ended by itself")
    return told[BEGUN], told[RETURNED]


class Trials:
    """Kills of one mode, one kind after the other.

    Args:
        mode: A key of `MODES`.
        folder: Where files and progress are.
        seed: What the moments come from.
    """

    def __init__(self, mode: str, folder: Path, seed: int) -> None:
        self.mode, self.folder, self.seed = mode, folder, seed
        self.kinds = list(MODES[mode])
        self.cases, self.last = dict[str, Case](), dict[str, int]()
        self.pace = dict.fromkeys(self.kinds, (0.02, 1))  # seconds, and saves that have returned in them
        self.progress = folder / "progress.json"
        self.state: dict[str, Any] = {"kills": 0, "in a save": 0, "saves": 0, "most files": 0, "seconds": 0.0}
        self.state |= {kind: [] for kind in KINDS_OF_FAULTS}
        if self.progress.exists():
            self.state = json.loads(self.progress.read_text())

    def run(self, kills: int) -> dict[str, Any]:
        """Kill until it has been that many times; returns the counts."""
        while self.state["kills"] < kills:
            start = time.perf_counter()
            self.kill(self.kinds[self.state["kills"] % len(self.kinds)])
            self.state["kills"] += 1
            self.state["seconds"] += time.perf_counter() - start
            self.progress.write_text(json.dumps(self.state))
        counts = {kind: len(self.state[kind]) for kind in KINDS_OF_FAULTS}
        seconds = round(self.state["seconds"], 1)
        return {"script": "kill_saves.py", "mode": self.mode} | self.state | counts | {"seconds": seconds}

    def kill(self, kind: str) -> None:
        folder = self.folder / kind
        if kind not in self.cases:
            folder.mkdir(parents=True, exist_ok=True)
            self.cases[kind] = MODES[self.mode][kind](folder)
            self.last[kind] = self.cases[kind].load()
        case, before, (seconds, saves) = self.cases[kind], self.last[kind], self.pace[kind]
        rng = random.Random(f"{self.seed} {kind} {self.state['kills']}")
        moment = rng.uniform(0, max(3 * seconds / saves, SHORTEST))
        begun, returned = kill_once(case, before, moment)
        self.pace[kind] = seconds + moment, saves + returned - before
        self.state["saves"] += returned - before
        self.state["in a save"] += begun != returned
        self.state["most files"] = max(self.state["most files"], sum(1 for _ in folder.rglob("*")))
        self.last[kind] = self.look(kind, begun, returned)
        if self.last[kind] < 0:
            shutil.rmtree(folder)
            del self.cases[kind]

    def look(self, kind: str, begun: int, returned: int) -> int:
        """The number of the save that is there; -1 if it cannot be read."""
        what = f"kill {self.state['kills']}: {kind}"
        try:
            found = self.cases[kind].load()
        except Exception as error:
            self.state["unreadable"].append(f"{what}: {type(error).__name__}: {error}")
            return -1
        if found < returned:
            self.state["acknowledged lost"].append(f"{what}: save {returned} had returned, {found} is there")
        if not begun - 1 <= found <= begun:
            self.state["more than one interval lost"].append(f"{what}: save {begun} was begun, {found} is there")
        return found


def run(modes: list[str], kills: int, seed: int, folder: Path, results: Path | None) -> bool:
    """Whether all is well in all modes; prints a line for each."""
    well = True
    for mode in modes:
        trials = Trials(mode, folder / mode, seed)
        line = json.dumps(trials.run(kills))
        print(line, flush=True)
        if results is not None:
            with results.open("a") as file:
                file.write(line + "\n")
        for kind in KINDS_OF_FAULTS:
            for fault in trials.state[kind]:
                print(f"{kind}: {fault}")
                well = False
    return well


def table(lines: list[dict[str, Any]]) -> list[str]:
    """A row for each line of the results."""
    columns = ("kills", "in a save", "saves", *KINDS_OF_FAULTS)
    rows = ["| mode | kinds | kills | in a save | saves that had returned | " + " | ".join(KINDS_OF_FAULTS) + " |"]
    rows.append("| --- " * (2 + len(columns)) + "|")
    for line in lines:
        numbers = " | ".join(f"{line[column]:,}" for column in columns)
        rows.append(f"| {line['mode']} | {len(MODES[line['mode']])} | {numbers} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--kills", type=int, default=1000, help="in each mode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where files and counts are kept; by default they are not")
    parser.add_argument("--results", type=Path, help="file that a line of JSON for each mode is appended to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=".") as temporary:
        folder = options.folder or Path(temporary)
        well = run(options.modes, options.kills, options.seed, folder, options.results)
    sys.exit(not well)


if __name__ == "__main__":
    main()
