import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.nn import MLP, MLPBN


def test_layers_follow_each_other_with_the_nonlinearity_between() -> None:
    mlp = MLP(1, 1, [1, 1], nonlinearity=lambda x: x + 10)
    for parameter in mlp.parameters():
        nn.init.constant_(parameter, 2.0)
    # 2 * 1 + 2 + 10 = 14,   2 * 14 + 2 + 10 = 40,   2 * 40 + 2 = 82
    assert mlp(torch.ones(1, 1)).tolist() == [[82.0]]


def test_without_hidden_layers_it_is_one_linear_layer() -> None:
    mlp = MLP(3, 2, [], nonlinearity=lambda x: x / 0)
    x = torch.randn(4, 3)
    torch.testing.assert_close(mlp(x), nn.functional.linear(x, mlp.output.weight))


@pytest.mark.parametrize("mlp", [MLP, MLPBN])
@pytest.mark.parametrize("hidden_sizes", [(4, 5), np.array([4, 5]), iter((4, 5))])
def test_hidden_sizes_may_be_any_sequence(mlp: Any, hidden_sizes: Any) -> None:
    network = mlp(3, 2, copy.copy(hidden_sizes))
    assert network.hidden_sizes == [4, 5]
    assert network(torch.randn(2, 3)).shape == (2, 2)


def test_weights_are_lecun_normal_and_biases_zero() -> None:
    mlp = MLP(400, 300, [400], last_wscale=0.1)
    assert mlp.hidden_layers[0].weight.std().item() == pytest.approx(1 / 20, rel=0.02)
    assert mlp.output.weight.std().item() == pytest.approx(0.1 / 20, rel=0.02)
    assert mlp.hidden_layers[0].bias.abs().max() == mlp.output.bias.abs().max() == 0


def test_nonlinearity_may_be_a_module_with_parameters() -> None:
    assert "nonlinearity.weight" in MLP(1, 1, [1], nonlinearity=nn.PReLU()).state_dict()
