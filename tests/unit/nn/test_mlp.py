"""Multilayer perceptrons, networks of frames, and small layers."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import nn as own_nn
from pfrl_like.functions import bound_by_tanh
from pfrl_like.initializers import init_chainer_default
from pfrl_like.utils.contexts import evaluating, reads_training


def test_all_layers_are_made_before_the_first_is_initialised() -> None:
    torch.manual_seed(0)
    mlp = own_nn.MLP(3, 2, (4, 5))
    torch.manual_seed(0)
    layers = [nn.Linear(3, 4), nn.Linear(4, 5)]
    for made, expected in zip(mlp.hidden_layers, map(init_chainer_default, layers), strict=True):
        assert torch.equal(made.weight, expected.weight)


def test_layers_follow_each_other_with_the_nonlinearity_between() -> None:
    mlp = own_nn.MLP(1, 1, [1, 1], nonlinearity=lambda x: x + 10)
    for parameter in mlp.parameters():
        nn.init.constant_(parameter, 2.0)
    # 2 * 1 + 2 + 10 = 14,   2 * 14 + 2 + 10 = 40,   2 * 40 + 2 = 82
    assert mlp(torch.ones(1, 1)).tolist() == [[82.0]]


def test_without_hidden_layers_it_is_one_linear_layer() -> None:
    mlp = own_nn.MLP(3, 2, [], nonlinearity=lambda x: x / 0)
    x = torch.randn(4, 3)
    torch.testing.assert_close(mlp(x), nn.functional.linear(x, mlp.output.weight))


@pytest.mark.parametrize("mlp", [own_nn.MLP, own_nn.MLPBN])
@pytest.mark.parametrize("hidden_sizes", [(4, 5), np.array([4, 5]), iter((4, 5))])
def test_hidden_sizes_may_be_any_sequence(mlp: Any, hidden_sizes: Any) -> None:
    network = mlp(3, 2, copy.copy(hidden_sizes))
    assert network.hidden_sizes == [4, 5]
    assert network(torch.randn(2, 3)).shape == (2, 2)


def test_weights_are_lecun_normal_and_biases_zero() -> None:
    mlp = own_nn.MLP(400, 300, [400], last_wscale=0.1)
    assert mlp.hidden_layers[0].weight.std().item() == pytest.approx(1 / 20, rel=0.02)
    assert mlp.output.weight.std().item() == pytest.approx(0.1 / 20, rel=0.02)
    assert mlp.hidden_layers[0].bias.abs().max() == mlp.output.bias.abs().max() == 0


def test_nonlinearity_may_be_a_module_with_parameters() -> None:
    assert "nonlinearity.weight" in own_nn.MLP(1, 1, [1], nonlinearity=nn.PReLU()).state_dict()


def test_layers_are_normalised_in_training() -> None:
    x = torch.randn(50, 3) * 4 + 9
    seen: list[torch.Tensor] = []

    def nonlinearity(h: Any) -> Any:
        seen.append(h)
        return torch.relu(h)

    y = own_nn.MLPBN(3, 2, [8, 8], normalize_output=True, nonlinearity=nonlinearity)(x)
    assert len(seen) == 2
    for h in (*seen, y):
        torch.testing.assert_close(h.mean(0), torch.zeros(h.shape[1]), atol=1e-5, rtol=0)
        torch.testing.assert_close(h.var(0, correction=0), torch.ones(h.shape[1]), atol=1e-2, rtol=0)


def test_in_evaluation_the_running_moments_count() -> None:
    model = own_nn.MLPBN(1, 1, [])
    assert isinstance(model.output, nn.Linear)
    with torch.no_grad():
        model.output.weight.fill_(2.0)
        model.output.bias.fill_(1.0)
        model.input_bn.running_mean.fill_(3.0)
        model.input_bn.running_var.fill_(4.0 - 1e-5)  # its eps is 1e-5
    # (7 - 3) / sqrt(4) = 2,   2 * 2 + 1 = 5
    assert model.eval()(torch.tensor([[7.0]])).item() == pytest.approx(5.0)


def test_last_layer_is_scaled() -> None:
    assert own_nn.MLPBN(400, 100, [], last_wscale=0.1).output.weight.std().item() == pytest.approx(0.1 / 20, rel=0.05)


def test_its_mode_matters_and_is_put_back() -> None:
    model = own_nn.MLPBN(3, 2, [4])
    assert reads_training(model)
    with evaluating(model):
        assert not model.input_bn.training
        model(torch.randn(1, 3))
    assert model.input_bn.training
    assert model.input_bn.num_batches_tracked == 0


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        (own_nn.SmallAtariCNN, [(16, 3, 8, 8), (32, 16, 4, 4), (7, 2592)]),
        (own_nn.LargeAtariCNN, [(32, 3, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (7, 3136)]),
    ],
)
def test_sizes_are_those_of_the_papers(kind: type, shapes: list[tuple[int, ...]]) -> None:
    model = kind(n_input_channels=3, n_output_channels=7, bias=0.5)
    state = model.state_dict()
    layers = [f"layers.{i}" for i in range(len(shapes) - 1)] + ["output"]
    assert [tuple(state[f"{layer}.weight"].shape) for layer in layers] == shapes
    assert all(bool((state[f"{layer}.bias"] == 0.5).all()) for layer in layers)
    assert model(torch.zeros(2, 3, 84, 84)).shape == (2, 7)


@pytest.mark.parametrize(("kind", "size"), [(own_nn.SmallAtariCNN, 256), (own_nn.LargeAtariCNN, 512)])
def test_defaults_take_four_frames(kind: type, size: int) -> None:
    features = kind()(torch.rand(1, 4, 84, 84))
    assert features.shape == (1, size)
    assert features.min() >= 0


@pytest.mark.parametrize(
    ("kind", "channels"), [(own_nn.SmallAtariCNN, [16, 32, 256]), (own_nn.LargeAtariCNN, [32, 64, 64, 512])]
)
def test_the_activation_follows_each_layer(kind: type, channels: list[int]) -> None:
    calls = []

    def activation(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape[1])
        return torch.tanh(x)

    kind(activation=activation)(torch.rand(1, 4, 84, 84))
    assert calls == channels


def test_bounds_may_be_arrays_and_are_not_saved() -> None:
    bound = own_nn.BoundByTanh(np.array([-1.0, 0.0]), np.array([3.0, 1.0]))
    torch.testing.assert_close(bound(torch.tensor([[0.0, 100.0]])), torch.tensor([[1.0, 1.0]]))
    assert not bound.state_dict()


def test_bounds_may_be_numbers() -> None:
    assert own_nn.BoundByTanh(-2.0, 2.0)(torch.tensor([[100.0, -100.0]])).tolist() == [[2.0, -2.0]]


@pytest.mark.parametrize(("low", "high", "message"), [(-np.inf, 0, "low is"), (0, np.inf, "high is"), (1, 0, "low <=")])
def test_impossible_bounds_are_refused(low: Any, high: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        own_nn.BoundByTanh(low, high)


@pytest.mark.parametrize(("low", "high"), [(np.zeros(2), np.full(2, 4.0)), ([0, 0], [4, 4]), (0, 4.0)])
def test_the_function_takes_any_bounds_and_keeps_the_dtype(low: Any, high: Any) -> None:
    bounded = bound_by_tanh(torch.zeros(3, 2), low, high)
    assert bounded.dtype == torch.float32
    assert torch.equal(bounded, torch.full((3, 2), 2.0))  # the middle


def test_observation_comes_before_the_action() -> None:
    pair = (torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]]))
    assert own_nn.ConcatObsAndAction()(pair).tolist() == [[1.0, 2.0, 3.0]]


def test_a_penalty_of_activity_is_in_the_gradient_and_leaves_nothing_in_a_trace() -> None:
    layer, x = own_nn.ActivityPenalty(0.5), torch.tensor([[1.0, -3.0]], requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 1 + 2 * 0.5 / 2 * x.detach())  # of 0.5 * mean(x**2), and of the sum
    with torch.no_grad():
        traced = torch.jit.trace(layer, x.detach())
    assert traced(x.detach()).tolist() == [[1.0, -3.0]]
    assert not [node for node in traced.graph.nodes() if "Penalised" in str(node)]
    given = torch.ones(2)
    assert layer(given) is given  # nothing learns from it
    with pytest.raises(ValueError, match="rate is -1"):
        own_nn.ActivityPenalty(-1)


def test_every_branch_gets_the_same_arguments() -> None:
    one, two = own_nn.Branched(nn.Identity(), own_nn.Lambda(lambda x: 2 * x))(torch.tensor([3.0]))
    assert (one.item(), two.item()) == (3.0, 6.0)
