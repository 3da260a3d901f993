"""`clip_l2_grad_norm_`, for user-defined agents. The library's agents clip gradients in `GradientStep`."""

from collections.abc import Iterable

from torch import Tensor
from torch.nn.utils import clip_grad_norm_


def clip_l2_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients, in place, so that their common L2 norm is at most `max_norm`.

    Args:
        parameters: Parameters. Parameters without a gradient are skipped.
        max_norm: Maximum norm. If the norm is smaller, the gradients stay unchanged.

    Returns:
        The norm before clipping.
    """
    return float(clip_grad_norm_(parameters, max_norm))
