"""Kills runs at random moments of training, and counts those that do not end as if they had not been stopped.

    python benchmarks/kill_training.py --trials 200 --folder /dev/shm

A trial is a program that runs in processes of its own: once without a stop; then again, killed by SIGKILL one to three
times and started anew, with `resume=True`, until it is over. The moment of a kill is a step, a time, or the n-th call
that changes files. What both have left must be the same to the byte: parameters, optimisers, buffers with their order
and priorities, statistics, random streams, `scores.txt`, `metrics.csv`, `epochs.csv` (in which steps are counted in
place of seconds). All agents take turns, each with other runners, parts and sources of noise.

Trials that the results already hold are not made again. Prints those that went wrong, and fails if there are any.
"""

import itertools
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo  # which optimisers load when they are first used; here it is loaded once
from measured_once import Line, measured_once, parser_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from frame_runs import LargeFramePlan, frame_plans  # noqa: E402 - made for tests, too
from stopped_runs import Plan, differences, go, plans  # noqa: E402

#: Functions that change files, of which the n-th call is the moment of a kill.
CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "ftruncate")
KINDS = ("step", "time", "call")
PATIENCE = 600.0  # seconds
LEFT, LOG = "left.json", "log.txt"


class Moment(NamedTuple):
    """When a process is killed: at a step, after some seconds, or at a call."""

    kind: str
    at: float


class Extent:
    """Counts the steps and calls of this process, and kills it at its moment."""

    def __init__(self, moment: Moment | None) -> None:
        self.moment, self.pid, self.start = moment, os.getpid(), time.perf_counter()
        self.count: Counter[str] = Counter()
        for name in CALLS:
            setattr(os, name, partial(self.call, getattr(os, name)))

    def step(self, clock: Any) -> None:
        self.add("step", clock.t - clock.previous_t)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.add("call")
        return function(*arguments, **options)

    def add(self, kind: str, number: int = 1) -> None:
        self.count[kind] += number
        moment = self.moment
        if moment is not None and moment.kind == kind and self.count[kind] >= moment.at and os.getpid() == self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def ends(self) -> dict[str, float]:
        return {**self.count, "time": time.perf_counter() - self.start}


def work(plan: Plan, folder: Path, moment: Moment | None) -> None:
    """The program, in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    extent = Extent(moment)
    left = go(plan, folder, [extent.step])
    (folder / LEFT).write_text(json.dumps({"left": left, "extent": extent.ends()}))


def ended(plan: Plan, folder: Path, moment: Moment | None = None) -> bool:
    """Fork a process that runs the program; returns whether it came to its end rather than being killed.

    Raises:
        RuntimeError: If it ended in another way.
    """
    child = os.fork()  # torch has been imported, and has no threads yet
    if child == 0:
        status = 1
        try:
            work(plan, folder, moment)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    handle = os.pidfd_open(child)
    seconds = moment.at if moment is not None and moment.kind == "time" else PATIENCE
    over, _, _ = select.select([handle], [], [], seconds)
    if not over:
        os.kill(child, signal.SIGKILL)
    os.close(handle)
    _, status = os.waitpid(child, 0)
    if not over and seconds == PATIENCE:
        raise RuntimeError(f"it did not end: {told(folder)}")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    if status:
        raise RuntimeError(f"it ended with {status}: {told(folder)}")
    return True


def told(folder: Path) -> str:
    path = folder / LOG
    return path.read_text()[-3000:] if path.exists() else ""


def trial(plan: Plan, folder: Path) -> Line:
    """What comes of a run that is killed, beside one that is not."""
    drawn = random.Random(f"kills {plan}")
    whole, killed, moments = folder / "whole", folder / "killed", []
    try:
        ended(plan, whole)
        reference = json.loads((whole / LEFT).read_text())
        wanted = drawn.randint(1, 3)
        for kind in itertools.cycle(drawn.sample(KINDS, len(KINDS))):
            extent = reference["extent"][kind]
            at = drawn.uniform(0, extent) if kind == "time" else drawn.randint(1, int(extent))
            moment = Moment(kind, at) if len(moments) < wanted else None
            if not ended(plan, killed, moment):
                moments.append(moment)
            elif moments:
                break
            else:  # it was faster than the kill
                shutil.rmtree(killed)
        came = json.loads((killed / LEFT).read_text())
        wrong = differences(reference["left"], came["left"])[:5]
        parts = gone_on(killed / "run")
    except RuntimeError as error:
        wrong, parts = [str(error)], []
    return {
        "runner": plan.runner, "noise": plan.noise, "parts": [str(part) for part in plan.case.values()],
        **plan.sizes, "kills": [[kind, round(at, 3)] for kind, at in moments], "went_on": parts, "wrong": wrong,
    }  # fmt: skip


def gone_on(outdir: Path) -> list[Any]:
    """The steps that the last parts of a run went on from, and why they may not have done so exactly."""
    record = json.loads((outdir / "run.json").read_text())
    resumed = [part["resumed"] for part in [*record.get("earlier_parts", []), record] if part.get("resumed")]
    return [[each["t"], *each["reasons"]] for each in resumed]


def measured(plan: Plan, folder: Path | None, keep: bool) -> Line:
    where = Path(tempfile.mkdtemp(prefix="killed-", dir=folder))
    line = trial(plan, where)
    if not (keep and line["wrong"]):
        shutil.rmtree(where)
    return line


def main() -> None:
    parser = parser_of(__doc__, "trust")
    parser.set_defaults(results=Path("kill_training.jsonl"))  # a new command makes new trials
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--runners", nargs="+", help="only these")
    parser.add_argument("--agents", nargs="+", help="only these")
    parser.add_argument("--frames", action="store_true", help="on-policy agents that see frames, in large rollouts")
    parser.add_argument("--folder", type=Path, help="where runs are written")
    parser.add_argument("--keep", action="store_true", help="whether what went wrong stays there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    every = (
        plan
        for plan in (frame_plans(LargeFramePlan) if options.frames else plans(itertools.count()))
        if plan.runner in (options.runners or [plan.runner]) and plan.agent in (options.agents or [plan.agent])
    )
    with_frames = ["with frames"] if options.frames else []
    chosen = {" ".join([*map(str, plan), *with_frames]): plan for plan in itertools.islice(every, options.trials)}
    lines = measured_once(
        options,
        ({"script": "kill_training.py", "trial": name} for name in chosen),
        lambda case: measured(chosen[case["trial"]], options.folder, options.keep),
    )
    lines = [line for line in lines if line.get("script") == "kill_training.py"]
    wrong = [line for line in lines if line["wrong"]]
    approximate = [line for line in lines if any(len(part) > 1 for part in line["went_on"])]
    kills = Counter(kind for line in lines for kind, _ in line["kills"])
    print(
        f"{len(lines)} trials with {len({line['trial'].split()[0] for line in lines})} agents, {kills.total()} kills "
        f"({dict(kills)}): {len(lines) - len(wrong)} as if they had not been stopped, {len(approximate)} of all said "
        f"that they might not be",
        *wrong,
        sep="\n",
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
