"""A table of the finished runs below some directories: mean scores over seeds with 95 % bootstrap intervals.

For example: `python examples/mujoco/reproduction/table_of_scores.py results/td3`. A score is the mean return of an
evaluation: the last one of a run, and the best one, which the paper of TD3 reports.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np


def read_runs(roots: list[Path]) -> dict[tuple[str, str, int], dict[int, dict[str, Any]]]:
    """Finished runs by what was run (agent, environment, steps) and by seed; the latest one of each."""
    runs: dict[tuple[str, str, int], dict[int, dict[str, Any]]] = {}
    for path in sorted(path for root in roots for path in root.rglob("run.json")):
        run = json.loads(path.read_text())
        header, *rows = (line.split("\t") for line in (path.parent / "scores.txt").read_text().splitlines())
        if run["outcome"] != "finished" or not rows:
            continue
        means = [float(row[header.index("mean")]) for row in rows]
        seed = json.loads((path.parent / "args.txt").read_text())["seed"]
        scores = {"last": means[-1], "best": max(means), "versions": run["versions"]}
        runs.setdefault((run["agent"], run["env"], run["steps"]), {})[seed] = scores
    return runs


def with_interval(scores: list[float]) -> str:
    """The mean and the 95 % interval of means of as many scores drawn with replacement; one score has none."""
    mean = f"{np.mean(scores):,.1f}"
    if len(scores) == 1:
        return mean
    draws = np.random.default_rng(0).choice(scores, (10_000, len(scores))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{mean} [{low:,.1f}, {high:,.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="*", default=[Path("results")], help="of runs, at any depth")
    runs = read_runs(parser.parse_args().directory)
    if not runs:
        raise SystemExit("no finished run with an evaluation was found")
    print("| agent | environment | steps | seeds | last evaluation [95 %] | best evaluation [95 %] |")
    print("| --- " * 6 + "|")
    for (agent, env, steps), of_seed in sorted(runs.items()):
        last, best = (with_interval([scores[which] for scores in of_seed.values()]) for which in ("last", "best"))
        seeds = ", ".join(str(seed) for seed in sorted(of_seed))
        print(f"| {agent} | {env} | {steps:,} | {seeds} | {last} | {best} |")
    versions = {json.dumps(scores["versions"]) for of_seed in runs.values() for scores in of_seed.values()}
    print("\nVersions: " + "; ".join(sorted(versions)))


if __name__ == "__main__":
    main()
