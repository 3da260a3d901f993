"""DQN on Pong beside PFRL and stable-baselines3: steps per second, bytes a transition, memory with the buffer full.

`python benchmarks/atari.py --peer-python PATH --results benchmarks/results/atari.jsonl`, with an interpreter that has
pfrl, stable_baselines3, ale-py and opencv-python-headless. Every measurement is a process of its own with one thread,
the libraries take turns, and runs that the results file holds already are not made again. The network is that of 2015,
with a minibatch of 32 every fourth step. Buffers hold half of the steps, so that memory has to stay what it is from
then on. pfrl_like steps its own wrappers; PFRL's need an older gym, so the peers step gymnasium's, which show the same
frames, and PFRL stacks them in its LazyFrames.
"""

import argparse
import collections
import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import ale_py
import gymnasium
import numpy as np
import torch
from measurement_lock import measuring
from torch import nn

ROOT = Path(__file__).parents[1]
GAME = "ALE/Pong-v5"
LIBRARIES = ("pfrl_like", "pfrl", "stable_baselines3")
REPLAY_START = 1_000
WARM_STEPS = 1_200  # not measured
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


class Done(Exception):
    """Ends a training run from inside its environment, the same way for every library."""


class Meter(gymnasium.Wrapper):
    """Measures time from step `WARM_STEPS` to step `steps`, then raises Done.

    Memory is what the second half of a buffer of `steps` // 2 takes, when all else has been allocated; what it grows by
    once the buffer is full is told apart.
    """

    def __init__(self, env: gymnasium.Env, steps: int) -> None:
        super().__init__(env)
        self.steps, self.t = steps, 0
        self.result: dict[str, float] = {}

    def step(self, action: Any) -> Any:
        if self.t == WARM_STEPS:
            self.start = time.perf_counter()
        elif self.t == self.steps // 4:
            self.bytes = resident_bytes()
        elif self.t == self.steps // 2:
            self.full_bytes = resident_bytes()
        elif self.t == self.steps:
            filled = self.steps // 2 - self.steps // 4
            self.result = {
                "rate": (self.steps - WARM_STEPS) / (time.perf_counter() - self.start),
                "bytes": (self.full_bytes - self.bytes) / filled,
                "growth": (resident_bytes() - self.full_bytes) / 2**20,
            }
            raise Done
        self.t += 1
        return self.env.step(action)


class LazyStacks:
    """A gymnasium environment of frames as PFRL 0.4 expects it: four values, and stacks in its own LazyFrames."""

    def __init__(self, env: gymnasium.Env, lazy_frames: Any) -> None:
        self.env, self.lazy_frames = env, lazy_frames
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.frames: collections.deque = collections.deque(maxlen=4)

    def reset(self) -> Any:
        self.frames.extend([self.env.reset()[0][None]] * 4)
        return self.lazy_frames(list(self.frames), stack_axis=0)

    def step(self, action: Any) -> tuple[Any, Any, bool, dict]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.frames.append(obs[None])
        info["needs_reset"] = truncated
        return self.lazy_frames(list(self.frames), stack_axis=0), reward, terminated, info


def resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def make_frames() -> gymnasium.Env:
    """Grey frames [84, 84] by gymnasium's wrappers, rewards clipped."""
    env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make(GAME, frameskip=1), terminal_on_life_loss=True)
    return gymnasium.wrappers.TransformReward(env, lambda reward: float(np.sign(reward)))


def train_dqn(library: Any, steps: int) -> dict[str, float]:
    """PFRL and pfrl_like, by the same lines but for the environment."""
    if library.__name__ == "pfrl":
        meter = Meter(make_frames(), steps)
        lazy_frames = importlib.import_module("pfrl.wrappers.atari_wrappers").LazyFrames
        env: Any = LazyStacks(meter, lazy_frames)
    else:
        wrappers = library.wrappers.atari_wrappers
        env = meter = Meter(wrappers.wrap_deepmind(wrappers.make_atari(GAME)), steps)
    env.action_space.seed(0)
    model = nn.Sequential(library.nn.LargeAtariCNN(), nn.Linear(512, 6), library.q_functions.DiscreteActionValueHead())
    agent = library.agents.DQN(
        model,
        torch.optim.Adam(model.parameters(), lr=1e-4),
        library.replay_buffers.ReplayBuffer(steps // 2),
        0.99,
        library.explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 10_000, env.action_space.sample),
        replay_start_size=REPLAY_START,
        minibatch_size=32,
        update_interval=4,
        target_update_interval=10_000,
        # Called by hand: NumPy 2 hands __array__ an argument that PFRL's LazyFrames does not know.
        phi=lambda x: (x if isinstance(x, np.ndarray) else x.__array__()).astype(np.float32) / 255,
    )
    with tempfile.TemporaryDirectory() as outdir, contextlib.suppress(Done):
        library.experiments.train_agent(agent, env, 10**9, outdir)
    return meter.result


def train_sb3(library: Any, steps: int) -> dict[str, float]:
    """The same work with stable-baselines3's DQN."""
    meter = Meter(gymnasium.wrappers.FrameStackObservation(make_frames(), 4), steps)
    agent = library.DQN(
        "CnnPolicy",
        meter,
        learning_rate=1e-4,
        buffer_size=steps // 2,
        learning_starts=REPLAY_START,
        batch_size=32,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=10_000,
        device="cpu",
    )
    with contextlib.suppress(Done):
        agent.learn(10**9)
    return meter.result


def measure_here(name: str, steps: int) -> dict[str, float]:
    gymnasium.register_envs(ale_py)
    torch.set_num_threads(1)
    np.random.seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old gym, imported by PFRL, complains of being old
        library = importlib.import_module(name)
        return train_sb3(library, steps) if name == "stable_baselines3" else train_dqn(library, steps)


def measure(python: str, name: str, steps: int) -> dict[str, float]:
    """The same in a process of its own."""
    environ = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}
    if name != "pfrl_like":
        del environ["PYTHONPATH"]
    command = [python, __file__, "--measure", name, "--steps", str(steps)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


@measuring()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has the peers installed")
    parser.add_argument("--steps", type=int, default=20_000, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("results") / "atari.jsonl")
    parser.add_argument("--measure", choices=LIBRARIES, help="print one measurement, made in this process")
    args = parser.parse_args()
    if args.steps <= 4 * WARM_STEPS:
        parser.error(f"--steps is {args.steps}, expected more than {4 * WARM_STEPS}")
    if args.measure:
        print(json.dumps(measure_here(args.measure, args.steps)))
        return

    lines = args.results.read_text().splitlines() if args.results.exists() else []
    runs = [run for run in map(json.loads, lines) if run["steps"] == args.steps]
    for number in range(args.rounds):
        for name in LIBRARIES:
            if any((run["library"], run["round"]) == (name, number) for run in runs):
                continue
            python = sys.executable if name == "pfrl_like" else args.peer_python
            run = {"library": name, "round": number, "steps": args.steps, **measure(python, name, args.steps)}
            runs.append(run)
            with args.results.open("a") as file:
                file.write(json.dumps(run) + "\n")

    print(f"{GAME}, {args.steps} steps, {args.rounds} rounds, medians\n")
    print("| library | steps/s | pfrl_like is faster by | bytes a transition | MiB more after the buffer is full |")
    print("| --- | --- | --- | --- | --- |")
    median = {
        (name, key): float(np.median([run[key] for run in runs if run["library"] == name]))
        for name in LIBRARIES
        for key in ("rate", "bytes", "growth")
    }
    for name in LIBRARIES:
        ratio = median["pfrl_like", "rate"] / median[name, "rate"]
        numbers = f"{ratio:.2f} | {median[name, 'bytes']:.0f} | {median[name, 'growth']:.1f}"
        print(f"| {name} | {median[name, 'rate']:.1f} | {numbers} |")


if __name__ == "__main__":
    main()
