"""The parts that agents share: environments, explorers, replay buffers, optimisers.

A case names the agent and the parts that it is made of; `registry` says which there are.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from network_parts import HEADS, OBS
from torch import nn

from pfrl_like import explorers, replay_buffers
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION, concatenate_goal

Case = dict[str, Any]


class Noise(gymnasium.Env[Any, Any]):
    """Random observations and rewards; every fourth step ends an episode, which is terminated and cut off in turn.

    Args:
        action_space: Its actions, which change nothing.
        goals: Whether observations are those of a goal environment.
    """

    N_GOAL = 2

    def __init__(self, action_space: spaces.Space[Any], goals: bool = False) -> None:
        self.action_space, self.goals, self.t = action_space, goals, 0
        parts = {OBSERVATION: OBS - self.N_GOAL, ACHIEVED_GOAL: self.N_GOAL, DESIRED_GOAL: self.N_GOAL}
        boxes = {name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in parts.items()}
        self.observation_space = spaces.Dict(boxes) if goals else spaces.Box(-np.inf, np.inf, (OBS,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        ends = self.t % 4 == 0
        return self.observe(), float(self.np_random.normal()), ends and self.t % 8 == 0, ends and self.t % 8 == 4, {}

    def observe(self) -> Any:
        space = self.observation_space
        boxes = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        drawn = {name: self.np_random.normal(size=box.shape).astype(np.float32) for name, box in boxes.items()}
        return drawn if self.goals else drawn[""]


def agreement(achieved: Any, desired: Any, info: Any) -> Any:
    """The reward of goals."""
    return -np.square(achieved - desired).sum(-1)


# Explorers and replay buffers


def draw(space: Any) -> Any:
    """A random action, from NumPy's global stream."""
    if isinstance(space, spaces.Box):
        return np.random.uniform(space.low, space.high).astype(np.float32)
    return np.random.randint(space.n)


EXPLORERS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "Greedy": lambda sample: explorers.Greedy(),
    "ConstantEpsilonGreedy": lambda sample: explorers.ConstantEpsilonGreedy(0.3, sample),
    "LinearDecayEpsilonGreedy": lambda sample: explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 20, sample),
    "ExponentialDecayEpsilonGreedy": lambda sample: explorers.ExponentialDecayEpsilonGreedy(1.0, 0.1, 0.9, sample),
    "Boltzmann": lambda sample: explorers.Boltzmann(),
    "AdditiveGaussian": lambda sample: explorers.AdditiveGaussian(0.1, -1.0, 1.0),
    "AdditiveOU": lambda sample: explorers.AdditiveOU(),
}
ONLY_DISCRETE, ONLY_CONTINUOUS = {"Boltzmann"}, {"AdditiveGaussian", "AdditiveOU"}

BUFFERS: dict[str, Callable[[Path], Any]] = {
    "ReplayBuffer": lambda folder: replay_buffers.ReplayBuffer(100),
    "PrioritizedReplayBuffer": lambda folder: replay_buffers.PrioritizedReplayBuffer(100, num_steps=3),
    "EpisodicReplayBuffer": lambda folder: replay_buffers.EpisodicReplayBuffer(100),
    "PrioritizedEpisodicReplayBuffer": lambda folder: replay_buffers.PrioritizedEpisodicReplayBuffer(100),
    "PersistentReplayBuffer": lambda folder: replay_buffers.PersistentReplayBuffer(folder / "buffer", 100, num_steps=3),
    "PersistentEpisodicReplayBuffer": lambda folder: replay_buffers.PersistentEpisodicReplayBuffer(
        folder / "buffer", 100
    ),
    "HindsightReplayBuffer": lambda folder: replay_buffers.HindsightReplayBuffer(
        100, agreement, terminated_fn=lambda achieved, desired, info: np.zeros(len(achieved), bool)
    ),
}
EPISODIC = {"EpisodicReplayBuffer", "PrioritizedEpisodicReplayBuffer", "PersistentEpisodicReplayBuffer"}
#: Small names for some of them, of any capacity.
MAKE_BUFFER: dict[str, Callable[..., Any]] = {
    "uniform": replay_buffers.ReplayBuffer,
    "3-step": functools.partial(replay_buffers.ReplayBuffer, num_steps=3),
    "prioritized": replay_buffers.PrioritizedReplayBuffer,
    "3-step prioritized": functools.partial(replay_buffers.PrioritizedReplayBuffer, num_steps=3),
    "episodic": replay_buffers.EpisodicReplayBuffer,
    "prioritized episodic": replay_buffers.PrioritizedEpisodicReplayBuffer,
}
REPLAY = {"gamma": 0.9, "replay_start_size": 8, "minibatch_size": 4, "update_interval": 4}


def replay(case: Case, folder: Path) -> dict[str, Any]:
    """The arguments that all agents with a replay buffer have."""
    phi = {"phi": concatenate_goal} if is_of_goals(case) else {}
    recurrent = {"recurrent": True, "episodic_update_len": 3} if case["recurrent"] else {}
    return {"replay_buffer": BUFFERS[case["replay_buffer"]](folder), **REPLAY, **recurrent, **phi}


def of_replay(kind: Any, recurrent: bool) -> dict[str, Any]:
    """The same of an agent that learns within a few steps."""
    common = {"replay_buffer": a_buffer(recurrent), "gamma": 0.9, "replay_start_size": 10, "minibatch_size": 4}
    return common | ({"recurrent": recurrent, "episodic_update_len": 4} if kind._may_be_recurrent else {})


def a_buffer(recurrent: bool) -> Any:
    """An empty one of 1,000 transitions."""
    return MAKE_BUFFER["episodic" if recurrent else "uniform"](1_000)


def is_of_goals(case: Case) -> bool:
    return case.get("replay_buffer") == "HindsightReplayBuffer"


def of_networks(case: Case) -> bool:
    """Whether the networks are recurrent, which the agent is told by `recurrent`."""
    return case.get("networks", case["recurrent"])


def misfit_in_buffer(case: Case) -> bool:
    if case["recurrent"]:
        return case["replay_buffer"] not in EPISODIC
    return case["replay_buffer"] == "PrioritizedEpisodicReplayBuffer"


# Optimisers


def adam(*modules: nn.Module) -> Any:
    return torch.optim.Adam([param for module in modules for param in module.parameters()], lr=1e-2)


def sgd(*modules: nn.Module, lr: float = 0.05) -> torch.optim.Optimizer:
    """An optimiser whose steps are as long as the gradients."""
    return torch.optim.SGD(nn.ModuleList(modules).parameters(), lr=lr)


def adadelta(*modules: nn.Module) -> torch.optim.Optimizer:
    """An optimiser that cannot be compiled."""
    return torch.optim.Adadelta(nn.ModuleList(modules).parameters())


RECURRENT = (False, True)
#: Heads of policies whose distributions have a density.
DENSITIES = ("Gaussian", "Gaussian, fixed", "Gaussian, learnt", "squashed")


def policy_space(case: Case) -> spaces.Space[Any]:
    return HEADS[case["policy"]][2]
