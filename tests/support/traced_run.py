"""Runs with mishaps, whose traces differ from those of runs without."""

import random
from pathlib import Path
from typing import Any

import gymnasium
import torch
from agent_parts import make_agent

from pfrl_like.experiments import train_agent
from pfrl_like.testing import Chain
from pfrl_like.utils import set_random_seed


class AnotherReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that gives another reward once, at some step."""

    def __init__(self, env: Any, at: int) -> None:
        super().__init__(env)
        self.at, self.steps = at, 0

    def step(self, action: Any) -> Any:
        obs, reward, *others = self.env.step(action)
        self.steps += 1
        return (obs, float(reward) + (self.steps == self.at), *others)


def run(
    outdir: Path,
    steps: int = 50,
    reward_at: int = 0,
    spoil_at: int = 0,
    draw_at: int = 0,
    buffer: Any = None,
    **options: Any,
) -> None:
    """A run of 50 steps with checkpoints every 20; at step `spoil_at` all parameters are changed a little.

    At step `draw_at` a number is drawn from the stream of `random`. The agent has a replay buffer of its own without
    `buffer`.
    """
    set_random_seed(0)
    agent = make_agent() if buffer is None else make_agent(replay_buffer=buffer)

    def spoil(env: Any, agent: Any, t: int) -> None:
        if t == draw_at:
            random.random()
        if t == spoil_at:
            with torch.no_grad():
                for param in agent.model.parameters():
                    param += 1e-3

    env = AnotherReward(Chain(time_limit=7), reward_at)
    env.reset(seed=0)
    train_agent(agent, env, steps, outdir, checkpoint_freq=20, step_hooks=[spoil], **options)
