"""PFRL's losses of a value against its target, for code that was written for PFRL; agents use `functions.losses`."""

from torch import Tensor

from pfrl_like.functions.losses import half_square, huber, weighted_mean


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
