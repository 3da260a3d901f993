"""Scores of presets as `make` trains them, with trials that choose their settings.

    python benchmarks/preset_scores.py                                          # everything in `preset_trials.py`
    python benchmarks/preset_scores.py --agent munchausen_dqn --env CartPole-v1   # one preset, any that there is
    python benchmarks/preset_scores.py --table                                  # trains nothing

One seed after another is trained with the library of this tree, in one thread; the same command resumes the seed that
was stopped. Each is a line of JSON, and so is one that failed, which is not tried again. What is scored is the final
agent, greedily, over the 20 episodes of `scores.py`. `missing_scores.py` runs the same in the background.
"""

import argparse
import hashlib
import json
import re
import shutil
import statistics
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scores
import torch
from preset_trials import SCORE_SEEDS, TRIAL_SEEDS, TRIALS, WITHOUT_TRIALS, Trial
from score_tasks.task import presets

import pfrl_like

RESULTS = scores.RESULTS.with_name("preset_scores.jsonl")
FOLDER = Path("~/.cache/pfrl_like/preset_scores").expanduser()
#: Seconds of a core that a step takes where nothing is recorded.
SECONDS_A_STEP = 4e-3
CHECKPOINTS = 10
TITLES = "| environment | agent | trial | changes of settings | seeds | mean score | chosen |"
Line = dict[str, Any]


class Job(NamedTuple):
    """One training.

    Attributes:
        agent: Name of the agent.
        env_id: Id of the environment.
        seed: Its seed.
        trial: Name of the trial; None for a score.
        changes: Settings in place of the preset's.
    """

    agent: str
    env_id: str
    seed: int
    trial: str | None
    changes: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The training in words, without its seed."""
        return f"{self.agent} {self.env_id}" + ("" if self.trial is None else f" ({self.trial})")

    @property
    def fingerprint(self) -> str:
        """Tells other settings apart."""
        return fingerprint(self.agent, self.env_id, self.changes)

    @property
    def steps(self) -> int:
        """Steps of training."""
        return int(settings_of(self.agent, self.env_id, self.changes)["steps"])

    def metadata(self) -> Line:
        """The part of its line that is known before the training."""
        return {
            "agent": self.agent, "env": self.env_id, "trial": self.trial, "changes": dict(self.changes),
            "seed": self.seed, "settings": self.fingerprint,
        }  # fmt: skip


def settings_of(agent: str, env_id: str, changes: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """All settings: those of training, the preset's, and the changed ones; see `presets.preset` for `without`."""
    return {**presets.TRAINING, **presets.preset(agent, env_id, without=without), **changes}


def fingerprint(agent: str, env_id: str, changes: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """Tells results of other settings apart; settings of training with their usual values are left out."""
    settings = settings_of(agent, env_id, changes, without).items()
    own = {name: value for name, value in settings if name not in presets.TRAINING or value != presets.TRAINING[name]}
    text = json.dumps([own, scores.EPISODES], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run(job: Job, folder: Path, checkpoint_freq: int) -> Line:
    """Train one seed and score it.

    Args:
        job: Agent, environment, seed and settings.
        folder: Run directory, in which training resumes from the last checkpoint.
        checkpoint_freq: Steps between checkpoints.
    """
    start, cpu = time.perf_counter(), time.process_time()
    made = pfrl_like.make(job.agent, job.env_id, seed=job.seed, **job.changes)
    made.train(outdir=folder, resume=True, checkpoint_freq=checkpoint_freq)
    spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    returns, lengths = scores.greedy_episodes(made.agent, made.eval_env)
    resumed = scores.resumptions(json.loads((folder / "run.json").read_text()))
    return {
        **job.metadata(),
        "score": float(np.mean(returns)),
        "returns": returns,
        "lengths": lengths,
        **{name: round(value, 1) for name, value in spent.items()},
        **scores.provenance(),
        "resumed": resumed,
    }


def line_of(job: Job, folder: Path, checkpoint_freq: int) -> Line:
    """The line of a training, or of its failure."""
    return scores.attempt(lambda: run(job, folder, checkpoint_freq), lambda: job.metadata() | scores.provenance())


def read_results(path: Path) -> list[Line]:
    """All lines that are not marked as invalid."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if "invalid" not in line]


def fingerprints_of(trial: Trial) -> set[str]:
    """Of a trial with the preset as it is, and as it was before a trial became the preset."""
    preset = presets.preset(trial.agent, trial.env_id)
    became = [
        each.changes
        for each in trials_of(trial.agent, trial.env_id)
        if all(name in preset and preset[name] == value for name, value in each.changes.items())
    ]
    return {fingerprint(trial.agent, trial.env_id, trial.changes, without) for without in ((), *became)}


def trial_lines(lines: list[Line], trial: Trial) -> list[Line]:
    """The lines of a trial, one for each seed. Those of a preset that has changed since do not count."""
    known = fingerprints_of(trial)
    return _of_seeds(line for line in _recorded(lines, trial) if line["settings"] in known)


def _recorded(lines: list[Line], trial: Trial) -> list[Line]:
    """The lines of a trial, whatever the preset was."""
    wanted = [trial.agent, trial.env_id, trial.name, dict(trial.changes)]
    return [line for line in lines if [line["agent"], line["env"], line["trial"], line["changes"]] == wanted]


def score_lines(lines: list[Line], agent: str, env_id: str, changes: Mapping[str, Any] | None = None) -> list[Line]:
    """The lines of scores of a preset as it is now, or with changes, one for each seed."""
    wanted = (agent, env_id, None, fingerprint(agent, env_id, changes or {}))
    return _of_seeds(line for line in lines if (line["agent"], line["env"], line["trial"], line["settings"]) == wanted)


def _of_seeds(lines: Iterable[Line]) -> list[Line]:
    return [*{line["seed"]: line for line in lines}.values()]


def best_of(lines: list[Line], trials: list[Trial]) -> Trial:
    """The trial with the best mean, the last one of equals; one of which seeds failed comes after the others."""

    def rank(trial: Trial) -> tuple[int, float]:
        own = trial_lines(lines, trial)
        found = [line["score"] for line in own if "error" not in line]
        return len(found) - len(own), statistics.fmean(found) if found else -float("inf")

    return max(reversed(trials), key=rank)


def trials_of(agent: str, env_id: str) -> list[Trial]:
    """The trials of an agent in an environment."""
    return [trial for trial in TRIALS if (trial.agent, trial.env_id) == (agent, env_id)]


def missing_trials(lines: list[Line], agent: str, env_id: str) -> list[Job]:
    """The trainings that trials lack; one trial alone needs none."""
    jobs, trials = [], trials_of(agent, env_id)
    for trial in trials if len(trials) > 1 else ():
        done = {line["seed"] for line in trial_lines(lines, trial)}
        jobs += [Job(agent, env_id, seed, trial.name, trial.changes) for seed in TRIAL_SEEDS if seed not in done]
    return jobs


def chosen(lines: list[Line], agent: str, env_id: str) -> Trial | None:
    """The trial that becomes the preset; None if there are no trials, or not all of them are complete."""
    trials = trials_of(agent, env_id)
    return best_of(lines, trials) if trials and not missing_trials(lines, agent, env_id) else None


def score_of(lines: list[Line], agent: str, env_id: str) -> dict[str, Any] | None:
    """Mean, interval and number of seeds of a preset; None while seeds are missing, and if all of them failed."""
    trial = chosen(lines, agent, env_id)
    own = score_lines(lines, agent, env_id, {} if trial is None else trial.changes)
    values = np.array([line["score"] for line in own if "error" not in line])
    if len(own) < len(SCORE_SEEDS) or len(values) == 0:
        return None
    numbers = dict(zip(("mean", "low", "high"), scores.mean_and_interval(values), strict=True))
    score = {name: round(value, 1) for name, value in numbers.items()} | {"seeds": len(values)}
    return score | ({"failed": len(own) - len(values)} if len(own) > len(values) else {})


def scored(lines: list[Line]) -> list[tuple[str, str]]:
    """Agents and environments that have lines of scores."""
    return [*dict.fromkeys((line["agent"], line["env"]) for line in lines if line["trial"] is None)]


def pairs() -> list[tuple[str, str]]:
    """Agents and environments that have trials, and those that are scored without."""
    return [*dict.fromkeys((trial.agent, trial.env_id) for trial in TRIALS), *WITHOUT_TRIALS]


def missing(lines: list[Line], wanted: Iterable[tuple[str, str]]) -> list[Job]:
    """Trainings that are missing: of each preset the trials, then the scores of the best, as far as it is known.

    Args:
        lines: The results.
        wanted: Agents and environments; one without trials is scored as it is.
    """
    jobs = []
    for agent, env_id in wanted:
        jobs += missing_trials(lines, agent, env_id)
        trials = trials_of(agent, env_id)
        changes = best_of(lines, trials).changes if trials else {}
        done = {line["seed"] for line in score_lines(lines, agent, env_id, changes)}
        jobs += [Job(agent, env_id, seed, None, changes) for seed in SCORE_SEEDS if seed not in done]
    return jobs


def seconds_of(lines: list[Line], job: Job) -> float:
    """Seconds of a core that a training takes: as the others of its agent and environment, by their median."""
    known = [
        line["cpu_seconds"] / settings_of(job.agent, job.env_id, line["changes"])["steps"]
        for line in lines
        if (line["agent"], line["env"]) == (job.agent, job.env_id) and "error" not in line
    ]
    return job.steps * (statistics.median(known) if known else SECONDS_A_STEP)


def table(lines: list[Line]) -> list[str]:
    """The trials, which of them has become the preset, and of which the preset has changed since."""
    rows = [TITLES, "| --- " * 7 + "|"]
    for trial in TRIALS:
        own = trial_lines(lines, trial)
        found = [line["score"] for line in own if "error" not in line]
        mean = f"{statistics.fmean(found):.1f}" if found else ""
        taken = "yes" if chosen(lines, trial.agent, trial.env_id) == trial else ""
        changes = f"`{json.dumps(trial.changes)}`"
        n_stale = len(_of_seeds(_recorded(lines, trial))) - len(own)
        seeds = f"{len(found)} of {len(TRIAL_SEEDS)}" + (f", {n_stale} of an earlier preset" if n_stale else "")
        cells = (trial.env_id, trial.agent, trial.name, changes, seeds, mean, taken)
        rows += [f"| {' | '.join(cells)} |"] if own or n_stale else []
    return rows


def run_missing(wanted: list[tuple[str, str]], path: Path, folder: Path) -> None:
    """Train what is missing, one seed after another, and append its lines to the results."""
    torch.set_num_threads(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    while jobs := missing(read_results(path), wanted):
        job = jobs[0]
        print(f"{job.name}, seed {job.seed} begins, {len(jobs)} are missing", flush=True)
        own = folder / re.sub(r"\W+", "-", f"{job.name} {job.seed} {job.fingerprint}")
        line = line_of(job, own, max(1, job.steps // CHECKPOINTS))
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        shutil.rmtree(own, ignore_errors=True)
        print(f"{job.name}, seed {job.seed}: {line.get('error') or round(line['score'], 1)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", help="only this agent")
    parser.add_argument("--env", help="only this environment")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of runs that have not ended")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    args = parser.parse_args()
    wanted = [pair for pair in pairs() if args.agent in (None, pair[0]) and args.env in (None, pair[1])]
    if args.agent and args.env:
        wanted = [(args.agent, args.env)]
    if not args.table:
        run_missing(wanted, args.results, args.folder)
    lines = read_results(args.results)
    print("\n".join(table(lines)))
    for agent, env_id in wanted:
        print(f"{agent} {env_id}: {score_of(lines, agent, env_id) or 'seeds are missing'}")


if __name__ == "__main__":
    main()
