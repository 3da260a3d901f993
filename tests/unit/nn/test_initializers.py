"""PFRL's small initialisers of layers, and the concatenation of observation and action."""

from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.nn import atari_cnn
from pfrl_like.nn.concat_obs_and_action import ConcatObsAndAction, concat_obs_and_action
from pfrl_like.nn.noisy_linear import init_lecun_uniform, init_variance_scaling_constant
from pfrl_like.q_functions import dueling_dqn


def test_uniform_weights_reach_to_their_bound() -> None:
    torch.manual_seed(0)  # +-2 sqrt(3 / 3)
    expected = [[-0.0150, 1.0729, -1.6461], [-1.4719, -0.7703, 0.5363]]
    weights = torch.empty(2, 3)
    assert init_lecun_uniform(weights, scale=2.0) is weights
    assert weights.tolist() == [pytest.approx(row, abs=1e-4) for row in expected]


@pytest.mark.parametrize("shape, scale, expected", [((4,), 2.0, 1.0), ((2, 9), 3.0, 1.0), ((2, 4, 2, 2), 1.0, 0.25)])
def test_constant_weights_depend_on_the_number_of_inputs(shape: tuple[int, ...], scale: float, expected: float) -> None:
    assert torch.equal(init_variance_scaling_constant(torch.empty(shape), scale), torch.full(shape, expected))


@pytest.mark.parametrize("module", [atari_cnn, dueling_dqn])
def test_biases_of_linear_layers_and_convolutions_are_set(module: Any) -> None:
    layers = nn.Sequential(nn.Linear(2, 2), nn.Conv2d(1, 1, 1), nn.Conv1d(1, 1, 1), nn.Linear(1, 1, bias=False))
    nn.init.constant_(layers[2].bias, 7.0)
    layers.apply(module.constant_bias_initializer(0.5))
    assert [layer.bias.tolist() for layer in layers[:3]] == [[0.5, 0.5], [0.5], [7.0]]


def test_observation_and_action_are_concatenated() -> None:
    pair = torch.ones(1, 2), torch.zeros(1, 1)
    assert concat_obs_and_action(pair).tolist() == ConcatObsAndAction()(pair).tolist() == [[1.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="obs_and_action has 1 parts"):
        concat_obs_and_action(pair[:1])
