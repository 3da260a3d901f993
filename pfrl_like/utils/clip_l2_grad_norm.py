"""`clip_l2_grad_norm_`, for user-defined agents; the library's own agents clip in `optimizers.GradientStep`."""

from collections.abc import Iterable

from torch import Tensor
from torch.nn.utils import clip_grad_norm_


def clip_l2_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scale the gradients of all parameters together down to an L2 norm of `max_norm`, in place.

    Args:
        parameters: Parameters; those without a gradient are skipped.
        max_norm: Largest norm; smaller gradients are left unchanged.

    Returns:
        The norm before.
    """
    return float(clip_grad_norm_(parameters, max_norm))
