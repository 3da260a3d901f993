"""The sets that come with the package; `benchmarks/make_small_datasets.py` made them."""

from importlib import resources
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.dataset import MDPDataset


def get_cartpole() -> tuple[MDPDataset, Any]:
    """Episodes of CartPole-v1: random play, and a CategoricalDQN that was stopped half-way, or had learnt the task.

    How they were made, and the return of each episode, is told by `datasets/data/cartpole.json` in the package.

    Returns:
        The dataset, and the environment.
    """
    return _shipped("cartpole"), gymnasium.make("CartPole-v1")


def get_pendulum() -> tuple[MDPDataset, Any]:
    """Episodes of Pendulum-v1: random play, and a SoftActorCritic that was stopped half-way, or had learnt the task.

    Actions are in [-1, 1], as bounded policies give them; the environment rescales them to torques.
    `datasets/data/pendulum.json` in the package tells how they were made.

    Returns:
        The dataset, and the environment.
    """
    env = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    return _shipped("pendulum"), env


def _shipped(name: str) -> MDPDataset:
    with resources.as_file(resources.files("pfrl_like.datasets") / "data" / f"{name}.npz") as path:
        return MDPDataset.load(path)
