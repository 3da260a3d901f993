"""Losses, and how those of a minibatch become one number."""

import torch
from torch import Tensor


def huber(error: Tensor) -> Tensor:
    """Huber loss: error**2 / 2 up to 1, |error| - 1/2 beyond (Huber 1964, doi:10.1214/aoms/1177703732).

    Its derivative is the error clipped to [-1, 1], and it is written so that backward computes just that, which is
    faster than `torch.nn.functional.huber_loss`. It can be differentiated once; second derivatives come out wrong.

    Args:
        error: Any shape.

    Returns:
        Same shape.
    """
    clipped = error.detach().clamp(-1, 1)
    return clipped * error.sub(clipped, alpha=0.5)


def square(error: Tensor) -> Tensor:
    """error**2, in any shape."""
    return error * error


def half_square(error: Tensor) -> Tensor:
    """error**2 / 2, in any shape."""
    return 0.5 * error * error


def expectile(error: Tensor, tau: float) -> Tensor:
    """Asymmetric squared loss |tau - 1{error < 0}| * error**2, whose least mean is at the tau-expectile.

    (Newey and Powell 1987, doi:10.2307/1911031; arXiv:2110.06169, section 4.)

    Args:
        error: What is predicted minus the prediction, any shape.
        tau: In (0, 1); 1/2 gives half the squared error.

    Returns:
        Same shape.
    """
    weight = torch.where(error.detach() < 0, 1 - tau, tau).to(error.dtype)
    return weight * error * error


def quantile_huber(prediction: Tensor, target: Tensor, tau: Tensor, mass: Tensor | None = None) -> Tensor:
    """Quantile Huber loss with threshold 1 (Dabney et al. 2017, arXiv:1710.10044, eq. 9, 10 and Algorithm 1).

    For an error u = target - prediction it is |tau - 1{u < 0}| * huber(u), summed over predictions and averaged over
    targets.

    Args:
        prediction: Predicted quantiles, [B, N].
        target: Samples or quantiles of the target, [B, M].
        tau: Which quantiles are predicted, in (0, 1), [B, N] or [N].
        mass: Probability of each target, with which it counts in the average, [B, M]; None for the same, 1 / M.

    Returns:
        [B].
    """
    loss = quantile_huber_of_pairs(prediction, target, tau).sum(1)
    return loss.mean(1) if mass is None else torch.linalg.vecdot(loss, mass)


def quantile_huber_of_pairs(prediction: Tensor, target: Tensor, tau: Tensor) -> Tensor:
    """The losses of all pairs that `quantile_huber` adds up, [B, N, M]; arguments as there."""
    error = target.unsqueeze(1) - prediction.unsqueeze(2)
    weight = (tau.unsqueeze(-1) - (error.detach() < 0).to(error.dtype)).abs()
    return weight * huber(error)


def bootstrap_weight(like: Tensor) -> Tensor:
    """0 or 2 at random, in the shape of `like`: each row counts double or not at all (Owen 2012, arXiv:1106.2125)."""
    return torch.randint_like(like, 2) * 2


def weighted_mean(loss: Tensor, weight: Tensor | None = None, accumulator: str = "mean") -> Tensor:
    """Mean or sum of the losses of a minibatch, each times its importance weight.

    The mean divides by the number of rows, not by the sum of the weights (Schaul et al. 2015, arXiv:1511.05952,
    Algorithm 1 as PFRL computes it).

    Args:
        loss: Loss of each row, [B].
        weight: Importance weights, [B]; None counts every row once.
        accumulator: "mean" or "sum".

    Returns:
        A scalar.

    Raises:
        ValueError: On another `accumulator`.
    """
    if weight is not None:
        loss = loss * weight
    if accumulator == "mean":
        return loss.mean()
    if accumulator == "sum":
        return loss.sum()
    raise ValueError(f"accumulator is {accumulator!r}, expected 'mean' or 'sum'")


def compute_value_loss(y: Tensor, t: Tensor, clip_delta: bool = True, batch_accumulator: str = "mean") -> Tensor:
    """Huber loss, or half the square, of the errors of a minibatch, as one number.

    Args:
        y: Predictions, [B] or [B, 1].
        t: Targets, likewise.
        clip_delta: Huber loss if True, half the squared error otherwise.
        batch_accumulator: "mean" or "sum" over the minibatch.

    Raises:
        ValueError: On another `batch_accumulator`.
    """
    return weighted_mean(_losses(y, t, clip_delta), None, batch_accumulator)


def compute_weighted_value_loss(
    y: Tensor, t: Tensor, weights: Tensor, clip_delta: bool = True, batch_accumulator: str = "mean"
) -> Tensor:
    """`compute_value_loss` with each loss times its importance weight, [B], wherever the weights are."""
    losses = _losses(y, t, clip_delta)
    return weighted_mean(losses, weights.to(losses.device), batch_accumulator)


def _losses(y: Tensor, t: Tensor, clip_delta: bool) -> Tensor:
    error = y.reshape(-1) - t.reshape(-1)
    return huber(error) if clip_delta else half_square(error)
