"""Distributions taken apart and put together again."""

from typing import Any

from torch import Tensor
from torch.distributions import Independent, TransformedDistribution

#: Parameters of torch's distributions of which one is given; the others are computed when asked for, and then kept.
_ALTERNATIVES = (("logits", "probs"), ("scale_tril", "covariance_matrix", "precision_matrix"))


def parameters_of(distribution: Any) -> tuple[Tensor, ...]:
    """The tensors that a distribution is computed from.

    Args:
        distribution: One of this package, one of torch that keeps its parameters (Normal, Categorical, and most), also
            inside of `Independent` and `TransformedDistribution`, or one that has `params` and `with_params`.

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
    """A distribution of the same kind with other parameters.

    Args:
        distribution: As of `parameters_of`.
        *parameters: In the order of `parameters_of`; their batch shape may be another one.

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
    """A copy of a distribution without gradients, which no optimiser step changes.

    Args:
        distribution: As of `parameters_of`.

    Raises:
        TypeError: If its parameters are not known.
    """
    return with_parameters(distribution, *(parameter.detach().clone() for parameter in parameters_of(distribution)))


def rows_of(distribution: Any, rows: Any) -> Any:
    """The distributions of some of the states, so that samples are drawn for these alone.

    Args:
        distribution: As of `parameters_of`, of batch shape [B]; the batch is the first axis of its parameters.
        rows: Index into that axis, such as a tensor of row numbers, [k].

    Returns:
        A distribution of the same kind, of batch shape [k].

    Raises:
        TypeError: If its parameters are not known.
    """
    return with_parameters(distribution, *(parameter[rows] for parameter in parameters_of(distribution)))


def _kept_by(distribution: Any) -> dict[str, Tensor]:
    """What a distribution of torch was made of, by the names of its arguments."""
    attributes = getattr(distribution, "__dict__", {})
    kept = {name: attributes[name] for name in getattr(distribution, "arg_constraints", ()) if name in attributes}
    for first, *others in _ALTERNATIVES:
        if first in kept:
            kept = {name: value for name, value in kept.items() if name not in others}
    if not kept:
        raise TypeError(
            f"distribution is a {type(distribution).__name__}, whose parameters are not known: expected a Gaussian or "
            "categorical one, or one with `params` and `with_params`"
        )
    return kept
