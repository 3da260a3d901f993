"""Whether an agent can learn from a dataset, told before a run begins."""

import re
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch

from pfrl_like.learning.compatibility.policy_spaces import bounds_that_are_left

_NO_INDEX = re.compile(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)")


class RecordedDataMixin(ABC):
    """How an agent that learns from minibatches looks at a dataset before it learns from it."""

    @abstractmethod
    def probe(self, observation_space: Any) -> Any:
        """What the network gives for one observation of a space; None if the space is of no known kind."""

    def check_dataset(self, dataset: Any, n_frames: int = 1) -> None:
        """Refuse a dataset whose actions are not those of the agent; warn of those that its policy cannot give.

        Args:
            dataset: The dataset.
            n_frames: How many images are stacked.

        Raises:
            TypeError: If actions are of another kind.
            ValueError: If continuous ones are of another size, or there are more discrete ones than the agent has, or
                observations do not fit.
        """
        self.check_recorded_actions(dataset, self.probe(first_observation(dataset, n_frames)))

    @abstractmethod
    def check_recorded_actions(self, dataset: Any, output: Any) -> None:
        """Do so for the actions, by what the network gives for one observation; None if that is not known."""


def refuse_unknown_actions(batch: Any, error: RuntimeError) -> None:
    """Name the action, if that is what torch complains of: it knows of an index only.

    Args:
        batch: The minibatch that could not be learnt from.
        error: What torch raised.

    Raises:
        ValueError: If a discrete action in it is none that the networks know.
    """
    found, action = _NO_INDEX.search(str(error)), batch.action
    if (
        found
        and isinstance(action, torch.Tensor)
        and not action.is_floating_point()
        and (action == int(found[1])).any()
    ):
        raise ValueError(
            f"action: the minibatch has {found[1]}, expected integers from 0 to {int(found[2]) - 1} as of the networks"
        ) from error


class OneObservation:
    """A space that holds one observation.

    Args:
        obs: The observation, an array.
    """

    def __init__(self, obs: Any) -> None:
        self.low = self.high = obs
        self.shape = obs.shape

    def sample(self) -> Any:
        """The observation."""
        return self.low.copy()


def first_observation(dataset: Any, n_frames: int) -> OneObservation | None:
    """The first observation of a dataset as a space, by which networks are tried; None if it is no array."""
    obs = dataset.batch(np.zeros(1, np.int64), n_frames=n_frames).obs
    return OneObservation(obs[0].numpy()) if isinstance(obs, torch.Tensor) else None


def check_kind(agent: Any, dataset: Any, discrete: bool, others: str) -> None:
    """Refuse a dataset of actions of the other kind.

    Args:
        agent: The agent.
        dataset: The dataset.
        discrete: Whether the agent's actions are.
        others: What is made for actions of the other kind.

    Raises:
        TypeError: If the dataset has such.
    """
    if dataset.is_action_discrete() != discrete:
        ours, theirs = ("discrete", "continuous") if discrete else ("continuous", "discrete")
        raise TypeError(f"{type(agent).__name__} has {ours} actions, but the dataset has {theirs} ones; use {others}")


def check_size(agent: Any, dataset: Any, size: int) -> None:
    """Refuse a dataset of more discrete actions than an agent has, or of continuous ones of another size.

    Args:
        agent: The agent, whose actions are of the kind of the dataset's.
        dataset: The dataset.
        size: How many discrete actions the agent has, or numbers of a continuous one.

    Raises:
        ValueError: If the dataset has such.
    """
    name, found = type(agent).__name__, dataset.get_action_size()
    if dataset.is_action_discrete():
        if found > size:
            raise ValueError(f"{name} has {size} discrete actions, but the dataset has action {found - 1}")
    elif found != size:
        raise ValueError(f"{name} has actions of size {size}, but the dataset has those of size {found}")


def warn_of_actions_out_of_reach(agent: Any, dataset: Any, distribution: Any) -> None:
    """Say that a policy of continuous actions cannot give some of the dataset's."""
    left = bounds_that_are_left(agent.bounds_of_actions(distribution), dataset.actions)
    if left:
        agent.logger.warning(left)
