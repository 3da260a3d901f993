"""Checks of policies and datasets against action spaces."""

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
from pfrl_like.utils.env_values import space_kind

#: Least and largest actions, numbers or arrays of the actions' shape.
Bounds = tuple[Any, Any]


def check_policy_fits(distribution: Any, action_space: Any, argument: str = "policy") -> None:
    """Check that a policy's actions fit an environment.

    Args:
        distribution: Output of the policy for any observation.
        action_space: Action space of the environment; a space of unknown kind passes.
        argument: Name of the policy in error messages.

    Raises:
        TypeError: If the actions of the two are of different kinds.
        ValueError: If the number or shape of actions differs, or the environment's first action is not 0.
    """
    kind = space_kind(action_space)
    if kind == "other":
        return
    if isinstance(distribution, Categorical):
        expected, head = "discrete", "a SoftmaxCategoricalHead"
        came: Any = int(distribution.probs.shape[-1])
        wanted: Any = getattr(action_space, "n", None)
    elif isinstance(distribution, ProductOfCategoricals):
        expected, head, came = "multi_discrete", "a MultiCategoricalHead", list(distribution.nvec)
        wanted = [int(n) for n in getattr(action_space, "nvec", [])]
    else:
        expected, head, came = "box", "a head of Gaussians", tuple(distribution.event_shape)
        wanted = getattr(action_space, "shape", None)
    if kind != expected:
        fitting = {
            "discrete": "SoftmaxCategoricalHead",
            "multi_discrete": "MultiCategoricalHead",
            "box": "GaussianHeadWithStateIndependentCovariance",
        }.get(kind)
        way_out = f"use a policy that ends in {fitting}" if fitting else "wrap it, so that it has another space"
        raise TypeError(
            f"{argument} gives {type(distribution).__name__}, as of {head}, but the environment has {action_space}: "
            f"{way_out}"
        )
    if came != wanted:
        raise ValueError(f"{argument} gives actions of {came}, the environment has {wanted}: {action_space}")
    start = getattr(action_space, "start", 0)
    if kind == "discrete" and start != 0:
        raise ValueError(f"the environment has {action_space}, whose first action is {start}, expected 0: wrap it")


def bounds_of(policy: Any, distribution: Any) -> Bounds | None:
    """Return the bounds of a policy's actions, None if there are none or they are not known.

    They are known for squashed Gaussians, and for sequences of layers that end in Tanh or BoundByTanh and a
    DeterministicHead.

    Args:
        policy: The policy.
        distribution: Output of the policy for any observation.
    """
    if isinstance(distribution, SquashedGaussian):
        return -1.0, 1.0
    before, head = [None, None, *_layers(policy)][-2:]
    if not isinstance(head, DeterministicHead):
        return None
    if isinstance(before, BoundByTanh):
        return before.low.cpu().numpy(), before.high.cpu().numpy()
    return (-1.0, 1.0) if isinstance(before, nn.Tanh) else None


def bounds_that_differ(bounds: Mapping[str, Bounds | None], action_space: Any) -> str:
    """Return a warning if actions are kept in other bounds than the environment's; empty if not.

    Args:
        bounds: Least and largest actions, None if not known, by the part that keeps them, such as "policy".
        action_space: Action space of the environment.
    """
    if space_kind(action_space) != "box":
        return ""

    def is_that_of_the_space(bounds: Bounds) -> bool:
        ends = zip(bounds, (action_space.low, action_space.high), strict=True)
        return all(bool(np.all(np.equal(end, its))) for end, its in ends)

    differ = {what: each for what, each in bounds.items() if each is not None and not is_that_of_the_space(each)}
    return f"actions are kept by {_kept(differ)}, but the environment has {action_space}: {_WAY_OUT}" if differ else ""


def _kept(bounds: Mapping[str, Bounds]) -> str:
    return ", ".join(f"{what} in [{_in_words(low)}, {_in_words(high)}]" for what, (low, high) in bounds.items())


_ROUNDING = 1e-5
_WAY_OUT = "give these bounds, or wrap it in NormalizeActionSpace if [-1, 1] means its bounds"


def _layers(module: Any) -> list[Any]:
    """Return the layers of a `Sequential`, flattened; otherwise the module alone."""
    return [layer for part in module for layer in _layers(part)] if isinstance(module, nn.Sequential) else [module]


def _in_words(bound: Any) -> str:
    values = np.unique(bound)
    return f"{values[0]:g}" if len(values) == 1 else str(np.asarray(bound).tolist())


_NO_INDEX = re.compile(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)")


def check_dataset(agent: Any, dataset: Any, n_frames: int = 1) -> None:
    """Check that a dataset's actions fit the agent; warn of actions that its policy cannot produce.

    Args:
        agent: The agent, which learns from minibatches.
        dataset: The dataset.
        n_frames: Number of stacked images.

    Raises:
        TypeError: If actions are of another kind.
        ValueError: If continuous actions have another size, there are more discrete actions than the agent has, or
            observations do not fit.
    """
    obs = dataset.batch(np.zeros(1, np.int64), n_frames=n_frames).obs
    output = agent.dry_run(obs[0].numpy()) if isinstance(obs, torch.Tensor) else None
    agent._check_recorded_actions(dataset, output)


def refuse_unknown_actions(batch: Any, error: RuntimeError) -> None:
    """Name the unknown action and its row if it caused torch's error, which mentions only an index.

    Args:
        batch: The minibatch that could not be learnt from.
        error: The error that torch raised.

    Raises:
        ValueError: If the minibatch holds a discrete action that the networks do not have.
    """
    found, action = _NO_INDEX.search(str(error)), batch.action
    if (
        found
        and isinstance(action, torch.Tensor)
        and not action.is_floating_point()
        and (action == int(found[1])).any()
    ):
        row, last = int((action == int(found[1])).nonzero()[0, 0]), int(found[2]) - 1
        raise ValueError(
            f"action: row {row} of the minibatch has {found[1]}, expected integers from 0 to {last} as of the networks"
        ) from error


def check_kind(agent: Any, dataset: Any, discrete: bool, others: str) -> None:
    """Check that a dataset's actions are of the agent's kind.

    Args:
        agent: The agent.
        dataset: The dataset.
        discrete: True if the agent's actions are discrete.
        others: Agents for actions of the other kind, for the error.

    Raises:
        TypeError: If the dataset's actions are of the other kind.
    """
    if dataset.is_action_discrete() != discrete:
        ours, theirs = ("discrete", "continuous") if discrete else ("continuous", "discrete")
        raise TypeError(f"{type(agent).__name__} has {ours} actions, but the dataset has {theirs} ones; use {others}")


def check_size(agent: Any, dataset: Any, size: int) -> None:
    """Check the number of a dataset's discrete actions, or the size of its continuous ones.

    Args:
        agent: The agent, whose actions are of the same kind as the dataset's.
        dataset: The dataset.
        size: Number of the agent's discrete actions, or size of a continuous one.

    Raises:
        ValueError: If the dataset has more discrete actions than the agent, or continuous ones of another size.
    """
    name, found = type(agent).__name__, dataset.get_action_size()
    if dataset.is_action_discrete():
        if found > size:
            raise ValueError(f"{name} has {size} discrete actions, but the dataset has action {found - 1}")
    elif found != size:
        raise ValueError(f"{name} has actions of size {size}, but the dataset has those of size {found}")


def warn_of_actions_out_of_reach(agent: Any, dataset: Any, distribution: Any) -> None:
    """Log a warning if a policy of continuous actions cannot produce some of the dataset's actions."""
    actions = dataset.actions
    lowest, highest = actions.min(0), actions.max(0)
    left = {
        what: each
        for what, each in agent._bounds_of_actions(distribution).items()
        if each is not None and ((lowest < each[0] - _ROUNDING) | (highest > each[1] + _ROUNDING)).any()
    }
    if left:
        agent.logger.warning(
            f"actions of the data lie in [{_in_words(lowest.min())}, {_in_words(highest.max())}], but are kept by "
            f"{_kept(left)}: scale them, and wrap the environment in NormalizeActionSpace"
        )
