"""Constants of `scaling_model.py`, measured on this machine, and the runs with which the model is compared.

    python benchmarks/scaling_model.py --measure --runs

Times are medians of processor time, or of time on the clock where a process waits for another one.
"""

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import distributed_parts as parts
import distributed_speed
import numpy as np
import scaling_model
import scores
import torch
from measurement_lock import measuring

from pfrl_like import agents, policies, utils
from pfrl_like.experiments.cluster.env_actor import Answer, EnvActor, Origin, acting_tensors, pack_weights
from pfrl_like.experiments.cluster.ray_session import ray_session
from pfrl_like.nn import Branched

REPEATS = 30
#: Rounds of measurements, of which medians are taken: the speed of a shared machine varies.
ROUNDS = 5
#: Seconds for which an actor works on a message, where the time between two messages is measured.
STEPPING = 0.04
N_CORES = os.cpu_count() or 1
#: Seconds until a busy process has started.
STARTED = 6.0
HERE = Path(__file__).parent
#: Ticks of the two sizes of messages from which costs of a message and of a row follow.
FEW, MANY = 1, 16
#: Bytes of the array with which the object store is measured.
LARGE = 1 << 26
#: Runs: case of the constants, seconds for which a step computes and sleeps, updates a step.
RUNS = {
    "sleeps 5 ms, 1 update in 16 steps": ("sac", 0.0, 0.005, 1 / 16),
    "computes 2 ms, 1 update in 16 steps": ("sac", 0.002, 0.0, 1 / 16),
    "no waiting, 1 update a step": ("sac", 0.0, 0.0, 1.0),
}
TITLES = "| a step | actors | model, steps/s | run, steps/s | run / model | bottleneck |"


def make_impala() -> Any:
    """IMPALA for vectors."""
    utils.set_random_seed(0)
    policy = parts.mlp(parts.N_OBS, 2 * parts.N_ACTIONS, 64, policies.GaussianHeadWithDiagonalCovariance())
    model = Branched(policy, parts.mlp(parts.N_OBS, 1, 64))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return agents.IMPALA(model, optimizer, gamma=0.99, update_interval=scaling_model.ROLLOUT)


#: Agents, and True for frames.
CASES: dict[str, tuple[Callable[[], Any], bool]] = {
    "sac": (parts.make_sac, False),
    "sac, frames": (lambda: parts.make_sac(True), True),
    "impala": (make_impala, False),
}


def seconds_of(function: Callable[[], Any], clock: Callable[[], float] = time.thread_time, n: int = REPEATS) -> float:
    """Median of the seconds of a call."""
    function()
    times = []
    for _ in range(n):
        begun = clock()
        function()
        times.append(clock() - begun)
    return statistics.median(times)


def line_through(few: float, many: float, step: float) -> tuple[float, float]:
    """Cost of one more row or tick, and cost of none, from those of few and many. Neither is negative."""
    slope = max(0.0, (many - few) / step)
    return slope, max(0.0, few - slope * FEW)


def actor_of(agent: Any, frames: bool) -> EnvActor:
    """An actor in this process."""
    packed = cloudpickle.dumps((agent.acting_copy(), lambda actor, index, test: parts.make_env(frames=frames)))
    actor = EnvActor(Origin(0, 0, 0, 0, None), packed, scaling_model.ENVS, None)
    actor.prepare()
    return actor


def of_acting(agent: Any, frames: bool) -> tuple[dict[str, float], Any]:
    """Constants of the actor and of its messages; and an answer with many rows."""
    actor, weights = actor_of(agent, frames), pack_weights(acting_tensors(agent))
    versions = iter(range(1, 10**9))

    def collect(ticks: int) -> Answer:
        return actor.collect(weights, next(versions), agent.t, ticks, {})

    act, message = line_through(*(seconds_of(lambda n=n: collect(n)) for n in (FEW, MANY)), MANY - FEW)
    few, many = collect(FEW), collect(MANY)
    sizes = [len(pickle.dumps(each, 5)) for each in (few, many)]
    tick_bytes, message_bytes = line_through(*map(float, sizes), MANY - FEW)
    pickled = seconds_of(lambda: pickle.dumps(many, 5))
    return {
        "act": act, "actor_message": message + pickled, "row_bytes": tick_bytes / scaling_model.ENVS,
        "message_bytes": message_bytes, "weight_bytes": float(sum(each.nbytes for each in weights)),
    }, many  # fmt: skip


def of_learner(agent: Any, answer: Answer) -> dict[str, float]:
    """Seconds to store a row and to make an update."""
    chunk, has_replay = answer.chunk, hasattr(agent, "update_from_replay")
    assert chunk is not None

    def store() -> None:
        agent.observe_chunk(chunk, range(scaling_model.ENVS))

    if has_replay:
        stored = seconds_of(store)
        return {"store": stored / chunk.n_steps, "update": seconds_of(agent.update_from_replay)}
    stored, updates = [], []
    for _ in range(REPEATS):
        while not agent.is_due():
            begun = time.thread_time()
            store()
            stored.append(time.thread_time() - begun)
        begun = time.thread_time()
        agent.update_from_rollout()
        updates.append(time.thread_time() - begun)
    return {"store": statistics.median(stored) / chunk.n_steps, "update": statistics.median(updates)}


class Echo:
    """An actor that answers after some seconds."""

    def answer(self, weights: Any, size: int, seconds: float = 0.0) -> Any:
        """Return an array."""
        time.sleep(seconds)
        return np.zeros(size, np.uint8)


def of_ray(agent: Any, size: int) -> dict[str, float]:
    """Seconds of messages and publications through a private Ray, and the rate of its object store."""
    with ray_session() as (ray, _):
        echo = ray.remote(Echo).options(num_cpus=0).remote()
        tensors = acting_tensors(agent)
        weights = ray.put(pack_weights(tensors))

        def round_trip() -> Any:
            return ray.get(echo.answer.remote(weights, size))

        for _ in range(REPEATS):
            round_trip()
        asked = deque(echo.answer.remote(weights, size, STEPPING) for _ in range(2))

        def next_answer() -> Any:
            ray.get(asked.popleft())
            asked.append(echo.answer.remote(ray.put(pack_weights(tensors)), size, STEPPING))

        period = seconds_of(next_answer, time.perf_counter)
        for each in asked:
            ray.get(each)
        slept = seconds_of(lambda: time.sleep(STEPPING), time.perf_counter)
        large = np.zeros(LARGE, np.uint8)
        return {
            "gap": max(0.0, period - slept),
            "latency": seconds_of(round_trip, time.perf_counter, 5 * REPEATS),
            "message": statistics.mean(seconds_of(round_trip, time.process_time, 5 * REPEATS) for _ in range(3)),
            "publish": seconds_of(lambda: ray.put(pack_weights(tensors)), time.perf_counter),
            "object_store": LARGE / seconds_of(lambda: ray.put(large), time.perf_counter, 7),
        }


def measure(path: Path) -> None:
    """Append the constants of every case to a file."""
    torch.set_num_threads(1)
    for case, (make, frames) in CASES.items():
        rounds = []
        for _ in range(ROUNDS):
            with measuring():
                agent = make()
                acting, answer = of_acting(agent, frames)
                size = len(pickle.dumps(answer, 5))
                rounds.append({**acting, **of_learner(agent, answer), **of_ray(agent, size)})
        constants = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"case": case, "constants": constants, **scores.provenance()}) + "\n")
        print(case, {name: float(f"{value:.3g}") for name, value in constants.items()}, flush=True)


def slowdown_of_busy_cores() -> float:
    """Time of an update while all other cores step environments, divided by that while they are idle."""
    agent = parts.make_sac()
    _, answer = of_acting(agent, frames=False)
    stepping = "import distributed_parts\nenv = distributed_parts.make_env(0.002)\nwhile True:\n    env.step(None)"
    ratios = []
    for _ in range(ROUNDS):
        idle = of_learner(agent, answer)["update"]
        others = [subprocess.Popen([sys.executable, "-c", stepping], cwd=HERE) for _ in range(N_CORES - 1)]
        time.sleep(STARTED)
        ratios.append(of_learner(agent, answer)["update"] / idle)
        for other in others:
            other.kill()
            other.wait()
    return max(1.0, statistics.median(ratios))


def setup_of_run(
    constants: dict[str, dict[str, float]], what: str, actors: int, slowdown: float
) -> scaling_model.Setup:
    """The setup of a run on this machine."""
    case, compute, wait, rate = RUNS[what]
    here = {"cores": N_CORES, "slowdown": slowdown, "actors_per_node": 0}
    wait = seconds_of(lambda: time.sleep(wait), time.perf_counter) if wait else 0.0  # a sleep lasts longer than asked
    return scaling_model.setup_of(
        constants[case], compute=compute, wait=wait, updates_per_step=rate, actors=actors, **here
    )


def run(constants: dict[str, dict[str, float]], args: argparse.Namespace) -> None:
    """Run 1, 2 and 4 actors, and append steps per second beside those of the model."""
    torch.set_num_threads(1)
    with measuring():
        slowdown = slowdown_of_busy_cores()
    print(f"all cores busy: {slowdown:.2f} times the time of an update", flush=True)
    for what, (_, compute, wait, rate) in RUNS.items():
        for actors in (1, 2, 4):
            setup = setup_of_run(constants, what, actors, slowdown)
            with measuring():
                env = {"compute": compute, "wait": wait}
                windows = distributed_speed.distributed(
                    parts.make_sac(), scaling_model.ENVS, args, actors, env, updates_per_step=rate
                )
            predicted, bottleneck = scaling_model.predict(setup)
            line = {
                "what": what, "actors": actors, "rates": windows.rates, "model": round(predicted, 1),
                "bottleneck": bottleneck, "slowdown": round(slowdown, 3), **scores.provenance(),
            }  # fmt: skip
            args.results.parent.mkdir(parents=True, exist_ok=True)
            with args.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print({name: line[name] for name in ("what", "actors", "rates", "model", "bottleneck")}, flush=True)


def table(path: Path) -> str:
    """The newest run of each case beside the model's prediction at that time."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [TITLES, "| --- " * (TITLES.count("|") - 1) + "|"]
    for line in {(line["what"], line["actors"]): line for line in lines}.values():
        rate = statistics.median(line["rates"])
        shown = f"{rate:,.0f} [{min(line['rates']):,.0f}, {max(line['rates']):,.0f}]"
        rows.append(
            f"| {line['what']} | {line['actors']} | {line['model']:,.0f} | {shown} | {rate / line['model']:.2f} | "
            f"{line['bottleneck']} |"
        )
    return "\n".join(rows)
