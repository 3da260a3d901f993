"""Which policies fit which environments."""

import logging
from typing import Any

import numpy as np
from torch.distributions import Categorical

from pfrl_like.distributions import ProductOfCategoricals
from pfrl_like.utils.spaces import space_kind


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


def warn_of_bounds(logger: logging.Logger, what: str, action_space: Any) -> None:
    """Say in the log if actions in [-1, 1] are not those of an environment, though they are taken there.

    Args:
        logger: Where it is said.
        what: What is bounded, as in "policy gives actions".
        action_space: The environment's; one without bounds says nothing.
    """
    if space_kind(action_space) == "box" and not (
        np.array_equal(action_space.low, -np.ones(action_space.shape))
        and np.array_equal(action_space.high, np.ones(action_space.shape))
    ):
        logger.warning(
            "%s in [-1, 1], but the environment has %s: wrap it in NormalizeActionSpace if it means its bounds",
            what, action_space,
        )  # fmt: skip
