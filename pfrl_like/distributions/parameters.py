"""Distributions taken apart and put together again."""

from typing import Any, TypeVar

from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent, Normal, TransformedDistribution

D = TypeVar("D", bound=Distribution)


def parameters_of(distribution: Distribution) -> tuple[Tensor, ...]:
    """The tensors that a distribution is computed from.

    Args:
        distribution: One of this package, or a Normal or Categorical of torch, also inside of `Independent` and
            `TransformedDistribution`.

    Returns:
        (loc, scale) of Gaussians, squashed or not, [..., n]; (logits,) of categoricals, [..., n].

    Raises:
        TypeError: If it is of another kind.
    """
    if hasattr(distribution, "params"):
        return tuple(distribution.params)
    if isinstance(distribution, Independent | TransformedDistribution):
        return parameters_of(distribution.base_dist)
    if isinstance(distribution, Normal):
        return distribution.loc, distribution.scale
    if isinstance(distribution, Categorical):
        return (distribution.logits,)
    raise _unknown(distribution)


def with_parameters(distribution: D, *parameters: Tensor) -> D:
    """A distribution of the same kind with other parameters.

    Args:
        distribution: As of `parameters_of`.
        *parameters: In the order of `parameters_of`; their batch shape may be another one.

    Raises:
        TypeError: If it is of another kind.
    """
    return _rebuilt(distribution, parameters)  # type: ignore[no-any-return]


def _rebuilt(old: Any, parameters: tuple[Tensor, ...]) -> Any:
    if hasattr(old, "with_params"):
        return old.with_params(*parameters)
    if isinstance(old, Independent):
        return Independent(_rebuilt(old.base_dist, parameters), old.reinterpreted_batch_ndims, validate_args=False)
    if isinstance(old, TransformedDistribution):
        base = _rebuilt(old.base_dist, parameters)
        return TransformedDistribution(base, old.transforms, validate_args=False)
    if isinstance(old, Normal):
        loc, scale = parameters
        return Normal(loc, scale, validate_args=False)
    if isinstance(old, Categorical):
        return Categorical(logits=parameters[0], validate_args=False)
    raise _unknown(old)


def detached(distribution: D) -> D:
    """A copy of a distribution without gradients, which no optimiser step changes.

    Args:
        distribution: As of `parameters_of`.

    Raises:
        TypeError: If it is of another kind.
    """
    return with_parameters(distribution, *(parameter.detach().clone() for parameter in parameters_of(distribution)))


def _unknown(distribution: Any) -> TypeError:
    return TypeError(
        f"distribution is a {type(distribution).__name__}, whose parameters are not known: expected a Gaussian or "
        "categorical one, or one with `params` and `with_params`"
    )
