"""Which policies and datasets fit which spaces."""

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
    """Refuse an environment whose actions are not those of a policy.

    Args:
        distribution: What the policy gives for some observation.
        action_space: The environment's; one of no known kind passes.
        argument: What errors call the policy.

    Raises:
        TypeError: If discrete actions meet continuous ones.
        ValueError: If the number or shape of actions differs, or they are not counted from 0.
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
        way_out = f"use a policy that ends in a {fitting}" if fitting else "wrap it, so that it has another space"
        raise TypeError(
            f"{argument} gives a {type(distribution).__name__}, as of {head}, but the environment has {action_space}: "
            f"{way_out}"
        )
    if came != wanted:
        raise ValueError(f"{argument} gives actions of {came}, the environment has {wanted}: {action_space}")
    start = getattr(action_space, "start", 0)
    if kind == "discrete" and start != 0:
        raise ValueError(f"the environment has {action_space}, whose first action is {start}, expected 0: wrap it")


def bounds_of(policy: Any, distribution: Any) -> Bounds | None:
    """Bounds of a policy's actions, None if there are none or they are not known.

    They are known of squashed Gaussians, and of rows of layers that end in Tanh or BoundByTanh and a DeterministicHead.

    Args:
        policy: The policy.
        distribution: What it gives for some observation.
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
    """What is to be told of actions in other bounds than those of an environment; nothing if there are none.

    Args:
        bounds: Least and largest actions, None if not known, by what keeps to them, as in "policy".
        action_space: The environment's.
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
    """The layers of a module that has them in a row, otherwise the module itself."""
    return [layer for part in module for layer in _layers(part)] if isinstance(module, nn.Sequential) else [module]


def _in_words(bound: Any) -> str:
    values = np.unique(bound)
    return f"{values[0]:g}" if len(values) == 1 else str(np.asarray(bound).tolist())


_NO_INDEX = re.compile(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)")


def check_dataset(agent: Any, dataset: Any, n_frames: int = 1) -> None:
    """Refuse a dataset whose actions are not those of the agent; warn of those that its policy cannot give.

    Args:
        agent: The agent, which learns from minibatches.
        dataset: The dataset.
        n_frames: How many images are stacked.

    Raises:
        TypeError: If actions are of another kind.
        ValueError: If continuous ones are of another size, or there are more discrete ones than the agent has, or
            observations do not fit.
    """
    obs = dataset.batch(np.zeros(1, np.int64), n_frames=n_frames).obs
    output = agent.dry_run(obs[0].numpy()) if isinstance(obs, torch.Tensor) else None
    agent.check_recorded_actions(dataset, output)


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
    actions = dataset.actions
    lowest, highest = actions.min(0), actions.max(0)
    left = {
        what: each
        for what, each in agent.bounds_of_actions(distribution).items()
        if each is not None and ((lowest < each[0] - _ROUNDING) | (highest > each[1] + _ROUNDING)).any()
    }
    if left:
        agent.logger.warning(
            f"actions of the data lie in [{_in_words(lowest.min())}, {_in_words(highest.max())}], but are kept by "
            f"{_kept(left)}: scale them, and wrap the environment in NormalizeActionSpace"
        )
