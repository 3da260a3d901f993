import pytest
import torch
from torch import nn

from pfrl_like.initializers import init_chainer_default, init_lecun_normal


def test_lecun_normal_divides_by_the_root_of_the_inputs() -> None:
    assert init_lecun_normal(torch.empty(500, 100)).std().item() == pytest.approx(0.1, rel=0.02)
    assert init_lecun_normal(torch.empty(500, 100), scale=3.0).std().item() == pytest.approx(0.3, rel=0.02)


def test_inputs_of_a_convolution_are_channels_times_kernel() -> None:
    assert init_lecun_normal(torch.empty(500, 4, 5, 5)).std().item() == pytest.approx(0.1, rel=0.02)


def test_lecun_normal_refuses_a_vector() -> None:
    with pytest.raises(ValueError, match=r"tensor has shape \(3,\)"):
        init_lecun_normal(torch.empty(3))


@pytest.mark.parametrize("layer", [nn.Linear(100, 500), nn.Conv2d(4, 500, 5)])
def test_chainer_default_sets_weights_and_biases(layer: nn.Linear | nn.Conv2d) -> None:
    assert init_chainer_default(layer) is layer
    assert layer.weight.std().item() == pytest.approx(0.1, rel=0.02)
    assert layer.bias is not None
    assert layer.bias.abs().max() == 0


def test_chainer_default_takes_a_layer_without_bias() -> None:
    init_chainer_default(nn.Linear(2, 2, bias=False))


def test_chainer_default_leaves_other_layers_alone() -> None:
    layer = nn.Embedding(3, 3)
    before = layer.weight.clone()
    init_chainer_default(layer)
    assert torch.equal(layer.weight, before)
