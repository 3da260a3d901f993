"""What agents do wrong with an episode's end, to be put before any agent's class."""

import dataclasses
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from pfrl_like.learning.rollout import Episodes


class CutsOffAsTerminal:
    """Treats truncation as termination."""

    def batch_observe(self, obs: Any, reward: Any, done: Any, reset: Any, **told: Any) -> None:
        super().batch_observe(obs, reward, np.logical_or(done, reset), reset, **told)  # type: ignore[misc]


class NeverTerminal:
    """Treats termination as truncation."""

    def batch_observe(self, obs: Any, reward: Any, done: Any, reset: Any, **told: Any) -> None:
        reset = np.logical_or(done, reset)
        super().batch_observe(obs, reward, np.zeros_like(reset), reset, **told)  # type: ignore[misc]


class WaitsForTheNextObservation:
    """Takes what it acts on next for what came of the last step."""

    waiting: Any = None

    def batch_observe(self, obs: Any, reward: Any, done: Any, reset: Any, **told: Any) -> None:
        self.waiting = (reward, done, reset), told

    def batch_act(self, batch_obs: Any, **told: Any) -> Any:
        if self.waiting is not None:
            step, told_before = self.waiting
            super().batch_observe(batch_obs, *step, **told_before)  # type: ignore[misc]
        return super().batch_act(batch_obs, **told)  # type: ignore[misc]


class ForgetsWhoIsActive:
    """Takes a step in which an environment only reset itself for one of an episode."""

    def batch_observe(self, obs: Any, reward: Any, done: Any, reset: Any, **told: Any) -> None:
        super().batch_observe(obs, reward, done, reset)  # type: ignore[misc]


class NeverEnds:
    """Joins episodes."""

    def batch_observe(self, obs: Any, reward: Any, done: Any, reset: Any, **told: Any) -> None:
        nothing = np.zeros(len(obs), bool)
        super().batch_observe(obs, reward, nothing, nothing, **told)  # type: ignore[misc]


class SwapsEnvironments:
    """Takes the rewards of environments for those of others."""

    def batch_observe(self, obs: Any, reward: Any, done: Any, reset: Any, **told: Any) -> None:
        super().batch_observe(obs, np.roll(reward, 1), done, reset, **told)  # type: ignore[misc]


class GammaForDiscount:
    """Bootstraps after every step."""

    def loss(self, batch: Any) -> Any:
        return super().loss(batch.replace(discount=torch.full_like(batch.discount, self.gamma)))  # type: ignore[misc, attr-defined]

    def _with_advantages(self, episodes: Episodes, gae_lambda: float) -> Any:
        discount = torch.full_like(episodes.steps.discount, self.gamma)  # type: ignore[attr-defined]
        episodes = dataclasses.replace(episodes, steps=episodes.steps.replace(discount=discount))
        return super()._with_advantages(episodes, gae_lambda)  # type: ignore[misc]


def kind_of(fault: type, base: type[Any]) -> type[Any]:
    """The class of agents with a fault."""
    return type(fault.__name__, (fault, base), {})


def with_fault(fault: type, agent: Any) -> Any:
    """The agent, which now has a fault."""
    agent.__class__ = kind_of(fault, type(agent))
    return agent


#: What is wrong with the end of an episode, each with a mode in which it shows.
FAULTY_ENDS: list[tuple[type, AutoresetMode]] = [
    (CutsOffAsTerminal, AutoresetMode.SAME_STEP),
    (NeverTerminal, AutoresetMode.DISABLED),
    (WaitsForTheNextObservation, AutoresetMode.SAME_STEP),
    (ForgetsWhoIsActive, AutoresetMode.NEXT_STEP),
]
