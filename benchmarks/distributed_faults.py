"""Kills actors, the learner and the head of a distributed run, and counts what is lost.

    python benchmarks/distributed_faults.py
    python benchmarks/distributed_faults.py --replay actor
    python benchmarks/distributed_faults.py --agent sac
    python benchmarks/distributed_faults.py --seconds 15 --interval 5 --steps 2000 --undisturbed 1 --results try.json
        # only to see that it runs

DQN on CartPole or SAC on Pendulum, with the settings of their presets and two actors of four environments, under
`pfrl-like keep-running`. An actor is killed every ten seconds, then the learner (the driver), then the head
(`gcs_server` and `raylet`). Other runs of as many steps, with other seeds, are not disturbed. Each environment sleeps
at every step, so that a run of some minutes has a useful number of steps.

The driver writes a ledger: the steps that it asks for, those that arrive, and those of the checkpoint from which it
resumes. The table shows whether the reported losses are the losses of the ledger, whether the replay buffer has each
counted step once, how long each recovery took, and which processes are left 90 s after the end. With a replay actor,
each step that it has confirmed must be kept. Results of earlier calls are not measured again.

Each bar is printed with what was measured. The status is 1 if a bar is missed. The score of the disturbed run may not
be below that of all undisturbed runs, unless it reaches the bar of `distributed_scores.py`, as their median must.
"""

import argparse
import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import process_table as processes  # noqa: E402 - made for tests, too

RESULTS = Path(__file__).parent / "results" / "distributed_faults.json"
LEDGER, FINISH, SUMMARY = "ledger.txt", "finish", "summary.json"
ACTORS, ENVS, SLEEP = 2, 4, 0.005
#: Environment of each agent, and minimum number of steps of the disturbed run. Learning rates reach 0 at this step.
AGENTS = {"dqn": ("CartPole-v1", 50_000), "sac": ("Pendulum-v1", 12_000)}
#: Seconds after the end of a run in which its processes must end.
GONE = 90.0
#: Maximum of the median of the seconds until steps of a killed actor's successor arrive.
REPLACED = 10.0
PATIENCE = 600.0


class Slow(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Sleeps at every step, as an environment that computes."""

    def step(self, action: Any) -> Any:
        time.sleep(SLEEP)
        return super().step(action)


def train(folder: Path, name: str, steps: int, seed: int, replay: Any) -> None:
    """The program that is disturbed: trains for some steps at least, and until the file FINISH exists."""
    import distributed_scores
    import numpy as np
    import torch

    import pfrl_like
    from pfrl_like.experiments import eval_performance
    from pfrl_like.experiments.cluster.runner import train_agent_distributed

    torch.set_num_threads(1)
    keep_ledger(folder / LEDGER)
    env_id, n_scheduled = AGENTS[name]
    agent = pfrl_like.make(name, env_id, seed=seed, capacity=10**6).agent
    items: list[Any] = []

    def make_env(actor: int, index: int, test: bool) -> Any:
        env = distributed_scores.make_env(name, env_id, actor, index, test)
        return env if test else Slow(env)

    def stop(clock: Any) -> None:
        if clock.t >= steps and (folder / FINISH).exists():
            clock.stop()
            buffer = agent.replay_buffer  # a replay actor ends with the run
            for env_id in range(ACTORS * ENVS):
                buffer.stop_current_episode(env_id)  # stores the n-step windows of running episodes
            items.extend(buffer.sample(len(buffer)))

    _, history = train_agent_distributed(
        lambda: agent, make_env, steps=10**9, outdir=folder / "run", actors=ACTORS, envs_per_actor=ENVS, seed=seed,
        checkpoint_freq=2000, keep_checkpoints=3, eval_interval=5000, hooks=[stop], resume=True, progress=False,
        start_timeout=300, max_early_deaths=20, replay=replay,
        step_hooks=distributed_scores.schedules(agent, n_scheduled),
    )  # fmt: skip
    firsts = [item[0] for item in items]
    rows = [(*step["state"], *np.ravel(step["action"]), step["reward"], *step["next_state"]) for step in firsts]
    stats = eval_performance(
        distributed_scores.make_env(name, env_id, ACTORS, 0, True), agent, n_steps=None, n_episodes=20
    )
    summary = {
        "t": agent.t, "stored": len(rows), "distinct": len(np.unique(np.array(rows, np.float32), axis=0)),
        "updates": agent.optim_t, "score": stats["mean"],
        "best_score": max((each["eval_score"] for each in history), default=None),
    }  # fmt: skip
    (folder / SUMMARY).write_text(json.dumps(summary))


def keep_ledger(path: Path) -> None:
    """Write a line for each request, answer, loss and resume of this process."""
    from pfrl_like.experiments.cluster.actors import EnvActors
    from pfrl_like.experiments.cluster.source import DistributedSource

    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*words: Any) -> None:
        os.write(file, (json.dumps([time.time(), *words]) + "\n").encode())

    ask, lose, store = EnvActors.ask, EnvActors._lose, DistributedSource._store
    restore, close = DistributedSource.restore_state, EnvActors.close

    def ask_noted(self: Any, i: int, weights: Any, version: int, t: int, ticks: int, numbers: Any) -> None:
        note("ask", i, ticks * self.num_envs)
        ask(self, i, weights, version, t, ticks, numbers)

    def store_noted(self: Any, i: int, answer: Any) -> None:
        store(self, i, answer)
        unconfirmed = getattr(self.agent.replay_buffer, "_unconfirmed", None)
        note("got", i, answer.n_steps, self.agent.t, None if unconfirmed is None else len(unconfirmed))

    def lose_noted(self: Any, request: Any, reason: str) -> None:
        note("lost", request.actor)
        lose(self, request, reason)

    def restore_noted(self: Any, state: Any) -> Any:
        reasons = restore(self, state)
        note("resume", self.agent.t)
        return reasons

    def close_noted(self: Any) -> None:
        note("end", sum(request.rows for request in self.pending.values()), self.counts)
        close(self)

    changed: Any = EnvActors, DistributedSource
    changed[0].ask, changed[0]._lose, changed[0].close = ask_noted, lose_noted, close_noted
    changed[1]._store, changed[1].restore_state = store_noted, restore_noted
    note("life", os.getpid())


class Run:
    """A run in a folder, under `keep-running`, as another process sees it."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        root = Path(__file__).parents[1]
        environ = {**os.environ, "PYTHONPATH": str(root), "NAME_OF_THE_RUN": str(folder)}
        command = [sys.executable, __file__, "--train", str(folder)]
        command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.log = (folder / "log.txt").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pfrl_like", "keep-running", "--", *command],
            env=environ, stdout=self.log, stderr=self.log, start_new_session=True,
        )  # fmt: skip

    def ledger(self) -> list[list[Any]]:
        path = self.folder / LEDGER
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def life(self) -> list[list[Any]]:
        """The lines of the newest driver."""
        lines = self.ledger()
        first = max((i for i, line in enumerate(lines) if line[1] == "life"), default=len(lines))
        return lines[first:]

    def wait_for(self, what: str, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"waited too long for {what}; see {self.folder}/log.txt")
            time.sleep(0.2)

    def is_training(self) -> bool:
        """True if the newest driver has received rows of all actors, and its run has a checkpoint."""
        received = {line[2] for line in self.life() if line[1] == "got"}
        return len(received) == ACTORS and bool([*(self.folder / "run").glob("*_checkpoint/run/manifest.json")])

    def kill(self, name: str) -> float:
        """Kill an actor, the learner or the head. Return the time."""
        driver = next((line[2] for line in self.life() if line[1] == "life"), 0)
        members = processes.of_ray(self.folder)
        if name == "learner":
            killed = {driver}
        elif name == "head":
            folder = Path(f"pfrl_like-ray-{driver}-")
            killed = processes.with_program(members & processes.of_ray(folder), "gcs_server", "raylet")
        else:
            killed = {pid for pid in members if title(pid).startswith("ray::EnvActor")}
            killed = {random.choice(sorted(killed))} if killed else set()
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        print(f"{name}: killed {sorted(killed)}", flush=True)
        return time.time() if killed else 0.0


def title(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    return ""


def measure(seconds: float, interval: float, **options: Any) -> dict[str, Any]:
    """Make a run with these options. It is disturbed if `seconds`, for which actors are killed, is not 0."""
    folder = Path(tempfile.mkdtemp(prefix="distributed-faults-"))  # it stays, so that its files can be read
    run, begun, kills, recovery = Run(folder, options), time.time(), 0, {}
    try:
        if seconds:
            run.wait_for("training", run.is_training)
            end = time.time() + seconds
            while time.time() < end:
                kills += run.kill("actor") > 0
                time.sleep(interval)
            for name in ("learner", "head"):
                run.wait_for("training", run.is_training)
                time.sleep(interval)
                killed, lives = run.kill(name), count(run, "life")
                run.wait_for("another try", lambda lives=lives: count(run, "life") > lives)
                run.wait_for("training", run.is_training)
                recovery[name] = next(line[0] for line in run.life() if line[1] == "got") - killed
        (folder / FINISH).touch()
        status = run.process.wait(PATIENCE * 4)
        members, end = processes.of_ray(folder), time.monotonic() + GONE
        while processes.alive(members) and time.monotonic() < end:
            time.sleep(0.5)
        left = len(processes.alive(members))
    finally:
        run.process.terminate()
        run.log.close()
    losses = json.loads((folder / "run" / "losses.json").read_text())
    return {
        "status": status, "seconds": round(time.time() - begun), "processes_left": left, "actors_killed": kills,
        "recovery_seconds": {name: round(value, 1) for name, value in recovery.items()},
        **json.loads((folder / SUMMARY).read_text()), **balance(run.ledger()),
        "losses": {name: value for name, value in losses.items() if name != "asked"},
    }  # fmt: skip


def count(run: Run, word: str) -> int:
    return sum(line[1] == word for line in run.ledger())


def balance(ledger: list[list[Any]]) -> dict[str, Any]:
    """The losses of a ledger, and those that the run has reported."""
    starts = [i for i, line in enumerate(ledger) if line[1] == "life"]
    lives = [ledger[a:b] for a, b in zip(starts, [*starts[1:], len(ledger)], strict=True)]
    resumed = [kept_of(life) for life in lives[1:]]
    confirmed = [confirmed_in(life) for life in lives[:-1]]
    asked = sum(line[3] for line in ledger if line[1] == "ask")
    counted = sum(
        line[3] for life, until in zip(lives, [*resumed, 10**12], strict=True)
        for line in life if line[1] == "got" and line[4] <= until
    )  # fmt: skip
    (_, _, pending, reported) = next(line for line in reversed(ledger) if line[1] == "end")
    replaced = [
        next((later[0] - line[0] for later in life[i:] if later[1:3] == ["got", line[2]]), None)
        for life in lives for i, line in enumerate(life) if line[1] == "lost"
    ]  # fmt: skip
    known = sorted(each for each in replaced if each is not None)
    return {
        "asked": asked, "lost": asked - counted - pending, "reported": reported["lost_steps"],
        "confirmed_and_lost": sum(max(0, t - until) for t, until in zip(confirmed, resumed, strict=True)),
        "seconds_to_replace": [round(known[i], 1) for i in (0, len(known) // 2, -1)] if known else [],
    }  # fmt: skip


def kept_of(life: list[list[Any]]) -> int:
    """The number of steps of the earlier lives with which a driver began: of the checkpoint and of the journal."""
    resume = next((i for i, line in enumerate(life) if line[1] == "resume"), None)
    if resume is None:
        return 0
    return int(life[resume][2] - sum(line[3] for line in life[:resume] if line[1] == "got"))


def confirmed_in(life: list[list[Any]]) -> int:
    """The number of steps that the replay actor had confirmed at the end of a life; 0 without a replay actor."""
    got = [line for line in life if line[1] == "got"]
    if not got or got[-1][5] is None:
        return 0
    confirmed = got[: len(got) - got[-1][5]]
    return int(confirmed[-1][4]) if confirmed else 0


def bars(disturbed: dict[str, Any], undisturbed: list[dict[str, Any]], score: float) -> list[tuple[str, bool]]:
    """For each bar, a text with what was measured, and True if it is reached. `score` is the bar of the scores."""
    found = []
    for name, line in (("disturbed", disturbed), *(("undisturbed", each) for each in undisturbed)):
        found += [
            (f"{name}: the exit status is {line['status']}", line["status"] == 0),
            (f"{name}: {line['processes_left']} processes are left", line["processes_left"] == 0),
            (f"{name}: {line['lost']} steps are lost, {line['reported']} reported", line["lost"] == line["reported"]),
            (f"{name}: {line['confirmed_and_lost']} confirmed steps are lost", not line["confirmed_and_lost"]),
            (f"{name}: {line['t']} steps are counted, {line['stored']} stored", line["t"] == line["stored"]),
            (f"{name}: {line['distinct']} stored steps are different", line["distinct"] == line["stored"]),
        ]
    _, seconds, _ = disturbed["seconds_to_replace"] or [math.inf] * 3
    text = f"disturbed: an actor is replaced within {seconds} s (median), at most {REPLACED:g} s"
    found.append((text, seconds <= REPLACED))
    scores = [line["score"] for line in undisturbed]
    if scores:
        usual, lowest = statistics.median(scores), min(*scores, score)
        found += [
            (f"undisturbed: the median score is {usual:.1f}, at least {score:g}", usual >= score),
            (f"disturbed: the score is {disturbed['score']:.1f}, at least {lowest:.1f}", disturbed["score"] >= lowest),
        ]
    return found


def score_to_reach(agent: str) -> float:
    """The bar of `distributed_scores.py`, which is also that of these runs."""
    from distributed_scores import CASES

    return next(bar for *task, _, _, bar in CASES if tuple(task) == (agent, *AGENTS[agent]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", choices=[*AGENTS], default="dqn")
    parser.add_argument("--seconds", type=float, default=180.0, help="time in which actors are killed")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two kills")
    parser.add_argument("--steps", type=int, help="minimum number of steps of the disturbed run (default: the agent's)")
    parser.add_argument("--undisturbed", type=int, default=3, help="number of undisturbed runs, which show the spread")
    parser.add_argument("--replay", choices=("learner", "actor"), default="learner", help="place of the replay buffer")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    agent, steps = options.agent, options.steps or AGENTS[options.agent][1]
    if options.train is not None:
        train(options.train, agent, steps, options.seed, options.replay)
        return 0
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    suffix = ", SAC" * (agent == "sac") + ", replay actor" * (options.replay == "actor")
    names = [f"disturbed{suffix}", *(f"undisturbed {i + 1}{suffix}" for i in range(options.undisturbed))]
    for seed, name in enumerate(names):
        if results.get(name, {}).get("agent") == agent:  # results without an agent are those of other settings
            continue
        seconds = 0.0 if seed else options.seconds
        more = {"agent": agent, "steps": results[names[0]]["t"] if seed else steps}
        line = measure(seconds, options.interval, **more, seed=seed, replay=options.replay)
        results[name] = {"killing_seconds": seconds, "interval": options.interval, **more, **line}
        options.results.write_text(json.dumps(results, indent=1) + "\n")
    disturbed, *undisturbed = (results[name] for name in names)
    for name in dict.fromkeys(name for line in (disturbed, *undisturbed) for name in line):
        print(f"{name:<20}" + " | ".join(str(line.get(name, "")) for line in (disturbed, *undisturbed)))
    found = bars(disturbed, undisturbed, score_to_reach(agent))
    for text, is_reached in found:
        print(f"{'reached' if is_reached else 'MISSED'}  {text}")
    return int(not all(is_reached for _, is_reached in found))


if __name__ == "__main__":
    sys.exit(main())
