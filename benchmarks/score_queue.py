"""The seeds that `results/` lacks, in the order in which `missing_scores.py` runs them, with the time they take."""

import collections
import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import make_offline_datasets
import offline_scores
import preset_scores
import scores
from score_trials import LONG_TRIALS, TRIALS, Trial

Line = dict[str, Any]
#: Tasks, sets and kinds of trials, the first stage first; what is not here follows. Within a stage all rows get a seed
#: before one gets its next.
STAGES: tuple[tuple[str, ...], ...] = (
    ("trials",),
    ("halfcheetah",),
    ("lunarlander-continuous",),
    ("cartpole-async-100k", "cartpole-async-200k"),
    ("minatar-breakout",),
    ("long trials",),
    ("hopper-medium-replay", "halfcheetah-medium-replay", "hopper-medium", "halfcheetah-medium"),
    ("hopper-100k", "walker2d", "hopper-on-policy", "halfcheetah-on-policy", "walker2d-on-policy"),
    ("acrobot", "mountaincar"),
)
#: A row's later seeds come after this many of every other row.
ENOUGH = 5
UNKNOWN = 600.0  # seconds


class Item(NamedTuple):
    """One training.

    Attributes:
        kind: "scores", "offline", "presets", or "data" for the making of a task's sets.
        row: Task and agent; dataset, algorithm and library; agent and environment; or task.
        seed: Its seed.
        seconds: Of one core, by what is recorded.
        resumes: True if a training that was stopped goes on.
        trial: The trial that it belongs to, if any.
        job: Of a preset, what is trained.
    """

    kind: str
    row: tuple[str, ...]
    seed: int
    seconds: float
    resumes: bool
    trial: Trial | None = None
    job: preset_scores.Job | None = None

    @property
    def name(self) -> str:
        """The row in words."""
        if self.job is not None:
            return self.job.name
        row = " ".join(self.row) if self.kind != "data" else f"sets of {self.row[0]}"
        return row if self.trial is None else f"{row} ({self.trial.name})"

    @property
    def needs_peer(self) -> bool:
        """True for both halves of a pair with d3rlpy, and for the sets that they need."""
        return self.kind in ("offline", "data") and self.trial is None

    @property
    def group(self) -> str:
        """Its name in `STAGES`."""
        if self.trial is not None:
            return "trials" if self.trial in TRIALS else "long trials"
        return self.row[0]


def lines_in(path: Path) -> list[Line]:
    """All lines of a file of results, those of other settings included."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def taken(line: Line) -> float:
    """Seconds of one core if they were recorded, else seconds."""
    return float(line.get("cpu_seconds", line["seconds"]))


def median_of_first(*several: Iterable[float]) -> float:
    """The median of the first of these that is not empty."""
    return next((statistics.median(values) for values in map(list, several) if values), UNKNOWN)


def score_seconds(lines: list[Line], task: str, name: str) -> float:
    """Seconds of one seed: of this row, or by the steps of this agent's, or anybody's, rows."""
    steps = scores.TASKS[task].steps
    known = [line for line in lines if line["task"] in scores.TASKS and "error" not in line]
    scaled = [(line, taken(line) * steps / scores.TASKS[line["task"]].steps) for line in known]
    return median_of_first(
        (seconds for line, seconds in scaled if (line["task"], line["agent"]) == (task, name)),
        (seconds for line, seconds in scaled if line["agent"] == name),
        (seconds for _, seconds in scaled),
    )


def offline_seconds(lines: list[Line], job: offline_scores.Job) -> float:
    """Seconds of one training: of this row, or of this algorithm of this library, or of either."""
    known = [line for line in lines if line["algorithm"] == job.algorithm and "error" not in line]
    of_library = [line for line in known if line["library"] == job.library]
    return median_of_first(
        (taken(line) for line in of_library if line["dataset"] == job.dataset),
        map(taken, of_library),
        map(taken, known),
    )


def missing_presets(path: Path) -> list[Item]:
    """The trainings that `preset_scores.py` lacks, in its order."""
    lines = preset_scores.read_results(path)
    return [
        Item("presets", (job.agent, job.env_id), job.seed, preset_scores.seconds_of(lines, job), True, job=job)
        for job in preset_scores.missing(lines, preset_scores.pairs())
    ]


def missing_scores(path: Path) -> Iterator[tuple[Item, int]]:
    """Seeds that `scores.py` lacks, each with the number of seeds that its row has before it."""
    lines, present = lines_in(path), scores.read_results(path)
    for task, own in scores.TASKS.items():
        for name in own.agents:
            seeds = {line["seed"] for line in present if (line["task"], line["agent"]) == (task, name)}
            seconds = score_seconds(lines, task, name)
            for rank, seed in enumerate(sorted({*range(own.n_seeds)} - seeds), len(seeds)):
                yield Item("scores", (task, name), seed, seconds, True), rank


def missing_pairs(path: Path, contents: Mapping[str, str | None]) -> Iterator[tuple[Item, int]]:
    """The same of `offline_scores.py`; a training by d3rlpy does not resume."""
    lines, present = lines_in(path), offline_scores.finished(path, {})
    seeds = collections.Counter((dataset, algorithm) for dataset, algorithm, _ in offline_scores.pairs(present))
    jobs = offline_scores.missing(present, contents, range(offline_scores.SEEDS))
    for (*row, seed), halves in itertools.groupby(jobs, lambda job: (job.dataset, job.algorithm, job.seed)):
        rank = seeds[tuple(row)]
        seeds[tuple(row)] += 1
        for job in halves:
            seconds = offline_seconds(lines, job)
            yield Item("offline", (*row, job.library), seed, seconds, job.library == "pfrl_like"), rank


def missing_trials(path: Path, score_path: Path, offline_path: Path) -> Iterator[tuple[Item, int]]:
    """The same of the trials, whose lines are in `path`."""
    done = [(line["trial"], tuple(line["row"]), line["seed"]) for line in lines_in(path)]
    of_scores, of_pairs = lines_in(score_path), lines_in(offline_path)
    for trial in (*TRIALS, *LONG_TRIALS):
        if trial.row[0] in scores.TASKS and len(trial.row) == 2:
            kind, length = "scores", trial.changes.get("steps", 0) / scores.TASKS[trial.row[0]].steps
            seconds = score_seconds(of_scores, *trial.row)
        else:
            usual = offline_scores.settings_of(trial.row[1])["updates"]
            kind, length = "offline", trial.changes.get("updates", 0) / usual
            seconds = offline_seconds(of_pairs, offline_scores.Job(*trial.row, seed=0))
        for rank, seed in enumerate(trial.seeds):
            if (trial.name, trial.row, seed) not in done:
                yield Item(kind, trial.row, seed, seconds * (length or 1), trial.row[-1] != "d3rlpy", trial), rank


def sort_key(item: Item, rank: int) -> tuple[bool, int, int, int]:
    """Trainings are run in the order of this key."""
    stage = next((stage for stage, names in enumerate(STAGES) if item.group in names), len(STAGES))
    names = STAGES[stage] if stage < len(STAGES) else (item.group,)
    return rank >= ENOUGH and item.trial is None, stage, rank, names.index(item.group)


def set_seconds(path: Path, task: str) -> float:
    """Seconds of making a task's sets: of TD3's training."""
    steps = make_offline_datasets.LEVELS[task].most_steps
    return score_seconds(lines_in(path), task, "TD3") * steps / scores.TASKS[task].steps


def queue(score_path: Path, offline_path: Path, trial_path: Path, contents: Mapping[str, str | None]) -> list[Item]:
    """Everything that is missing, in order.

    Args:
        score_path: Results of `scores.py`.
        offline_path: Those of `offline_scores.py`.
        trial_path: Those of trials.
        contents: Of each set its content; None if it has still to be made, which comes before what needs it.
    """
    found = [
        *missing_trials(trial_path, score_path, offline_path),
        *missing_scores(score_path),
        *missing_pairs(offline_path, contents),
    ]
    found.sort(key=lambda each: sort_key(*each))
    made: set[str] = set()
    items = []
    for item, _ in found:
        if item.kind == "offline" and contents.get(item.row[0], "") is None:
            task = item.row[0].split("-")[0]
            if task not in made:
                items.append(Item("data", (task,), 0, set_seconds(score_path, task), True))
                made.add(task)
        items.append(item)
    return items


def table(items: list[Item]) -> str:
    """Of each row the seeds that are missing, and the hours of one core that they take."""
    rows: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        rows.setdefault((item.kind, item.name), []).append(item)
    lines = ["| row | seeds missing | hours |", "| --- | --- | --- |"]
    for (_, name), own in rows.items():
        seeds = ", ".join(str(item.seed) for item in own)
        lines.append(f"| {name} | {seeds} | {sum(item.seconds for item in own) / 3_600:.2f} |")
    total = sum(item.seconds for item in items) / 3_600
    return "\n".join([*lines, f"| {len(rows)} rows | {len(items)} trainings | {total:.1f} |"])
