"""The initial weights that PFRL's networks have."""

from typing import TypeVar

import torch
from torch import nn

from pfrl_like.initializers.lecun_normal import init_lecun_normal

Layer = TypeVar("Layer", bound=nn.Module)


@torch.no_grad()
def init_chainer_default(layer: Layer) -> Layer:
    """Give a linear or 2-d convolutional layer LeCun-normal weights and zero biases; leave other layers alone.

    Args:
        layer: Changed in place. For a whole network: `network.apply(init_chainer_default)`.

    Returns:
        The same layer.
    """
    if isinstance(layer, nn.Linear | nn.Conv2d):
        init_lecun_normal(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer
