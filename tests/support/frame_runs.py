"""Runs of on-policy agents that see frames, to be stopped: rollouts, recurrent states and statistics that take room."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from network_parts import OBS
from on_policy_parts import ON_POLICY, make_nets, make_on_policy
from pair_base import Case
from stopped_runs import NOISES, Plan, Wander
from torch import nn

from pfrl_like.storage import plain_tensors
from pfrl_like.utils.contexts import ignores_training

RUNNERS = ("train_agent_with_evaluation", "SerialVectorEnv", "MultiprocessVectorEnv", "SyncVectorEnv")


class Frames(Wander):
    """`Wander` as four frames, whose first pixels are what is seen."""

    def __init__(self, side: int, *args: Any) -> None:
        super().__init__(*args)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4, side, side), np.float32)

    def observe(self) -> Any:
        frames = np.zeros(self.observation_space.shape, np.float32)  # type: ignore[arg-type]
        frames.reshape(-1)[:OBS] = super().observe()
        return frames


@ignores_training
class FirstPixels(nn.Module):
    """What is seen in the frames."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.flatten(-3)[..., :OBS]


class FramePlan(Plan):
    """A run with small frames, in which what is more than a few numbers counts as many."""

    SIDE, ROLLOUT, FEW = 6, 30, 10

    @property
    def case(self) -> Case:
        drawn = random.Random(f"case {self}")
        return {"recurrent": drawn.random() < 0.5, "continuous": drawn.random() < 0.5}

    def env(self, seed: int = 0, noise: str | None = None) -> Frames:
        actions: Any = spaces.Box(-1, 1, (2,), np.float32) if self.case["continuous"] else spaces.Discrete(2)
        env = Frames(self.SIDE, actions, False, noise or self.noise)
        env.reset(seed=seed)
        return env

    def make(self, folder: Path) -> Any:
        plain_tensors._FEW_WORDS = self.FEW
        recurrent = self.case["recurrent"]
        layers = make_nets(recurrent, OBS, 2, self.case["continuous"])
        for net in layers:
            net.insert(0, FirstPixels())  # type: ignore[operator]
        n_envs = 1 if self.runner == RUNNERS[0] else self.sizes["n_envs"]
        own: dict[str, Any] = {
            "PPO": {"update_interval": self.ROLLOUT, "minibatch_size": 40, "value_stats_window": 2000},
            "A2C": {"num_processes": n_envs, "update_steps": self.ROLLOUT // n_envs},
            "IMPALA": {"update_interval": self.ROLLOUT},
            "APPO": {"update_interval": self.ROLLOUT, "minibatch_size": 40},
            "TRPO": {"update_interval": self.ROLLOUT, "vf_batch_size": 40},
            "REINFORCE": {"batchsize": self.ROLLOUT // 6},
        }[self.agent]
        return make_on_policy(self.agent, recurrent, nets=layers, **own)


class LargeFramePlan(FramePlan):
    """A run whose rollouts take more than 128 MiB as text: a mebibyte a step."""

    SIDE, ROLLOUT = 256, 130

    @property
    def sizes(self) -> dict[str, int]:
        return super().sizes | {
            "steps": random.Random(f"steps {self}").randint(300, 400), "checkpoint_freq": 110, "eval_interval": 200,
        }  # fmt: skip


def frame_plans(kind: type[FramePlan] = FramePlan) -> Iterator[FramePlan]:
    """Runs of all four agents in turn, with other runners and noises each time, for ever."""
    for number in itertools.count():
        for turn, (runner, noise) in enumerate(itertools.product(RUNNERS, NOISES)):
            yield kind(ON_POLICY[(turn + number) % len(ON_POLICY)], runner, noise, number)
