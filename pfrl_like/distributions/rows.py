"""Some rows of a batch of distributions."""

from typing import Any

from torch.distributions import Independent, TransformedDistribution

#: Parameters of torch's distributions of which one is given; the others are computed when asked for, and then kept.
_ALTERNATIVES = (("logits", "probs"), ("scale_tril", "covariance_matrix", "precision_matrix"))


def rows_of(distribution: Any, rows: Any) -> Any:
    """The distributions of some of the states, so that samples are drawn for these alone.

    Args:
        distribution: Distribution of batch shape [B], one with `params` and `with_params` or one of torch's; the batch
            is the first axis of its parameters.
        rows: Index into that axis, such as a tensor of row numbers, [k].

    Returns:
        A distribution of the same kind, of batch shape [k].
    """
    if hasattr(distribution, "params"):
        return distribution.with_params(*(parameter[rows] for parameter in distribution.params))
    if isinstance(distribution, Independent):
        base = rows_of(distribution.base_dist, rows)
        return Independent(base, distribution.reinterpreted_batch_ndims, validate_args=False)
    if isinstance(distribution, TransformedDistribution):
        base = rows_of(distribution.base_dist, rows)
        return TransformedDistribution(base, distribution.transforms, validate_args=False)
    known = vars(distribution)
    parameters = {name: known[name] for name in distribution.arg_constraints if name in known}
    for first, *others in _ALTERNATIVES:
        if first in parameters:
            parameters = {name: value for name, value in parameters.items() if name not in others}
    return type(distribution)(**{name: value[rows] for name, value in parameters.items()}, validate_args=False)
