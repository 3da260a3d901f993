"""Environments, agents and a stop watch that the measurements of distributed training share."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pfrl_like import agents, explorers, policies, q_functions, replay_buffers, utils, wrappers
from pfrl_like.nn import ConcatObsAndAction

#: Sizes of observations and actions, those of HalfCheetah; and of frames and their stacks.
N_OBS, N_ACTIONS, SIDE, STACK = 17, 6, 84, 4
#: Frames are averaged over squares of this side.
POOL = 12
EPISODE = 1_000
CAPACITY = 2_048


class TimedEnv(gymnasium.Env):
    """Random observations. A step takes a given time.

    Args:
        compute: Seconds for which the processor works in a step.
        wait: Seconds for which a step sleeps.
        frames: True for frames of 84x84 pixels, False for vectors of 17 numbers.
        discrete: True for two discrete actions, False for actions of size 6.
    """

    def __init__(self, compute: float = 0.0, wait: float = 0.0, frames: bool = False, discrete: bool = False) -> None:
        self.compute, self.wait, self.t = compute, wait, 0
        box = gymnasium.spaces.Box
        self.observation_space = (
            box(0, 255, (1, SIDE, SIDE), np.uint8) if frames else box(-np.inf, np.inf, (N_OBS,), np.float32)
        )
        self.action_space = (
            gymnasium.spaces.Discrete(2) if discrete else box(-1.0, 1.0, (N_ACTIONS,), np.float32)
        )  # fmt: skip
        rng = np.random.default_rng(0)
        shape = self.observation_space.shape
        self.seen = [
            rng.integers(0, 256, shape, np.uint8) if frames else rng.standard_normal(shape, np.float32)
            for _ in range(16)
        ]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.seen[0].copy(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        if self.wait:
            time.sleep(self.wait)
        end = time.thread_time() + self.compute
        while time.thread_time() < end:
            pass
        self.t += 1
        return self.seen[self.t % len(self.seen)].copy(), 0.0, False, self.t == EPISODE, {}


def make_env(compute: float = 0.0, wait: float = 0.0, frames: bool = False, discrete: bool = False) -> Any:
    """A `TimedEnv`; frames are stacked by four."""
    env = TimedEnv(compute, wait, frames, discrete)
    return wrappers.atari_wrappers.FrameStack(env, STACK) if frames else env


class Delivered:
    """Mixin of agents that record which environments have delivered steps, and how long updates take."""

    environments: frozenset[int] = frozenset()
    update_seconds = 0.0
    newest: Any = None

    def observe_chunk(self, chunk: Any, env_ids: Any) -> None:
        self.environments |= set(env_ids)
        self.newest = chunk
        super().observe_chunk(chunk, env_ids)  # type: ignore[misc]

    def update_from_replay(self, *args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return super().update_from_replay(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.update_seconds += time.perf_counter() - begun


class WatchedDQN(Delivered, agents.DQN):
    """DQN that records what arrives."""


class WatchedSAC(Delivered, agents.SoftActorCritic):
    """Soft Actor-Critic that records what arrives."""


def mean_of_squares(obs: Any) -> NDArray[np.float32]:
    """The means of squares of each frame of a stack, so that an update costs what it costs with vectors."""
    n = SIDE // POOL
    frames = np.asarray(obs, np.float32).reshape(STACK, n, POOL, n, POOL)
    return (frames.mean((2, 4)) / 255.0).reshape(-1)


def mlp(n_inputs: int, n_outputs: int, width: int, *last: nn.Module) -> nn.Sequential:
    """Two hidden layers."""
    layers = nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_outputs)
    return nn.Sequential(*layers, *last)


def make_dqn() -> WatchedDQN:
    """DQN for vectors that does not learn, so that only acting and environments take time."""
    utils.set_random_seed(0)
    q_function = mlp(N_OBS, 2, 64, q_functions.DiscreteActionValueHead())
    explorer = explorers.ConstantEpsilonGreedy(0.1, gymnasium.spaces.Discrete(2, seed=0).sample)
    return WatchedDQN(
        q_function, torch.optim.Adam(q_function.parameters(), 1e-3), replay_buffers.ReplayBuffer(CAPACITY), 0.99,
        explorer, replay_start_size=100, update_interval=10**9, target_update_interval=10**9,
    )  # fmt: skip


def make_sac(frames: bool = False, width: int = 256, batch_size: int = 256) -> WatchedSAC:
    """Soft Actor-Critic with one update a step."""
    utils.set_random_seed(0)
    n_inputs = STACK * (SIDE // POOL) ** 2 if frames else N_OBS
    policy = mlp(n_inputs, 2 * N_ACTIONS, width, policies.SquashedGaussianHead())
    critics = [nn.Sequential(ConcatObsAndAction(), *mlp(n_inputs + N_ACTIONS, 1, width)) for _ in range(2)]
    optimizers = [torch.optim.Adam(module.parameters(), 3e-4) for module in (policy, *critics)]
    options: dict[str, Any] = {"phi": mean_of_squares} if frames else {}
    return WatchedSAC(
        policy, *critics, *optimizers, replay_buffers.ReplayBuffer(CAPACITY), 0.99, replay_start_size=batch_size,
        minibatch_size=batch_size, **options,
    )  # fmt: skip


class Windows:
    """Hook that counts steps in windows of time, and ends training after the last one.

    Args:
        has_begun: Function that returns True when the first window may begin.
        seconds: Length of a window, at least.
        n: Number of windows.
        at_end: Function that is called before training ends.

    Attributes:
        started_after: Seconds from the construction of the hook to the first window.
        marks: Time, steps and seconds of updates at the ends of windows.
        result: Result of `at_end`.
    """

    def __init__(
        self, agent: Any, has_begun: Callable[[], bool], seconds: float, n: int, at_end: Callable[[], Any] | None = None
    ) -> None:
        self.agent, self.has_begun, self.seconds, self.n, self.at_end = agent, has_begun, seconds, n, at_end
        self.made_at, self.marks, self.result = time.perf_counter(), [], None

    def __call__(self, clock: Any) -> None:
        now = time.perf_counter()
        if not self.marks:
            if self.has_begun():
                self.started_after = now - self.made_at
                self._mark(clock)
        elif now - self.marks[-1][0] >= self.seconds and clock.t > self.marks[-1][1]:
            self._mark(clock)
            if len(self.marks) > self.n:
                self.result = None if self.at_end is None else self.at_end()
                clock.stop()

    def _mark(self, clock: Any) -> None:
        self.marks.append((time.perf_counter(), clock.t, getattr(self.agent, "update_seconds", 0.0)))

    @property
    def rates(self) -> list[float]:
        """Steps per second in each window."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [round((after[1] - before[1]) / (after[0] - before[0]), 1) for before, after in pairs]

    @property
    def lost(self) -> list[float]:
        """Fraction of each window in which the learner made no update."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [round(1 - (after[2] - before[2]) / (after[0] - before[0]), 4) for before, after in pairs]


def processes() -> list[int]:
    """This process, its children, and theirs. Linux only."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def shared_megabytes() -> dict[str, float]:
    """Number of processes and their proportional set size (PSS), in MB. Pages that are shared count once in all."""
    total, pids = 0, processes()
    for pid in pids:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return {"processes": len(pids), "pss_mb": round(total * 1024 / 1e6, 1)}
