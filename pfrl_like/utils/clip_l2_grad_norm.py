"""`clip_l2_grad_norm_`, for agents of the user's own; those of this library clip in `optimizers.GradientStep`."""

from collections.abc import Iterable

from torch import Tensor
from torch.nn.utils import clip_grad_norm_


def clip_l2_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scale the gradients of all parameters together down to an L2 norm of `max_norm`, in place.

    Args:
        parameters: Parameters; those without a gradient are passed over.
        max_norm: Largest norm; smaller gradients are left alone.

    Returns:
        The norm before.
    """
    return float(clip_grad_norm_(parameters, max_norm))
