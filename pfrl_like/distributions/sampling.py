"""Two questions at once, for distributions that answer them cheaper so."""

from typing import Any

from torch import Tensor


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
