"""Runs that change what is stored, are stopped, and go on from a checkpoint as if they had not been stopped."""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.experiments import train_agent
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed

STEPS, CHECKPOINT_FREQ, STOPPED_AT = 40, 12, 33
FRAME = (16, 16)


class Wander(gymnasium.Env):
    """Two numbers that wander with the actions, from the environment's own stream; or two images of them."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, in_frames: bool) -> None:
        self.frames: deque[Any] | None = deque(maxlen=2) if in_frames else None
        space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0, 255, (2, *FRAME), np.uint8) if in_frames else space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t, self.place = 0, self.np_random.normal(size=2).astype(np.float32)
        if self.frames is not None:
            self.frames.append(np.zeros(FRAME, np.uint8))
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.place = np.sin(self.place + action + self.np_random.normal(size=2)).astype(np.float32)
        return self.observe(), float(self.place[0]), bool(self.place[1] > 0.9), self.t == 7, {}

    def observe(self) -> Any:
        if self.frames is None:
            return self.place
        self.frames.append(np.resize(np.uint8(128 + 90 * self.place), FRAME))
        return np.stack(self.frames)


BUFFERS: dict[str, Callable[[], Any]] = {
    "plain": lambda: ReplayBuffer(30),
    "n-step": lambda: ReplayBuffer(30, num_steps=3),
    "frames": lambda: ReplayBuffer(30),
    "prioritised": lambda: PrioritizedReplayBuffer(30, num_steps=2),
    "episodic": lambda: EpisodicReplayBuffer(30),
}


def made(kind: str, env: Any) -> DQN:
    set_random_seed(0)
    if kind == "frames":
        layers: list[nn.Module] = [nn.Flatten(), nn.Linear(2 * FRAME[0] * FRAME[1], 2)]
    else:
        layers = [nn.GRU(2, 4), nn.Linear(4, 2)] if kind == "episodic" else [nn.Linear(2, 2)]
    sequential = RecurrentSequential if kind == "episodic" else nn.Sequential
    q_function = sequential(*layers, DiscreteActionValueHead())
    return DQN(
        q_function, torch.optim.Adam(q_function.parameters(), 1e-2), BUFFERS[kind](), 0.9,
        ConstantEpsilonGreedy(0.5, env.action_space.sample), replay_start_size=10, minibatch_size=2,
        target_update_interval=9, recurrent=kind == "episodic", episodic_update_len=4 if kind == "episodic" else None,
        phi=(lambda obs: np.asarray(obs, np.float32) / 255) if kind == "frames" else None,
    )  # fmt: skip


def change(env: Any, agent: Any, t: int) -> None:
    """A hook of the user's: changes the newest steps, and some that were drawn, some of which were saved before."""
    buffer = agent.replay_buffer
    if len(buffer) < 5:
        return
    memory = getattr(buffer.memory, "data", buffer.memory)
    newest = memory[-1][-1]
    newest["action"] = 1 - int(newest["action"])
    step, other = (memory[i][0] for i in np.random.randint(len(memory), size=2))
    step["reward"] -= 0.5
    if t % 3 == 0:
        step.update(state=other["state"], is_state_terminal=not step["is_state_terminal"])
    if t % 4 == 0:
        step["next_state"] = other["state"]
        newest |= {"next_state": other["state"]}


class Stopped(Exception):
    """Ends a run."""


def stop(env: Any, agent: Any, t: int) -> None:
    if t == STOPPED_AT:
        raise Stopped


def run(kind: str, outdir: Path, hooks: Any, **options: Any) -> dict[str, Any]:
    """What a run leaves."""
    env = Wander(kind == "frames")
    env.reset(seed=3)
    env.action_space.seed(3)
    agent = made(kind, env)
    train_agent(agent, env, STEPS, outdir, checkpoint_freq=CHECKPOINT_FREQ, step_hooks=hooks, **options)
    stored = agent.replay_buffer.state_dict()
    frames = ("obs/0/frames", "obs/0/index")  # what two segments have in common is there twice
    return {
        "parameters": [value.tolist() for value in agent.model.parameters()],
        "buffer": stored["header"],
        "arrays": {name: array.tolist() for name, array in stored["arrays"].items() if name not in frames},
        "statistics": agent.get_statistics(),
    }  # fmt: skip


@pytest.fixture(autouse=True)
def small_segments_whose_changes_come_as_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfrl_like.replay_buffers.saved._LARGEST", 4)
    monkeypatch.setattr("pfrl_like.replay_buffers.saved._WORN", 1)


KINDS = [pytest.param(kind, marks=[] if kind in ("n-step", "episodic") else pytest.mark.slow) for kind in BUFFERS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_changes_what_is_stored_goes_on_as_if_it_had_not_been_stopped(kind: str, tmp_path: Path) -> None:
    whole = run(kind, tmp_path / "whole", [change])
    with pytest.raises(Stopped):
        run(kind, tmp_path / "stopped", [change, stop])
    came = run(kind, tmp_path / "stopped", [change], resume=True)
    assert json.loads((tmp_path / "stopped" / "run.json").read_text())["resumed"]["resume"] == "exact"
    assert came == whole


@pytest.mark.slow
def test_the_changes_count_in_what_is_learnt(tmp_path: Path) -> None:
    assert run("plain", tmp_path / "a", [change])["parameters"] != run("plain", tmp_path / "b", [])["parameters"]
