"""Orthogonal weight initialisation."""

from typing import TypeVar

from torch import nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def init_orthogonal(layer: Layer, gain: float = 1.0) -> Layer:
    """Initialise a layer with orthogonal weights and zero biases (arXiv:1312.6120; arXiv:2005.12729, section 3).

    Args:
        layer: Layer to initialise in place.
        gain: Factor by which the weights are multiplied.

    Returns:
        The same layer.
    """
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
