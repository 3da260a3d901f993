"""Distributions with only some actions allowed."""

from typing import Any

import torch

from pfrl_like.distributions.categorical import Categorical, MaskedCategorical
from pfrl_like.distributions.product_of_categoricals import ProductOfCategoricals


def masked(distribution: Any, action_mask: Any) -> MaskedCategorical | ProductOfCategoricals:
    """The same distribution with only some actions allowed.

    Args:
        distribution: A categorical distribution, of this package or of torch, or a product of such.
        action_mask: True where an action is allowed, tensor or array [..., n_actions] or [n_actions]; of a product the
            choices beside each other. A row that allows nothing allows everything.

    Raises:
        TypeError: If the distribution is no categorical one.
        ValueError: If the shape of the mask does not fit.
    """
    if isinstance(distribution, Categorical | ProductOfCategoricals):
        return distribution.masked(action_mask)
    if isinstance(distribution, torch.distributions.Categorical):
        return MaskedCategorical(distribution.logits, action_mask)
    raise TypeError(
        f"action_mask came with a policy that gives a {type(distribution).__name__}; only categorical actions can be "
        "forbidden: use a SoftmaxCategoricalHead or a MultiCategoricalHead"
    )
