"""Operations on distributions: divergences, masks, and samples with their log-probabilities."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pfrl_like.distributions.categorical import Categorical, MaskedCategorical, finite
from pfrl_like.distributions.diagonal_gaussian import DiagonalGaussian
from pfrl_like.distributions.product_of_categoricals import ProductOfCategoricals
from pfrl_like.distributions.squashed_gaussian import SquashedGaussian


def rsample_with_log_prob(distribution: Any) -> tuple[Tensor, Tensor]:
    """A sample that carries gradients, [..., n], and its log-probability, [...].

    Distributions that have `rsample_with_log_prob` do it in fewer operations and without rounding at their bounds.

    Args:
        distribution: Any with `rsample`.

    Raises:
        TypeError: If it has no `rsample`, as discrete ones.
    """
    if hasattr(distribution, "rsample_with_log_prob"):
        sample, log_prob = distribution.rsample_with_log_prob()
        return sample, log_prob
    if not getattr(distribution, "has_rsample", False):
        raise TypeError(
            f"policy gives a {type(distribution).__name__}, through whose samples no gradient flows: "
            "use a Gaussian head, squashed or not"
        )
    sample = distribution.rsample()
    return sample, distribution.log_prob(sample)


def log_prob_and_entropy(distribution: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of a value, and the entropy, both [...].

    Args:
        distribution: Any with `log_prob` and `entropy`.
        value: Actions, [..., n] or [...].
    """
    if hasattr(distribution, "log_prob_and_entropy"):
        log_prob, entropy = distribution.log_prob_and_entropy(value)
        return log_prob, entropy
    return distribution.log_prob(value), distribution.entropy()


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


def kl_of_diagonal_gaussians(p: DiagonalGaussian, q: DiagonalGaussian) -> Tensor:
    """KL(p || q) in nats, [...]."""
    shift = ((p.loc - q.loc) / q.scale).square()
    ratio = (p.scale / q.scale).square()
    return 0.5 * (shift + (ratio - 1 - ratio.log())).sum(-1)


def kl_of_squashed_gaussians(p: SquashedGaussian, q: SquashedGaussian) -> Tensor:
    """KL(p || q) in nats, [...]: that of what is squashed, since squashing can be undone."""
    return kl_of_diagonal_gaussians(p.base_dist, q.base_dist)


def kl_of_categoricals(p: Categorical, q: Categorical) -> Tensor:
    """KL(p || q) in nats, [...]; immense where q forbids what p does not."""
    divergence: Tensor = torch.linalg.vecdot(p.probs, finite(p.logits) - finite(q.logits))
    return divergence


def kl_of_products(p: ProductOfCategoricals, q: ProductOfCategoricals) -> Tensor:
    """KL(p || q) in nats, [...]."""
    return kl_of_categoricals(p.choices, q.choices).sum(-1)


register_kl(DiagonalGaussian, DiagonalGaussian)(kl_of_diagonal_gaussians)  # type: ignore[no-untyped-call]
register_kl(SquashedGaussian, SquashedGaussian)(kl_of_squashed_gaussians)  # type: ignore[no-untyped-call]
register_kl(Categorical, Categorical)(kl_of_categoricals)  # type: ignore[no-untyped-call]
register_kl(ProductOfCategoricals, ProductOfCategoricals)(kl_of_products)  # type: ignore[no-untyped-call]
