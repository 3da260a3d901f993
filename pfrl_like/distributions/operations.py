"""Operations on distributions: divergences, masks, samples with their log-probabilities, parameters."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, TransformedDistribution
from torch.distributions.kl import register_kl

from pfrl_like.distributions.categorical import Categorical, MaskedCategorical, ProductOfCategoricals, finite
from pfrl_like.distributions.gaussian import DiagonalGaussian, SquashedGaussian


def rsample_with_log_prob(distribution: Any) -> tuple[Tensor, Tensor]:
    """Draw a sample that carries gradients, [..., n], and return its log-probability, [...], as well.

    Distributions with a method `rsample_with_log_prob` need fewer operations and do not round at their bounds.

    Args:
        distribution: Any distribution with `rsample`.

    Raises:
        TypeError: If it has no `rsample`, such as a discrete one.
    """
    if hasattr(distribution, "rsample_with_log_prob"):
        sample, log_prob = distribution.rsample_with_log_prob()
        return sample, log_prob
    if not getattr(distribution, "has_rsample", False):
        raise TypeError(
            f"policy gives {type(distribution).__name__}, through whose samples no gradient flows: "
            "use a Gaussian head, squashed or not"
        )
    sample = distribution.rsample()
    return sample, distribution.log_prob(sample)


def log_prob_and_entropy(distribution: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probability of a value, and the entropy, both [...].

    Args:
        distribution: Any distribution with `log_prob` and `entropy`.
        value: Actions, [..., n] or [...].
    """
    if hasattr(distribution, "log_prob_and_entropy"):
        log_prob, entropy = distribution.log_prob_and_entropy(value)
        return log_prob, entropy
    return distribution.log_prob(value), distribution.entropy()


def masked(distribution: Any, action_mask: Any) -> MaskedCategorical | ProductOfCategoricals:
    """Return a distribution with only some actions allowed.

    Args:
        distribution: A categorical distribution, of this package or of torch, or a product of categorical ones.
        action_mask: True where an action is allowed, tensor or array [..., n_actions] or [n_actions]; for a product,
            the choices concatenated. A row without allowed actions allows all.

    Raises:
        TypeError: If the distribution is not categorical.
        ValueError: If the shape of the mask does not fit.
    """
    if isinstance(distribution, Categorical | ProductOfCategoricals):
        return distribution.masked(action_mask)
    if isinstance(distribution, torch.distributions.Categorical):
        return MaskedCategorical(distribution.logits, action_mask)
    raise TypeError(
        f"action_mask came with a policy that gives {type(distribution).__name__}; only categorical actions can be "
        "forbidden: use a SoftmaxCategoricalHead or a MultiCategoricalHead"
    )


def kl_of_diagonal_gaussians(p: DiagonalGaussian, q: DiagonalGaussian) -> Tensor:
    """KL(p || q) in nats, [...]."""
    shift = ((p.loc - q.loc) / q.scale).square()
    ratio = (p.scale / q.scale).square()
    return 0.5 * (shift + (ratio - 1 - ratio.log())).sum(-1)


def kl_of_squashed_gaussians(p: SquashedGaussian, q: SquashedGaussian) -> Tensor:
    """KL(p || q) in nats, [...]: that of the distributions before squashing, which is invertible."""
    return kl_of_diagonal_gaussians(p.base_dist, q.base_dist)


def kl_of_categoricals(p: Categorical, q: Categorical) -> Tensor:
    """KL(p || q) in nats, [...]; huge where q forbids an action that p allows."""
    divergence: Tensor = torch.linalg.vecdot(p.probs, finite(p.logits) - finite(q.logits))
    return divergence


def kl_of_products(p: ProductOfCategoricals, q: ProductOfCategoricals) -> Tensor:
    """KL(p || q) in nats, [...]."""
    return kl_of_categoricals(p.choices, q.choices).sum(-1)


register_kl(DiagonalGaussian, DiagonalGaussian)(kl_of_diagonal_gaussians)  # type: ignore[no-untyped-call]
register_kl(SquashedGaussian, SquashedGaussian)(kl_of_squashed_gaussians)  # type: ignore[no-untyped-call]
register_kl(Categorical, Categorical)(kl_of_categoricals)  # type: ignore[no-untyped-call]
register_kl(ProductOfCategoricals, ProductOfCategoricals)(kl_of_products)  # type: ignore[no-untyped-call]


#: Alternative parameters of torch's distributions: one is given, the others are computed on request, and then kept.
_ALTERNATIVES = (("logits", "probs"), ("scale_tril", "covariance_matrix", "precision_matrix"))


def parameters_of(distribution: Any) -> tuple[Tensor, ...]:
    """Return the tensors that a distribution is computed from.

    Args:
        distribution: A distribution of this package, one of torch that keeps its parameters (Normal, Categorical, and
            most others), also inside `Independent` or `TransformedDistribution`, or one that has `params` and
            `with_params`.

    Returns:
        (loc, scale) of Gaussians, squashed or not, [..., n]; (logits,) of categoricals, [..., n]; and so on.

    Raises:
        TypeError: If its parameters are not known.
    """
    if hasattr(distribution, "params"):
        return tuple(distribution.params)
    if isinstance(distribution, Independent | TransformedDistribution):
        return parameters_of(distribution.base_dist)
    return tuple(_kept_by(distribution).values())


def with_parameters(distribution: Any, *parameters: Tensor) -> Any:
    """Return a distribution of the same kind with other parameters.

    Args:
        distribution: A distribution of this package, one of torch that keeps its parameters (Normal, Categorical, and
            most others), also inside `Independent` or `TransformedDistribution`, or one that has `params` and
            `with_params`.
        *parameters: The parameters, in the order of `parameters_of`; their batch shape may be another one.

    Raises:
        TypeError: If its parameters are not known.
    """
    if hasattr(distribution, "with_params"):
        return distribution.with_params(*parameters)
    if isinstance(distribution, Independent):
        base = with_parameters(distribution.base_dist, *parameters)
        return Independent(base, distribution.reinterpreted_batch_ndims, validate_args=False)
    if isinstance(distribution, TransformedDistribution):
        base = with_parameters(distribution.base_dist, *parameters)
        return TransformedDistribution(base, distribution.transforms, validate_args=False)
    named = dict(zip(_kept_by(distribution), parameters, strict=True))
    return type(distribution)(**named, validate_args=False)


def detached(distribution: Any) -> Any:
    """Return a copy of a distribution without gradients, which optimiser steps do not change.

    Args:
        distribution: A distribution of this package, one of torch that keeps its parameters (Normal, Categorical, and
            most others), also inside `Independent` or `TransformedDistribution`, or one that has `params` and
            `with_params`.

    Raises:
        TypeError: If its parameters are not known.
    """
    return with_parameters(distribution, *(parameter.detach().clone() for parameter in parameters_of(distribution)))


def rows_of(distribution: Any, rows: Any) -> Any:
    """Return the distributions of some states, so that samples are drawn only for these.

    Args:
        distribution: A distribution of this package, one of torch that keeps its parameters (Normal, Categorical, and
            most others), also inside `Independent` or `TransformedDistribution`, or one that has `params` and
            `with_params`; of batch shape [B], where the batch is the first axis of its parameters.
        rows: Index into that axis, such as a tensor of row numbers, [k].

    Returns:
        A distribution of the same kind, of batch shape [k].

    Raises:
        TypeError: If its parameters are not known.
    """
    return with_parameters(distribution, *(parameter[rows] for parameter in parameters_of(distribution)))


def _kept_by(distribution: Any) -> dict[str, Tensor]:
    """Return the constructor arguments that a distribution of torch was made with, by name."""
    attributes = getattr(distribution, "__dict__", {})
    kept = {name: attributes[name] for name in getattr(distribution, "arg_constraints", ()) if name in attributes}
    for first, *others in _ALTERNATIVES:
        if first in kept:
            kept = {name: value for name, value in kept.items() if name not in others}
    if not kept:
        raise TypeError(
            f"distribution is {type(distribution).__name__}, whose parameters are not known: expected a Gaussian or "
            "categorical one, or one with `params` and `with_params`"
        )
    return kept
