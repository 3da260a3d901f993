"""What checkpoints and the guard against NaN cost a run: its throughput beside the same run without them.

    python benchmarks/checkpoint_cost.py --results benchmarks/results/trust.jsonl
    python benchmarks/checkpoint_cost.py --case atari-like --rounds 1 --steps 20000

"both" is a run as by default with `checkpoint_freq=10_000`, "guard" one without checkpoints, "neither" one that does
not look for NaN, either. They take turns of some steps, each in a process of its own with one thread; a round begins
with new processes. Other programs disturb single turns, and add to all of them. So what is compared is also the lower
quartile of turns without a checkpoint, to which a run with checkpoints gets the median of these, for its part.
"""

import contextlib
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from measured_once import Line, measured_once, parser_of
from measurement_lock import measuring
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like.experiments import train_agent
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.run_state import RunState
from pfrl_like.nn import LargeAtariCNN
from pfrl_like.runs.loop import Clock

RUNS = ("both", "guard", "neither")
CLOCKS = ("wall", "cpu")
INTERVAL = 10_000
WARM = 2_000
#: Functions of which a checkpoint is made, by the name of the part.
PARTS: tuple[tuple[str, Any, str], ...] = (
    ("agent", agents.DQN, "save"),
    ("buffers", Checkpoints, "_save_buffers"),
    ("run state", RunState, "saved"),
    ("tables", Checkpoints, "_sync_tables"),
    ("removing", Checkpoints, "_remove_obsolete"),
    ("fsync in all of them", os, "fsync"),
    ("whole", Checkpoints, "save"),
)


class Frames(gymnasium.Env):
    """Stacks of four 84x84 frames of noise, as of an Atari game."""

    action_space = gymnasium.spaces.Discrete(6)
    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        self.stack = [self.frame() for _ in range(4)]
        return np.stack(self.stack), {}

    def frame(self) -> np.ndarray:
        return np.frombuffer(self.np_random.bytes(84 * 84), np.uint8).reshape(84, 84)

    def step(self, action: Any) -> Any:
        self.t += 1
        self.stack = [*self.stack[1:], self.frame()]
        return np.stack(self.stack), float(action == 0), self.t == 800, False, {}


def make_dqn(body: nn.Module, width: int, env: Any, lr: float, **options: Any) -> Any:
    actions = int(env.action_space.n)
    model = nn.Sequential(body, nn.Linear(width, actions), q_functions.DiscreteActionValueHead())
    return agents.DQN(
        model,
        torch.optim.Adam(model.parameters(), lr=lr),
        replay_buffers.ReplayBuffer(100_000),
        0.99,
        explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 10_000, env.action_space.sample),
        replay_start_size=1_000,
        target_update_interval=500,
        minibatch_size=32,
        **options,
    )


def cartpole(width: int) -> tuple[Any, Any]:
    env = gymnasium.make("CartPole-v1")
    body = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return make_dqn(body, width, env, 1e-3, update_interval=1), env


def atari_like() -> tuple[Any, Any]:
    env = Frames()
    return make_dqn(LargeAtariCNN(), 512, env, 1e-4, update_interval=4, phi=lambda x: x / np.float32(255)), env


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "cartpole 64x64": lambda: cartpole(64),
    "cartpole 256x256": lambda: cartpole(256),
    "atari-like": atari_like,
}


def clocks() -> np.ndarray:
    """Seconds that have passed, and those of this process's work."""
    return np.array([time.perf_counter(), time.process_time()])


class Turns:
    """A callback that tells what every block of steps took, and waits for its turn."""

    def __init__(self, block: int, connection: Connection) -> None:
        self.block, self.connection, self.start = block, connection, clocks()

    def __call__(self, clock: Clock) -> None:
        if clock.t >= WARM and (clock.t - WARM) % self.block == 0:
            self.connection.send((clocks() - self.start).tolist())
            self.connection.recv()
            self.start = clocks()


@contextlib.contextmanager
def timed_parts() -> Iterator[dict[str, list[list[float]]]]:
    """Milliseconds of each part of every checkpoint, by both clocks."""
    times: dict[str, list[list[float]]] = {name: [] for name, _, _ in PARTS}
    passed = {name: np.zeros(2) for name in times}

    def timing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = clocks()
            result = function(*args, **kwargs)
            passed[name] += clocks() - start
            if name == "whole":
                for part, seconds in passed.items():
                    times[part].append((1e3 * seconds).round(1).tolist())
                    seconds[:] = 0
            return result

        return timed

    for name, owner, attribute in PARTS:
        setattr(owner, attribute, timing(name, getattr(owner, attribute)))
    yield times


def work(case: Line, which: str, steps: int, block: int, connection: Connection) -> None:
    """Run once, in this process."""
    torch.manual_seed(case["round"])
    np.random.seed(case["round"])
    if which == "neither":
        torch._amp_foreach_non_finite_check_and_unscale_ = lambda grads, found, scale: None  # type: ignore[assignment]
    agent, env = CASES[case["case"]]()
    env.reset(seed=case["round"])
    with tempfile.TemporaryDirectory(dir=".") as outdir, timed_parts() as times:
        interval = INTERVAL if which == "both" else None
        turns = Turns(block, connection)
        train_agent(agent, env, WARM + steps, outdir, interval, progress=False, hooks=[turns])
    connection.send(times)


def measure(case: Line, steps: int, block: int) -> Line:
    """One round: the seconds of every run, and the milliseconds of the parts of a checkpoint."""
    context = multiprocessing.get_context("fork")
    runs, blocks = {}, {which: [] for which in RUNS}
    for which in RUNS:
        runs[which], theirs = context.Pipe()
        context.Process(target=work, args=(case, which, steps, block, theirs), daemon=True).start()
        theirs.close()
    for connection in runs.values():
        connection.recv()  # the end of its first steps, which are not counted

    def go_on(which: str) -> Any:
        runs[which].send("go on")
        return runs[which].recv()

    for number in range(steps // block):
        for which in RUNS[number % 3 :] + RUNS[: number % 3]:
            blocks[which].append(go_on(which))
    parts = {which: go_on(which) for which in RUNS}["both"]
    line: Line = {"steps": steps, "block": block, "parts of a checkpoint, ms": parts}
    for number, clock in enumerate(CLOCKS):
        seconds = {which: np.array(blocks[which])[:, number] for which in RUNS}
        line[f"{clock}, s"] = {which: round(float(seconds[which].sum()), 2) for which in RUNS}
        line[f"{clock}, lower quartile, ms"] = {
            which: round(1e3 * float(np.quantile(seconds[which], 0.25)), 2) for which in RUNS
        }
    return line


def summary(lines: list[Line], case: str) -> Line:
    """Per cent of throughput that are lost, round by round, and medians of the milliseconds of a checkpoint's parts."""
    of_case = [line for line in lines if line.get("script") == Path(__file__).name and line["case"] == case]
    told: Line = {"case": case, "rounds": len(of_case)}
    for number, clock in enumerate(CLOCKS):
        parts = {
            part: statistics.median(ms[number] for line in of_case for ms in line["parts of a checkpoint, ms"][part])
            for part, _, _ in PARTS
        }
        for what, other in (("checkpoints", "guard"), ("both", "neither")):
            sums = [line[f"{clock}, s"] for line in of_case]
            told[f"{clock}, {what}, % lost"] = [round(100 * (1 - one[other] / one["both"]), 1) for one in sums]
            least = [(line[f"{clock}, lower quartile, ms"], line["block"] / INTERVAL) for line in of_case]
            told[f"{clock}, {what}, % lost, lower quartiles"] = [
                round(100 * (1 - one[other] / (one["both"] + share * parts["whole"])), 1) for one, share in least
            ]
        told[f"{clock}, ms of a checkpoint"] = parts
    return told


@measuring()
def main() -> None:
    parser = parser_of(__doc__, "trust")
    parser.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--block", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [
        {"script": Path(__file__).name, "case": case, "round": number}
        for number in range(options.rounds)
        for case in options.case
    ]
    lines = measured_once(options, cases, lambda case: measure(case, options.steps, options.block))
    for case in options.case:
        print(json.dumps(summary(lines, case)))


if __name__ == "__main__":
    main()
