"""LeCun's weight initialisation."""

import math

import torch
from torch import Tensor


@torch.no_grad()
def init_lecun_normal(tensor: Tensor, scale: float = 1.0) -> Tensor:
    """Fill weights with normal numbers of deviation scale / sqrt(fan_in), in place (LeCun et al. 1998, section 4.6).

    Args:
        tensor: Weights of a linear or convolutional layer, [out, in, ...].
        scale: Factor by which the standard deviation is multiplied.

    Returns:
        The same tensor.

    Raises:
        ValueError: If the tensor has fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ValueError(f"tensor has shape {tuple(tensor.shape)}, expected weights [out, in, ...]")
    fan_in = tensor[0].numel()
    return tensor.normal_(0, scale * math.sqrt(1.0 / fan_in))
