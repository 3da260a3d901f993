"""The weight initialisation of PFRL's networks."""

from typing import TypeVar

import torch
from torch import nn

from pfrl_like.initializers.lecun_normal import init_lecun_normal

Layer = TypeVar("Layer", bound=nn.Module)


@torch.no_grad()
def init_chainer_default(layer: Layer) -> Layer:
    """Initialise a linear or 2-d convolutional layer with LeCun-normal weights and zero biases; ignore other layers.

    Args:
        layer: Layer to initialise in place. For a complete network call `network.apply(init_chainer_default)`.

    Returns:
        The same layer.
    """
    if isinstance(layer, nn.Linear | nn.Conv2d):
        init_lecun_normal(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer
