"""Which policies fit which environments."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn
from torch.distributions import Categorical

from pfrl_like.distributions import ProductOfCategoricals, SquashedGaussian
from pfrl_like.nn import BoundByTanh
from pfrl_like.policies import DeterministicHead
from pfrl_like.utils.spaces import space_kind

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
        wanted = getattr(action_space, "nvec", [])
        wanted = [int(n) for n in wanted]
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


def bounds_that_are_left(bounds: Mapping[str, Bounds | None], actions: Any) -> str:
    """What is to be told of recorded actions that lie outside some bounds; nothing if there are none.

    Args:
        bounds: As of `bounds_that_differ`.
        actions: The actions, [n, A].
    """
    lowest, highest = actions.min(0), actions.max(0)
    left = {
        what: each
        for what, each in bounds.items()
        if each is not None and ((lowest < each[0] - _ROUNDING) | (highest > each[1] + _ROUNDING)).any()
    }
    return (
        f"actions of the data lie in [{_in_words(lowest.min())}, {_in_words(highest.max())}], but are kept by "
        f"{_kept(left)}: scale them, and wrap the environment in NormalizeActionSpace"
        if left
        else ""
    )


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
