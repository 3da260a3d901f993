"""Operations on distributions: divergences, masks, samples with log-probabilities, parameters."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, TransformedDistribution
from torch.distributions.kl import register_kl

from pfrl_like.distributions.categorical import Categorical, MaskedCategorical, ProductOfCategoricals, finite
from pfrl_like.distributions.gaussian import DiagonalGaussian, SquashedGaussian


def rsample_with_log_prob(distribution: Any) -> tuple[Tensor, Tensor]:
    """Return a sample with gradients, [..., n], and its log-probability, [...].

    If the distribution has a method `rsample_with_log_prob`, the function calls it, because this method is faster and
    has no rounding errors near bounds.

    Args:
        distribution: Any distribution with `rsample`.

    Raises:
        TypeError: If the distribution has no `rsample`, for example if it is discrete.
    """
    if hasattr(distribution, "rsample_with_log_prob"):
        sample, log_prob = distribution.rsample_with_log_prob()
        return sample, log_prob
    if not getattr(distribution, "has_rsample", False):
        hint = "use GaussianHeadWithDiagonalCovariance or SquashedGaussianHead"
        raise TypeError(f"policy returns {type(distribution).__name__}, whose samples have no gradient: {hint}")
    sample = distribution.rsample()
    return sample, distribution.log_prob(sample)


def log_prob_and_entropy(distribution: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probability of actions, and the entropy, both [...].

    Args:
        distribution: Any distribution with `log_prob` and `entropy`.
        value: Actions, [..., n] or [...].
    """
    if hasattr(distribution, "log_prob_and_entropy"):
        log_prob, entropy = distribution.log_prob_and_entropy(value)
        return log_prob, entropy
    return distribution.log_prob(value), distribution.entropy()


def masked(distribution: Any, action_mask: Any) -> MaskedCategorical | ProductOfCategoricals:
    """Return a distribution without the probability of masked actions.

    Args:
        distribution: A categorical distribution of this package or of torch, or a `ProductOfCategoricals`.
        action_mask: True for allowed actions, a tensor or array [..., n_actions] or [n_actions]. For a
            `ProductOfCategoricals`, the masks of its dimensions are concatenated. If a row allows no action, all its
            actions are treated as allowed.

    Raises:
        TypeError: If the distribution is not categorical.
        ValueError: If the shape of `action_mask` does not match.
    """
    if isinstance(distribution, Categorical | ProductOfCategoricals):
        return distribution.masked(action_mask)
    if isinstance(distribution, torch.distributions.Categorical):
        return MaskedCategorical(distribution.logits, action_mask)
    expected = "expected a categorical distribution: use a SoftmaxCategoricalHead or a MultiCategoricalHead"
    raise TypeError(f"action_mask: the policy returns {type(distribution).__name__}, {expected}")


def kl_of_diagonal_gaussians(p: DiagonalGaussian, q: DiagonalGaussian) -> Tensor:
    """Return KL(p || q) in nats, [...]."""
    shift = ((p.loc - q.loc) / q.scale).square()
    ratio = (p.scale / q.scale).square()
    return 0.5 * (shift + (ratio - 1 - ratio.log())).sum(-1)


def kl_of_categoricals(p: Categorical, q: Categorical) -> Tensor:
    """Return KL(p || q) in nats, [...]; a very large number if q masks an action that p allows."""
    divergence: Tensor = torch.linalg.vecdot(p.probs, finite(p.logits) - finite(q.logits))
    return divergence


register_kl(DiagonalGaussian, DiagonalGaussian)(kl_of_diagonal_gaussians)  # type: ignore[no-untyped-call]
register_kl(Categorical, Categorical)(kl_of_categoricals)  # type: ignore[no-untyped-call]
# The divergence before squashing, which is the same, because tanh is invertible.
register_kl(SquashedGaussian, SquashedGaussian)(  # type: ignore[no-untyped-call]
    lambda p, q: kl_of_diagonal_gaussians(p.base_dist, q.base_dist)
)
register_kl(ProductOfCategoricals, ProductOfCategoricals)(  # type: ignore[no-untyped-call]
    lambda p, q: kl_of_categoricals(p.choices, q.choices).sum(-1)
)


#: Alternative parameters of torch's distributions. The user passes one; torch computes the others on access and stores
#: them.
_ALTERNATIVES = (("logits", "probs"), ("scale_tril", "covariance_matrix", "precision_matrix"))


def parameters_of(distribution: Any) -> tuple[Tensor, ...]:
    """Return the tensors that define a distribution.

    Args:
        distribution: A distribution of this package, a distribution of torch that stores its parameters as attributes
            (most do, also inside `Independent` or `TransformedDistribution`), or a distribution with `params` and
            `with_params`.

    Returns:
        For example (loc, scale), [..., n], for Gaussians and squashed Gaussians, and (logits,), [..., n], for
        categoricals.

    Raises:
        TypeError: If the parameters of the distribution are not known.
    """
    if hasattr(distribution, "params"):
        return tuple(distribution.params)
    if isinstance(distribution, Independent | TransformedDistribution):
        return parameters_of(distribution.base_dist)
    return tuple(_torch_parameters(distribution).values())


def with_parameters(distribution: Any, *parameters: Tensor) -> Any:
    """Return a distribution of the same type with other parameters.

    Args:
        distribution: A distribution of this package, a distribution of torch that stores its parameters as attributes
            (most do, also inside `Independent` or `TransformedDistribution`), or a distribution with `params` and
            `with_params`.
        *parameters: The parameters, in the order of `parameters_of`. Their batch shape may be a different one.

    Raises:
        TypeError: If the parameters of the distribution are not known.
    """
    if hasattr(distribution, "with_params"):
        return distribution.with_params(*parameters)
    if isinstance(distribution, Independent):
        base = with_parameters(distribution.base_dist, *parameters)
        return Independent(base, distribution.reinterpreted_batch_ndims, validate_args=False)
    if isinstance(distribution, TransformedDistribution):
        base = with_parameters(distribution.base_dist, *parameters)
        return TransformedDistribution(base, distribution.transforms, validate_args=False)
    named = dict(zip(_torch_parameters(distribution), parameters, strict=True))
    return type(distribution)(**named, validate_args=False)


def detached(distribution: Any) -> Any:
    """Return a copy of a distribution with copied and detached parameters, which optimiser steps do not change.

    Args:
        distribution: A distribution of this package, a distribution of torch that stores its parameters as attributes
            (most do, also inside `Independent` or `TransformedDistribution`), or a distribution with `params` and
            `with_params`.

    Raises:
        TypeError: If the parameters of the distribution are not known.
    """
    return with_parameters(distribution, *(parameter.detach().clone() for parameter in parameters_of(distribution)))


def rows_of(distribution: Any, rows: Any) -> Any:
    """Return the distribution of some rows, for example to sample only for some states.

    Args:
        distribution: A distribution of this package, a distribution of torch that stores its parameters as attributes
            (most do, also inside `Independent` or `TransformedDistribution`), or a distribution with `params` and
            `with_params`. Its batch shape is [B], and the batch is the first axis of its parameters.
        rows: Index into the batch axis, for example a tensor of row indices, [k].

    Returns:
        A distribution of the same type with batch shape [k].

    Raises:
        TypeError: If the parameters of the distribution are not known.
    """
    return with_parameters(distribution, *(parameter[rows] for parameter in parameters_of(distribution)))


def _torch_parameters(distribution: Any) -> dict[str, Tensor]:
    """Return the constructor arguments of a distribution of torch, keyed by name."""
    attributes = getattr(distribution, "__dict__", {})
    parameters = {name: attributes[name] for name in getattr(distribution, "arg_constraints", ()) if name in attributes}
    for first, *others in _ALTERNATIVES:
        if first in parameters:
            parameters = {name: value for name, value in parameters.items() if name not in others}
    if not parameters:
        expected = "a Gaussian, a categorical, or a distribution with `params` and `with_params`"
        raise TypeError(f"distribution is {type(distribution).__name__}, expected {expected}")
    return parameters
