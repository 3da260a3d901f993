"""Agents and environments of runs in actors, which are made the same way every time."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from on_policy_parts import make_nets
from torch import nn

from pfrl_like.agents import A2C, DQN, PPO
from pfrl_like.envs import make_env
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import Branched, RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed


class Killed(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Ends its process once, at a step; a file shows that it has done so."""

    def __init__(self, env: Any, path: Path, step: int) -> None:
        super().__init__(env)
        self.path, self.left = path, step

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Faulty(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Raises an error at its first step."""

    def step(self, action: Any) -> Any:
        raise LookupError("the simulator has lost its world")


class Hanging(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Does not return from a step."""

    def __init__(self, env: Any, step: int) -> None:
        super().__init__(env)
        self.left = step

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            time.sleep(1000)
        return super().step(action)


class LaggedPPO(PPO):
    """PPO that stores the log-probabilities of the policy that acted, as agents do that correct for its age."""

    _acting_columns = ("log_prob",)


def cartpole(actor: int, index: int, test: bool) -> Any:
    """CartPole, seeded."""
    return make_env(gymnasium.make("CartPole-v1"), seed=100 * actor + 10 * index + test)


def numbered(actor: int, index: int, test: bool) -> Any:
    """CartPole whose rewards are the number of the actor."""
    return gymnasium.wrappers.TransformReward(cartpole(actor, index, test), lambda reward: float(actor))


def small_dqn(q_function: Any = None, **options: Any) -> DQN:
    """An agent that learns from the 20th step on, two steps at a time."""
    set_random_seed(0)
    if q_function is None:
        layers = nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)
        q_function = nn.Sequential(*layers, DiscreteActionValueHead())
    space = gymnasium.spaces.Discrete(2, seed=0)
    arguments = {
        "replay_buffer": ReplayBuffer(1000, num_steps=2), "gamma": 0.9, "replay_start_size": 20, "minibatch_size": 4,
        "explorer": ConstantEpsilonGreedy(0.5, space.sample), "target_update_interval": 15,
    }  # fmt: skip
    return DQN(q_function, torch.optim.Adam(q_function.parameters(), 1e-3), **arguments | options)


def recurrent_dqn() -> DQN:
    """An agent that learns from 4 episodes, or parts of 4 episodes."""
    set_random_seed(0)
    q_function = RecurrentSequential(nn.LSTM(4, 8), nn.Linear(8, 2), DiscreteActionValueHead())
    optimizer = torch.optim.Adam(q_function.parameters(), 1e-3)
    explorer = ConstantEpsilonGreedy(0.5, gymnasium.spaces.Discrete(2, seed=0).sample)
    options: dict[str, Any] = {"replay_start_size": 20, "minibatch_size": 4, "episodic_update_len": 5}
    buffer = EpisodicReplayBuffer(1000)
    return DQN(q_function, optimizer, buffer, 0.9, explorer, recurrent=True, target_update_interval=15, **options)


def small_on_policy(kind: str = "PPO", **options: Any) -> Any:
    """An agent for CartPole that learns every 32 steps of 4 environments."""
    set_random_seed(0)
    model = Branched(*make_nets(obs_size=4))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    if kind == "A2C":
        return A2C(model, optimizer, **{"gamma": 0.9, "num_processes": 4, "update_steps": 8, **options})
    options = {"gamma": 0.9, "update_interval": 32, "minibatch_size": 8, "epochs": 2, **options}
    return {"PPO": PPO, "LaggedPPO": LaggedPPO}[kind](model, optimizer, **options)


def numbers_of(agent: Any) -> np.ndarray:
    """All parameters of an agent's model, and the moments of its optimiser."""
    tensors = [*agent.model.parameters()]
    tensors += [each["exp_avg_sq"] for each in agent.optimizer.state.values()]
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy()


def rows_in(buffer: Any) -> np.ndarray:
    """All steps of a buffer of one-step items, [N, ...]: observation, action, reward and next observation."""
    steps = [step for (step,) in buffer.sample(len(buffer))]
    return np.array([(*step["state"], step["action"], step["reward"], *step["next_state"]) for step in steps])
