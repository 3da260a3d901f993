import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.nn import MLP, FactorizedNoisyLinear, to_factorized_noisy
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.q_functions import FCLateActionSAQFunction
from pfrl_like.utils.contexts import reads_training
from pfrl_like.utils.copy_param import frozen_copy


def test_initial_weights_are_the_papers() -> None:
    layer = FactorizedNoisyLinear(nn.Linear(400, 100), sigma_scale=0.5)
    assert layer.mu.weight.abs().max().item() == pytest.approx(0.05, rel=0.01)
    assert layer.mu.weight.std().item() == pytest.approx(0.05 / 3**0.5, rel=0.02)
    torch.testing.assert_close(layer.sigma.weight, torch.full((100, 400), 0.5 / 20))
    torch.testing.assert_close(layer.sigma.bias, torch.full((100,), 0.5 / 10))


@pytest.mark.parametrize("training", [True, False])
def test_every_call_draws_new_noise_that_the_rows_share(training: bool) -> None:
    layer = FactorizedNoisyLinear(nn.Linear(3, 2)).train(training)
    x = torch.ones(2, 3)
    first, second = layer(x), layer(x)
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first, second)


def test_without_noise_it_is_the_layer_of_the_means() -> None:
    layer, x = FactorizedNoisyLinear(nn.Linear(3, 2), sigma_scale=0.0), torch.randn(4, 3)
    torch.testing.assert_close(layer(x), layer.mu(x))
    layer(x).sum().backward()
    assert all(param.grad is not None and bool(param.grad.any()) for param in layer.parameters())


@pytest.mark.parametrize("bias", [True, False])
def test_sizes_and_bias_can_be_read(bias: bool) -> None:
    layer = FactorizedNoisyLinear(nn.Linear(3, np.int64(2), bias=bias))  # as gymnasium counts actions
    assert (layer.in_features, layer.out_features, layer.out_size, layer.hasbias) == (3, 2, 2, bias)
    assert type(layer.out_features) is type(layer.out_size) is int  # which a compiler takes for constants


def test_a_layer_without_bias_stays_without() -> None:
    layer = FactorizedNoisyLinear(nn.Linear(3, 2, bias=False, dtype=torch.float64))
    assert list(layer.state_dict()) == ["mu.weight", "sigma.weight"]
    torch.testing.assert_close(layer(torch.zeros(1, 3, dtype=torch.float64)), torch.zeros(1, 2, dtype=torch.float64))


def test_anything_but_a_linear_layer_with_inputs_is_refused() -> None:
    with pytest.raises(TypeError, match="mu_link is Conv2d, expected a torch.nn.Linear"):
        FactorizedNoisyLinear(nn.Conv2d(1, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected at least one input"):
        FactorizedNoisyLinear(nn.LazyLinear(2))
    with pytest.raises(TypeError, match="module is itself a Linear"):
        to_factorized_noisy(nn.Linear(2, 2))


def test_linear_layers_at_any_depth_become_noisy_and_others_stay() -> None:
    network = nn.Sequential(
        nn.Conv2d(1, 1, 1), nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU()), nn.ModuleList([nn.Linear(2, 2)])
    )
    assert to_factorized_noisy(network, 0.7) is None
    kinds = [type(part).__name__ for part in (network[0], network[1][0], network[1][1], network[2][0])]
    assert kinds == ["Conv2d", "FactorizedNoisyLinear", "ReLU", "FactorizedNoisyLinear"]
    assert network[1][0].sigma.weight[0, 0].item() == pytest.approx(0.7 / 2**0.5)
    assert network[1][0].mu.bias is None


def test_noisy_layers_are_not_made_noisy_again() -> None:
    network = nn.Sequential(nn.Linear(2, 2))
    to_factorized_noisy(network)
    names, layer = list(network.state_dict()), network[0]
    to_factorized_noisy(network)
    to_factorized_noisy(layer)
    assert network[0] is layer
    assert list(network.state_dict()) == names


def test_a_layer_in_two_places_stays_one_layer() -> None:
    linear = nn.Linear(2, 2)
    network = nn.Sequential(linear, nn.Sequential(linear))
    to_factorized_noisy(network)
    assert network[0] is network[1][0]
    q_function = FCLateActionSAQFunction(3, 2, 4, 1)
    to_factorized_noisy(q_function)
    assert q_function.output is q_function.mlp.output


def test_copies_draw_noise_of_their_own() -> None:
    network, x = MLP(3, 2, [4]), torch.ones(1, 3)
    to_factorized_noisy(network)
    assert not reads_training(network)
    for other in (frozen_copy(network), copy.deepcopy(network), partial(fast_forward, network)):
        assert not torch.equal(other(x), other(x))
        torch.manual_seed(0)
        expected = network(x)
        torch.manual_seed(0)
        torch.testing.assert_close(other(x), expected)
