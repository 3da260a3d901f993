"""What the makers of offline data share: behaviours, recordings, and what is told of them."""

import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import gymnasium
import numpy as np
import torch

import pfrl_like
from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments import collect_demonstrations


class Behaviour:
    """An agent some of whose actions are replaced by random ones.

    Args:
        agent: The agent; None for random actions alone.
        sample: Gives a random action.
        noise: Share of random actions.
        seed: Which actions these are.
    """

    def __init__(self, agent: Any, sample: Callable[[], Any], noise: float, seed: int) -> None:
        self.agent, self.sample, self.noise = agent, sample, noise
        self.rng = np.random.default_rng(seed)

    def act(self, obs: Any) -> Any:
        """The agent's action, or a random one."""
        if self.agent is None or self.rng.random() < self.noise:
            return self.sample()
        return self.agent.act(obs)

    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        """Tell the agent what came."""
        if self.agent is not None:
            self.agent.observe(obs, reward, done, reset)

    def eval_mode(self) -> AbstractContextManager[Any]:
        """Neither learning nor exploring."""
        return self.agent.eval_mode() if self.agent is not None else tempfile.TemporaryDirectory()


def recorded(
    behaviour: Behaviour, env: gymnasium.Env, episodes: int | None, steps: int | None, seed: int
) -> MDPDataset:
    """So many episodes, or steps, of a behaviour."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    with tempfile.TemporaryDirectory() as outdir:
        return MDPDataset.from_buffer(collect_demonstrations(behaviour, env, steps, episodes, outdir))


def returns_of(dataset: MDPDataset) -> list[float]:
    """The return of each episode."""
    return [round(float(episode.compute_return()), 3) for episode in dataset.episodes]


def summary(returns: list[float]) -> dict[str, Any]:
    """Episodes, and the mean, deviation and extremes of their returns."""
    values = np.array(returns)
    told = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    return {"episodes": len(returns)} | {name: round(float(value), 2) for name, value in told.items()}


def versions(*packages: Any) -> dict[str, str]:
    """Versions of what made the data."""
    named = {package.__name__: package.__version__ for package in (pfrl_like, torch, np, gymnasium, *packages)}
    return named | {"python": platform.python_version()}


def chunks(total: int, size: int) -> Iterator[tuple[int, int]]:
    """(number, steps) of each of the parts that a total is made in."""
    for number, start in enumerate(range(0, total, size)):
        yield number, min(size, total - start)
