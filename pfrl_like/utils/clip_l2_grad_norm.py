"""`clip_l2_grad_norm_`, for user-defined agents, because the library's agents clip gradients in `GradientStep`."""

from collections.abc import Iterable

from torch import Tensor
from torch.nn.utils import clip_grad_norm_


def clip_l2_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Clip the L2 norm of all gradients together to at most `max_norm`, in place.

    Args:
        parameters: Parameters. Parameters without a gradient are skipped.
        max_norm: Maximum norm. Gradients with a smaller norm stay unchanged.

    Returns:
        The norm before clipping.
    """
    return float(clip_grad_norm_(parameters, max_norm))
