"""Checks that the actions of policies, environments and datasets match."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from pfrl_like.distributions import ProductOfCategoricals, SquashedGaussian
from pfrl_like.nn import BoundByTanh
from pfrl_like.policies import DeterministicHead
from pfrl_like.utils.env_values import numbers_of_choices, space_kind

#: Suitable last layers of a policy, keyed by the kind of action space.
_HEADS = {
    "discrete": "SoftmaxCategoricalHead",
    "multi_discrete": "MultiCategoricalHead",
    "multi_binary": "MultiCategoricalHead",
    "box": "GaussianHeadWithStateIndependentCovariance",
}
#: Lower and upper bound of the actions: numbers, or arrays of the actions' shape.
Bounds = tuple[Any, Any]


def check_policy_fits(distribution: Any, action_space: Any, argument: str = "policy") -> None:
    """Check that a policy's actions match the action space of an environment.

    Args:
        distribution: Output of the policy for an arbitrary observation.
        action_space: Action space of the environment. If the space is of an unknown kind, nothing is checked.
        argument: Name of the policy in error messages.

    Raises:
        TypeError: If policy and environment have different kinds of actions, for example discrete and continuous.
        ValueError: If policy and environment differ in the number or shape of actions, or if the environment's first
            action is not 0.
    """
    kind = space_kind(action_space)
    if kind == "other":
        return
    size: Any
    if isinstance(distribution, Categorical):
        expected, size, space_size = "discrete", int(distribution.probs.shape[-1]), getattr(action_space, "n", None)
    elif isinstance(distribution, ProductOfCategoricals):
        expected, size = "multi_binary" if kind == "multi_binary" else "multi_discrete", list(distribution.nvec)
        space_size = numbers_of_choices(action_space) if kind == expected else None
    else:
        expected, size, space_size = "box", tuple(distribution.event_shape), getattr(action_space, "shape", None)
    if kind != expected:
        advice = f"use a policy that ends in {_HEADS[kind]}" if kind in _HEADS else "change the space with a wrapper"
        got = type(distribution).__name__
        raise TypeError(f"{argument} gives {got}, but the environment has {action_space}: {advice}")
    if size != space_size:
        raise ValueError(f"{argument} gives actions of size {size}, expected {space_size} as in {action_space}")
    start = getattr(action_space, "start", 0)
    if kind in ("discrete", "multi_discrete") and np.any(start != 0):
        raise ValueError(f"the first action of {action_space} is {start}, expected 0: shift the actions in a wrapper")


def bounds_of(policy: Any, distribution: Any) -> Bounds | None:
    """Return the bounds of a policy's actions. Return None if the actions have no bounds or unknown bounds.

    The bounds are known for squashed Gaussians, and for sequences of layers that end in Tanh or BoundByTanh and a
    DeterministicHead.

    Args:
        policy: The policy.
        distribution: Output of the policy for an arbitrary observation.
    """
    if isinstance(distribution, SquashedGaussian):
        return -1.0, 1.0
    before, head = [None, None, *_layers(policy)][-2:]
    if not isinstance(head, DeterministicHead):
        return None
    if isinstance(before, BoundByTanh):
        return before.low.cpu().numpy(), before.high.cpu().numpy()
    return (-1.0, 1.0) if isinstance(before, nn.Tanh) else None


def bounds_warning(bounds: Mapping[str, Bounds | None], action_space: Any) -> str:
    """Return a warning if action bounds of the agent differ from the environment's bounds, else an empty string.

    Args:
        bounds: Bounds of the actions, keyed by what applies them, "policy" or "explorer". None if unknown.
        action_space: Action space of the environment.
    """
    if space_kind(action_space) != "box":
        return ""
    low, high = action_space.low, action_space.high
    known = {part: each for part, each in bounds.items() if each is not None}
    different = {part: each for part, each in known.items() if np.any(each[0] != low) or np.any(each[1] != high)}
    if not different:
        return ""
    return f"actions are limited by {_bounds_text(different)}, but the environment has {action_space}: {_ADVICE}"


def _bounds_text(bounds: Mapping[str, Bounds]) -> str:
    return ", ".join(f"{part} to [{_bound_text(low)}, {_bound_text(high)}]" for part, (low, high) in bounds.items())


_ROUNDING = 1e-5
_ADVICE = (
    "pass the environment's bounds to them, or wrap the environment in NormalizeActionSpace, which scales actions from "
    "[-1, 1] to its bounds"
)


def _layers(module: Any) -> list[Any]:
    """Return the layers of a `Sequential` as a flat list. For any other module, the list contains only the module."""
    return [layer for part in module for layer in _layers(part)] if isinstance(module, nn.Sequential) else [module]


def _bound_text(bound: Any) -> str:
    values = np.unique(bound)
    return f"{values[0]:g}" if len(values) == 1 else str(np.asarray(bound).tolist())


_INDEX_ERROR = re.compile(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)")


def check_dataset(agent: Any, dataset: Any, n_frames: int = 1) -> None:
    """Check that the actions of a dataset match the agent.

    Log a warning if the dataset contains actions that the policy cannot produce.

    Args:
        agent: Agent that learns from minibatches.
        dataset: The dataset.
        n_frames: Number of stacked images.

    Raises:
        TypeError: If dataset and agent have different kinds of actions.
        ValueError: If the sizes of the continuous actions differ, if the dataset has more discrete actions than the
            agent, or if observations have the wrong shape.
    """
    obs = dataset.batch(np.zeros(1, np.int64), n_frames=n_frames).obs
    output = agent.dry_run(obs[0].numpy()) if isinstance(obs, torch.Tensor) else None
    agent._check_recorded_actions(dataset, output)


def raise_for_unknown_action(batch: Any, error: RuntimeError) -> None:
    """If `error` is an index error that an unknown action caused, raise an error with the action and its row.

    Args:
        batch: Minibatch whose update failed.
        error: The error that torch raised in the update.

    Raises:
        ValueError: If the minibatch contains a discrete action that the networks do not have.
    """
    match, action = _INDEX_ERROR.search(str(error)), batch.action
    is_discrete = isinstance(action, torch.Tensor) and not action.is_floating_point()
    if match and is_discrete and (action == int(match[1])).any():
        row, last = int((action == int(match[1])).nonzero()[0, 0]), int(match[2]) - 1
        text = f"action: row {row} of the minibatch has {match[1]}, expected integers from 0 to {last}"
        raise ValueError(f"{text} for these networks") from error


def check_kind(agent: Any, dataset: Any, discrete: bool, others: str) -> None:
    """Check that a dataset and an agent have the same kind of actions.

    Args:
        agent: The agent.
        dataset: The dataset.
        discrete: True if the agent's actions are discrete.
        others: Names of agents for the other kind of actions, for the error message.

    Raises:
        TypeError: If the dataset's actions are of the other kind.
    """
    if dataset.is_action_discrete() != discrete:
        kinds = ("discrete", "continuous") if discrete else ("continuous", "discrete")
        text = "{} has {} actions, but the dataset's actions are {}; use {}"
        raise TypeError(text.format(type(agent).__name__, *kinds, others))


def check_size(agent: Any, dataset: Any, size: int) -> None:
    """Check the number of a dataset's discrete actions, or the size of its continuous actions.

    Args:
        agent: Agent with the same kind of actions as the dataset.
        dataset: The dataset.
        size: Number of the agent's discrete actions, or size of a continuous action.

    Raises:
        ValueError: If the dataset has more discrete actions than the agent, or if the sizes of the continuous actions
            differ.
    """
    name, data_size = type(agent).__name__, dataset.get_action_size()
    if dataset.is_action_discrete():
        if data_size > size:
            raise ValueError(f"{name} has {size} discrete actions, but the dataset has action {data_size - 1}")
    elif data_size != size:
        raise ValueError(f"{name} has actions of size {size}, but the dataset has actions of size {data_size}")


def warn_of_actions_outside_bounds(agent: Any, dataset: Any, distribution: Any) -> None:
    """Log a warning if the agent cannot produce some of the dataset's continuous actions."""
    actions = dataset.actions
    lowest, highest = actions.min(0), actions.max(0)
    narrow = {
        part: each
        for part, each in agent._bounds_of_actions(distribution).items()
        if each is not None and ((lowest < each[0] - _ROUNDING) | (highest > each[1] + _ROUNDING)).any()
    }
    if narrow:
        agent.logger.warning(
            f"the dataset's actions lie in [{_bound_text(lowest.min())}, {_bound_text(highest.max())}], but the agent "
            f"is limited by {_bounds_text(narrow)}: scale the actions, and wrap the environment in NormalizeActionSpace"
        )
