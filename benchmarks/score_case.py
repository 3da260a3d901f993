"""One training of `missing_scores.py`, in a process group of its own that begins at the lowest priority.

Writes a line of JSON as `line.json` into its folder, with an "error" if training failed. Resumes from what an earlier
process left there. Saves the run and ends if its standard input is closed, as it is when whoever started it dies.
"""

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import make_offline_datasets
import offline_scores
import preset_scores
import scores
import torch
from offline_tasks.settings import ALGORITHMS
from score_tasks import change

from pfrl_like.storage import atomic_write


def end_with_parent() -> None:
    """Send SIGTERM to the process group once standard input is closed."""
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGTERM)


def score_line(task: str, agent: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """The line of a row of `scores.py`."""
    row = {"task": task, "agent": agent, "seed": seed, "settings": scores.fingerprint(task, agent)}
    return scores.attempt(
        lambda: scores.run((task, agent, seed), args.folder / "run", args.checkpoint_freq),
        lambda: row | scores.provenance(),
    )


def offline_line(job: offline_scores.Job, args: argparse.Namespace) -> dict[str, Any]:
    """The line of one library's half of a pair of `offline_scores.py`."""
    pythons = {"pfrl_like": sys.executable, "d3rlpy": args.peer_python}
    dataset = offline_scores.dataset_of(job.dataset, args.data)
    return scores.attempt(
        lambda: offline_scores.run(job, pythons, args.data, args.changes, args.folder, args.checkpoint_freq),
        lambda: job._asdict() | offline_scores.metadata_of(job, dataset, args.changes, {}),
    )


def fingerprints() -> dict[str, Any]:
    """The commit of the library, and of every row the fingerprint of its settings."""
    rows = {
        f"{task} {name}": scores.fingerprint(task, name) for task, own in scores.TASKS.items() for name in own.agents
    }
    offline = {name: offline_scores.fingerprint(name, {}) for name in ALGORITHMS}
    return {"commit": scores.provenance()["commit"], "settings": rows | offline}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "scores", "presets", "offline", "data"])
    row = "task and agent; agent and environment; dataset, algorithm and library; or the task of a set"
    parser.add_argument("row", nargs="*", help=row)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--changes", type=json.loads, default={}, help="of settings, as JSON, for a trial")
    parser.add_argument("--trial", help="of a preset, the name of its trial")
    parser.add_argument("--folder", type=Path, help="where the run and its line go")
    parser.add_argument("--checkpoint-freq", type=int, help="steps between checkpoints")
    parser.add_argument("--peer-python", help="interpreter that has d3rlpy installed")
    parser.add_argument("--data", type=Path, default=make_offline_datasets.DATA)
    args = parser.parse_args()

    if args.what == "list":
        print(json.dumps(fingerprints()))
        return
    os.nice(19)
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()
    line: dict[str, Any] = {}
    if args.what == "scores":
        task, agent = args.row
        change(task, agent, args.changes)
        line = score_line(task, agent, args.seed, args)
    elif args.what == "presets":
        job = preset_scores.Job(*args.row, args.seed, args.trial, args.changes)
        line = preset_scores.line_of(job, args.folder / "run", args.checkpoint_freq)
    elif args.what == "offline":
        line = offline_line(offline_scores.Job(*args.row, args.seed), args)
    else:
        (task,) = args.row
        make_offline_datasets.make(task, args.seed, 100_000, make_offline_datasets.LEVELS[task], args.data)
    args.folder.mkdir(parents=True, exist_ok=True)
    atomic_write(args.folder / "line.json", json.dumps(line).encode())


if __name__ == "__main__":
    main()
