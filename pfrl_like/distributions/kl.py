"""Kullback-Leibler divergences, which `torch.distributions.kl_divergence` finds."""

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pfrl_like.distributions.categorical import Categorical, finite
from pfrl_like.distributions.diagonal_gaussian import DiagonalGaussian
from pfrl_like.distributions.product_of_categoricals import ProductOfCategoricals
from pfrl_like.distributions.squashed_gaussian import SquashedGaussian


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
