"""Environments and reports of the scripts. `python NAME.py LIBRARY` runs a script on that library."""

import json
import sys
from importlib import import_module
from pathlib import Path

import gym
import numpy as np
import torch
from torch import nn

pfrl = import_module(sys.argv[1])
torch.manual_seed(0)
np.random.seed(0)
torch.set_num_threads(1)


class Walk(gym.Env):
    """Episodes of a given number of steps, each with reward 1; PFRL's interface: `step` returns four values."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length=10):
        self.length = length
        self.n_steps = self.n_resets = self.t = 0

    def observation(self):
        return np.array([1, self.t / self.length, self.t % 2, 0], dtype=np.float32)

    def seed(self, seed=None):
        return [seed]

    def reset(self):
        self.n_resets += 1
        self.t = 0
        return self.observation()

    def step(self, action):
        self.n_steps += 1
        self.t += 1
        return self.observation(), 1.0, self.t >= self.length, {}


class Arm(Walk):
    """The same with continuous actions."""

    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


def q_network(n_actions=3, n_obs=4):
    head = pfrl.q_functions.DiscreteActionValueHead()
    return nn.Sequential(nn.Linear(n_obs, 16), nn.ReLU(), nn.Linear(16, n_actions), head)


def gaussian_policy(n_hidden=16, n_actions=2):
    head = pfrl.policies.GaussianHeadWithStateIndependentCovariance(
        action_size=n_actions, var_type="diagonal", var_func=lambda x: torch.exp(2 * x), var_param_init=0
    )
    return nn.Sequential(nn.Linear(4, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_actions), head)


def critic():
    return nn.Sequential(pfrl.nn.ConcatObsAndAction(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))


def keys(statistics):
    return [name for name, _ in statistics]


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


def scores(folder):
    """Columns of scores.txt, and the steps, episodes and mean returns of its rows."""
    columns, *rows = [line.split("\t") for line in (Path(folder) / "scores.txt").read_text().splitlines()]
    return {"columns": columns, "rows": [[row[0], row[1], float(row[3])] for row in rows]}


def report(**counts):
    print(json.dumps(counts))
