"""Scores of the agents after training, over seeds: `python benchmarks/scores.py --jobs 2`.

One line of JSON is appended to the results file for every seed that has finished; a run that was interrupted goes on
with the seeds that are missing, and so does one whose hyperparameters were changed. What is scored is the agent as
the last training step left it, greedily, over 20 episodes, not the best of its evaluations. `missing_scores.py` runs
what is missing in the background, with checkpoints.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import itertools
import json
import multiprocessing
import platform
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from score_tasks import TASKS, make_agent, settings_of

import pfrl_like
from pfrl_like import experiments, utils, wrappers
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.errors import CheckpointError

RESULTS = Path(__file__).parent / "results" / "scores.jsonl"
EPISODES = 20
#: Packages whose version may change a score.
PACKAGES = ("torch", "numpy", "gymnasium", "mujoco", "minatar", "box2d")

#: Errors of the machine, which say nothing of a training.
OF_MACHINE = (ImportError, MemoryError, OSError, CheckpointError, gymnasium.error.DependencyNotInstalled)


def make_env(task: str, settings: dict[str, Any], seed: int) -> gymnasium.Env:
    """An environment to train in, whose episodes and random actions follow from the seed."""
    env = TASKS[task].make_env()
    if "reward_scale" in settings:
        env = wrappers.ScaleReward(env, settings["reward_scale"])
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def train(
    task: str, seed: int, agent: Any, env: gymnasium.Env, hooks: list[Any], settings: dict[str, Any], **options: Any
) -> None:
    """Train in `processes`, each with an environment, in `n_envs` that are stepped together, or in `env`."""
    seeds = [1_000 * seed + i for i in range(settings.get("processes") or settings.get("n_envs", 0))]
    if "processes" in settings:
        experiments.train_agent_async(
            agent=agent,
            processes=len(seeds),
            make_env=lambda i, test: make_env(task, settings, seeds[i]),
            random_seeds=seeds,
            eval_interval=None,
            step_timeout=None,  # `missing_scores.py` may stop all processes for longer
            global_step_hooks=hooks,
            **options,
        )
    elif seeds:
        several = SerialVectorEnv([make_env(task, settings, each) for each in seeds])
        experiments.train_agent_batch(agent, several, step_hooks=hooks, **options)
    else:
        experiments.train_agent(agent, env, step_hooks=hooks, **options)


def run(
    job: tuple[str, str, int],
    folder: Path | None = None,
    checkpoint_freq: int | None = None,
    hooks: Sequence[Callable[[Any, Any, int], None]] = (),
) -> dict[str, Any]:
    """Train one agent with one seed and score it.

    Args:
        job: Task, agent, seed.
        folder: Run directory, in which training resumes from the last checkpoint; None for a temporary one.
        checkpoint_freq: Steps between checkpoints.
        hooks: Further functions that are called after each step.
    """
    task, name, seed = job
    torch.set_num_threads(1)
    utils.set_random_seed(seed)
    settings, steps = settings_of(task, name), TASKS[task].steps
    env = make_env(task, settings, seed)
    agent = make_agent(task, name, env)

    def set_lr(env: Any, agent: Any, value: float) -> None:
        for part in vars(agent).values():
            for group in part.param_groups if isinstance(part, torch.optim.Optimizer) else ():
                group["lr"] = min(value, settings["lr"]) * group.get("lr_factor", 1.0)

    def set_epsilon(env: Any, agent: Any, value: float) -> None:
        agent.explorer.end_epsilon = value

    def report(env: Any, agent: Any, t: int) -> None:
        if t % (steps // 10) == 0:
            speed = t / (time.perf_counter() - start)
            print(f"{task} {name} seed {seed}: step {t:,} of {steps:,}, {speed:.0f} a second", flush=True)

    start = time.perf_counter()
    first_lr = settings["lr"] / (1 - settings.get("lr_hold", 0.0))  # above that which `set_lr` holds
    hooks = [experiments.LinearInterpolationHook(steps, first_lr, 0.0, set_lr), report, *hooks]
    if {"reward_scale", "end_epsilon"} <= settings.keys():
        hooks.append(experiments.LinearInterpolationHook(steps, settings["end_epsilon"], 0.0, set_epsilon))
    with tempfile.TemporaryDirectory() if folder is None else contextlib.nullcontext(folder) as outdir:
        train(
            task, seed, agent, env, hooks, settings,
            steps=steps, outdir=outdir, checkpoint_freq=checkpoint_freq, resume=folder is not None,
        )  # fmt: skip
        resumed = resumptions(json.loads((Path(outdir) / "run.json").read_text()))
    seconds = time.perf_counter() - start
    returns, lengths = greedy_episodes(agent, TASKS[task].make_env())
    return {
        "task": task,
        "agent": name,
        "seed": seed,
        "score": float(np.mean(returns)),
        "returns": returns,
        "lengths": lengths,
        "seconds": round(seconds, 1),
        "settings": fingerprint(task, name),
        **provenance(),
        "resumed": resumed,
    }


def attempt(train: Callable[[], dict[str, Any]], metadata: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The line of a training, or of its failure."""
    try:
        return train()
    except OF_MACHINE:
        raise
    except Exception as error:
        traceback.print_exc()
        return metadata() | {"error": f"{type(error).__name__}: {error}"}


def resumptions(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps at which a run was resumed, each "exact" or "approximate", from its `run.json`."""
    parts = [part for part in (*record["earlier_parts"], record) if part["step_offset"]]
    return [
        {"t": part["step_offset"], "resume": (part["resumed"] or {}).get("resume", "approximate")} for part in parts
    ]


def provenance() -> dict[str, Any]:
    """The commit of the library in use, versions, threads and processor."""
    versions = {"pfrl_like": pfrl_like.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "versions": versions,
        "commit": commit_of(Path(pfrl_like.__file__).parents[1]),
        "threads": torch.get_num_threads(),
        "processor": processor(),
    }


def commit_of(tree: Path) -> str | None:
    """The commit of the library in a work tree, with "-dirty" if files of the library differ; None without git."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", tree, *arguments], capture_output=True, text=True, check=True).stdout

    try:
        return git("rev-parse", "HEAD").strip() + ("-dirty" if git("status", "--porcelain", "pfrl_like") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    """The model of the processor, as far as the system names it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def run_all(jobs: list[tuple[str, str, int]], n_workers: int) -> Iterator[dict[str, Any]]:
    """Results as they come, from workers that may have processes of their own, unlike those of a `Pool`."""
    pool = ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn"))
    try:
        for future in as_completed([pool.submit(run, job) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def greedy_episodes(agent: Any, env: gymnasium.Env) -> tuple[list[float], list[int]]:
    """Returns and lengths of 20 episodes whose starts are the same for every agent."""
    returns, lengths = [], []
    with agent.eval_mode():
        for episode in range(EPISODES):
            obs, _ = env.reset(seed=10_000 + episode)
            total, length, ended = 0.0, 0, False
            while not ended:
                obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
                ended = terminated or truncated
                agent.observe(obs, reward, terminated, ended)
                total += float(reward)
                length += 1
            returns.append(total)
            lengths.append(length)
    return returns, lengths


def fingerprint(task: str, name: str) -> str:
    """Tells results of other hyperparameters apart."""
    text = json.dumps([settings_of(task, name), TASKS[task].steps, EPISODES], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_results(path: Path) -> list[dict[str, Any]]:
    """The lines that belong to the present hyperparameters; one with an "error" is of a seed that failed.

    A line that has "invalid" does not count: it tells which mended fault the seed was run with.
    """
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        line
        for line in lines
        if line["task"] in TASKS
        and "invalid" not in line
        and line["settings"] == fingerprint(line["task"], line["agent"])
    ]


def mean_and_interval(scores: np.ndarray) -> tuple[float, float, float]:
    """Mean over seeds with its 95 % bootstrap interval."""
    means = np.random.default_rng(0).choice(scores, (10_000, len(scores))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(scores.mean()), float(low), float(high)


def print_table(results: list[dict[str, Any]]) -> None:
    """Mean over seeds with its 95 % bootstrap interval, and how many seeds reach the bar."""
    print("| task | agent | steps | seeds | mean score [95 %] | lowest | seeds >= bar |\n" + "| --- " * 7 + "|")
    pairs = [(task, name) for task in TASKS for name in TASKS[task].agents]
    for task, name in pairs:
        lines = [line for line in results if (line["task"], line["agent"]) == (task, name)]
        scores = np.array([line["score"] for line in lines if "error" not in line])
        if len(scores) == 0:
            continue
        mean, low, high = mean_and_interval(scores)
        failed = len(lines) - len(scores)
        seeds = f"{len(scores)} of {max(len(lines), TASKS[task].n_seeds)}" + (f", {failed} failed" if failed else "")
        reached = (scores >= TASKS[task].bar).sum()
        print(
            f"| {task} | {name} | {TASKS[task].steps:,} | {seeds} | {mean:.1f} [{low:.1f}, {high:.1f}]"
            f" | {scores.min():.1f} | {reached} (bar {TASKS[task].bar:g}) |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--agent", nargs="*", help="only these agents")
    parser.add_argument("--seeds", type=int, nargs="*", help="only these; all of each task without it")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time, of one thread each, or `processes`")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what there is")
    args = parser.parse_args()

    done = {(line["task"], line["agent"], line["seed"]) for line in read_results(args.results)}
    jobs = [
        (task, name, seed)
        for task in args.task
        for name, seed in itertools.product(TASKS[task].agents, args.seeds or range(TASKS[task].n_seeds))
        if (not args.agent or name in args.agent) and (task, name, seed) not in done
    ]
    if jobs and not args.table:
        args.results.parent.mkdir(parents=True, exist_ok=True)
        for result in run_all(jobs, args.jobs):
            with args.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{result['task']} {result['agent']} seed {result['seed']}: {result['score']:.1f}", flush=True)
    print_table(read_results(args.results))


if __name__ == "__main__":
    main()
