"""What runs leave in their directories, how tests stop them, and an evaluation hook that tells a function."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pfrl_like.experiments import EvaluationHook


class Stopped(Exception):
    """Ends a run."""


def stop_at(t: int) -> Callable[[Any], None]:
    """A hook that ends a run at a step, or the first tick beyond it."""

    def stop(clock: Any) -> None:
        if clock.t >= t:
            raise Stopped

    return stop


class Hook(EvaluationHook):
    """Hands on to a function what it is told."""

    support_train_agent = support_train_agent_batch = support_train_agent_async = support_train_agent_offline = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, **told: Any) -> None:
        self.function(**told)


class Sink:
    """A logger of metrics that keeps them, and that it was closed."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.metrics: list[dict[str, Any]] = []

    def log(self, step: int, metrics: dict[str, Any]) -> None:
        self.steps.append(step)
        self.metrics.append(dict(metrics))

    def close(self) -> None:
        self.steps.append("closed")


def record(outdir: Path) -> dict[str, Any]:
    """The record of a run."""
    told: dict[str, Any] = json.loads((outdir / "run.json").read_text())
    return told


def change_record(outdir: Path, **content: Any) -> None:
    """Let the record of a run tell something else."""
    (outdir / "run.json").write_text(json.dumps(record(outdir) | content))


def resumed(outdir: Path) -> Any:
    """What the record of a run tells of its going on."""
    return record(outdir)["resumed"]


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a table, without the time that had passed."""
    with open(path, newline="") as file:
        rows = csv.DictReader(file, delimiter="\t" if path.suffix == ".txt" else ",")
        return [{name: text for name, text in row.items() if name != "elapsed"} for row in rows]


def steps_of(path: Path) -> list[int]:
    """The steps that a table tells of."""
    return [int(next(iter(row.values()))) for row in table(path)]


def names_in(folder: Path) -> set[str]:
    """What is in a folder."""
    return {path.name for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state_of_checkpoint(outdir: Path, name: str = "25_checkpoint") -> Any:
    """What a checkpoint has of the run's own state."""
    [path] = (outdir / name / "run").glob("state-*.json")
    return json.loads(path.read_text())
