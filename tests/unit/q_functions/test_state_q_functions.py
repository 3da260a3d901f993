"""Q-functions of the state, and with dueling streams."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import q_functions as nets
from pfrl_like.action_value import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.nn import FactorizedNoisyLinear, Lambda, to_factorized_noisy

BOX = gymnasium.spaces.Box(np.array([-1, 0], dtype=np.float32), np.array([1, 4], dtype=np.float32))


def test_head_makes_q_values_an_action_value() -> None:
    value = nets.DiscreteActionValueHead()(torch.tensor([[1.0, 2.0]]))
    assert isinstance(value, DiscreteActionValue)
    assert value.greedy_actions.tolist() == [1]


def test_fully_connected_has_the_shape_asked_for() -> None:
    q_function = nets.FCStateQFunctionWithDiscreteAction(3, 2, n_hidden_channels=5, n_hidden_layers=2)
    assert [tuple(p.shape) for p in q_function.parameters()] == [(5, 3), (5,), (5, 5), (5,), (2, 5), (2,)]
    assert q_function(torch.zeros(7, 3)).q_values.shape == (7, 2)


def test_fully_connected_uses_nonlinearity_and_scale() -> None:
    q_function = nets.FCStateQFunctionWithDiscreteAction(3, 2, 5, 1, nonlinearity=torch.zeros_like, last_wscale=0.0)
    assert q_function.model.nonlinearity is torch.zeros_like
    assert q_function.model.output.weight.abs().max() == 0


def test_distributional_gives_probabilities_over_the_atoms() -> None:
    q_function = nets.DistributionalFCStateQFunctionWithDiscreteAction(3, 2, 5, -10, 10, 6, 2)
    assert [layer.out_features for layer in q_function.modules() if isinstance(layer, nn.Linear)] == [6, 6, 10]
    value = q_function(torch.randn(7, 3))
    assert isinstance(value, DistributionalDiscreteActionValue)
    assert value.q_dist.shape == (7, 2, 5)
    assert value.z_values.tolist() == [-10.0, -5.0, 0.0, 5.0, 10.0]
    torch.testing.assert_close(value.q_dist.sum(2), torch.ones(7, 2))


def test_distributional_uses_nonlinearity_and_scale() -> None:
    arguments: dict[str, Any] = {"nonlinearity": torch.tanh, "last_wscale": 0.0}
    q_function = nets.DistributionalFCStateQFunctionWithDiscreteAction(3, 2, 4, -1, 1, 4, 1, **arguments)
    torch.testing.assert_close(q_function(torch.randn(1, 3)).q_dist, torch.full((1, 2, 4), 0.25))
    assert q_function.model[0].nonlinearity is torch.tanh


@pytest.mark.parametrize("z_values", [[0, 1], np.linspace(0.0, 1.0, 2), np.float32([0, 1]), torch.arange(2)])
def test_atoms_become_floats(z_values: Any) -> None:
    q_function = nets.DistributionalSingleModelStateQFunctionWithDiscreteAction(nn.Unflatten(1, (2, 2)), z_values)
    assert q_function(torch.tensor([[1.0, 0.0, 0.5, 0.5]])).q_values.tolist() == [[0.0, 0.5]]


def test_atoms_in_double_precision_stay_so() -> None:
    z_values = torch.linspace(0, 1, 2, dtype=torch.float64)
    q_function = nets.DistributionalSingleModelStateQFunctionWithDiscreteAction(nn.Unflatten(1, (2, 2)), z_values)
    assert q_function(torch.full((1, 4), 0.5, dtype=torch.float64)).q_values.dtype == torch.float64


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (nets.FCStateQFunctionWithDiscreteAction, (3, 2, 4, 1)),
        (nets.DistributionalFCStateQFunctionWithDiscreteAction, (3, 2, 5, -1, 1, 4, 1)),
        (nets.QuantileFCStateQFunctionWithDiscreteAction, (3, 2, 5, 4, 1)),
    ],
)
def test_sizes_may_be_numpys(kind: Any, sizes: tuple[int, ...]) -> None:
    assert kind(*map(np.int64, sizes))(torch.randn(6, 3)).q_values.shape == (6, 2)


def test_quadratic_is_largest_at_its_greedy_action_and_within_the_bounds() -> None:
    value = nets.FCQuadraticStateQFunction(3, 2, 8, 2, BOX)(10 * torch.randn(100, 3))
    greedy = value.greedy_actions
    assert bool((greedy >= torch.tensor([-1.0, 0.0])).all() and (greedy <= torch.tensor([1.0, 4.0])).all())
    others = torch.tensor(np.stack([BOX.sample() for _ in range(100)]))
    assert bool((value.evaluate_actions(others) <= value.max + 1e-5).all())


def test_quadratic_matrix_is_positive_definite() -> None:
    mat = nets.FCQuadraticStateQFunction(3, 2, 8, 1, BOX)(torch.randn(20, 3)).mat
    torch.testing.assert_close(mat, mat.mT)
    assert bool((torch.linalg.eigvalsh(mat) > 0).all())


def test_scale_mu_brings_mu_within_the_bounds() -> None:
    x = 100 * torch.randn(50, 3)
    scaled, free = (nets.FCQuadraticStateQFunction(3, 2, 8, 1, BOX, scale_mu=scale)(x) for scale in (True, False))
    assert bool((scaled.mu[:, 1] >= 0).all() and (scaled.mu[:, 1] <= 4).all())
    assert bool((free.mu[:, 1] < 0).any())
    assert bool((free.greedy_actions[:, 1] >= 0).all())


FRAMES = torch.rand(2, 4, 84, 84)
DISTRIBUTIONAL_STREAMS = {"main_stream": (1024, 3136), "a_stream": (15, 512), "v_stream": (5, 512)}


def test_distributional_sizes_are_those_of_pfrl() -> None:
    state = nets.DistributionalDuelingDQN(3, 5, -1, 1).state_dict()
    assert {s: tuple(state[f"{s}.weight"].shape) for s in DISTRIBUTIONAL_STREAMS} == DISTRIBUTIONAL_STREAMS


def test_values_are_the_sum_of_the_streams() -> None:
    q_function = nets.DuelingDQN(3)
    for stream, numbers in ((q_function.a_stream, [1.0, 0.0, 5.0]), (q_function.v_stream, [10.0])):
        nn.init.zeros_(stream.output.weight)
        stream.output.bias.data = torch.tensor(numbers)
    value = q_function(FRAMES)
    assert isinstance(value, DiscreteActionValue)
    # the mean of the advantages is 2
    assert value.q_values.tolist() == [[9.0, 8.0, 13.0]] * 2


def test_streams_of_any_modules_are_added_along_the_axis_of_the_actions() -> None:
    x = torch.tensor([[1.0, 3.0, 5.0, 7.0, 10.0, 20.0]])
    of_actions, of_value = (lambda x: x[:, :4].reshape(1, 2, 2)), (lambda x: x[:, 4:])
    first = nets.DuelingStreams(Lambda(of_actions), Lambda(lambda x: of_value(x).unsqueeze(1)))
    # the means over the actions are 3 and 5
    assert first(x).tolist() == [[[8.0, 18.0], [12.0, 22.0]]]
    second = nets.DuelingStreams(Lambda(of_actions), Lambda(lambda x: of_value(x).unsqueeze(2)), dim=2)
    # the means over the actions are 2 and 6
    assert second(x).tolist() == [[[9.0, 11.0], [19.0, 21.0]]]


def test_distributions_are_the_softmax_of_the_sum_of_the_streams() -> None:
    q_function = nets.DistributionalDuelingDQN(2, 2, 0, 1)
    for stream, numbers in ((q_function.a_stream, [0.0, 4.0, 2.0, 0.0]), (q_function.v_stream, [1.0, 2.0])):
        nn.init.zeros_(stream.weight)
        stream.bias.data = torch.tensor(numbers)
    value = q_function(FRAMES)
    assert isinstance(value, DistributionalDiscreteActionValue)
    # logits: atom 0 has 1 + (0 - 1) = 0 and 1 + (2 - 1) = 2, atom 1 has 2 + (4 - 2) = 4 and 2 + (0 - 2) = 0
    expected = torch.tensor([[0.0, 4.0], [2.0, 0.0]]).softmax(1)
    torch.testing.assert_close(value.q_dist, expected.expand(2, 2, 2))
    torch.testing.assert_close(value.q_values, expected[:, 1].expand(2, 2))  # the atoms are 0 and 1


def test_advantages_come_from_the_first_half_of_the_main_stream() -> None:
    q_function = nets.DistributionalDuelingDQN(2, 2, 0, 1)
    nn.init.zeros_(q_function.main_stream.weight)
    with torch.no_grad():
        q_function.main_stream.bias[512:] = 1.0
    q_function(FRAMES).q_dist[:, :, 0].sum().backward()
    assert q_function.a_stream.weight.grad is not None
    assert not q_function.a_stream.weight.grad.any()
    assert q_function.v_stream.weight.grad is not None
    assert q_function.v_stream.weight.grad.any()


def test_atoms_are_evenly_spaced_follow_the_module_and_are_not_saved() -> None:
    q_function = nets.DistributionalDuelingDQN(3, 5, -1, 3)
    assert q_function.z_values.tolist() == [-1.0, 0.0, 1.0, 2.0, 3.0]
    assert q_function.to("meta").z_values.device.type == "meta"


@pytest.mark.parametrize(
    "make", [nets.DuelingDQN, lambda n, **options: nets.DistributionalDuelingDQN(n, 3, -1, 1, **options)]
)
def test_channels_activation_and_bias_are_used(make) -> None:
    q_function = make(2, n_input_channels=1, activation=torch.zeros_like, bias=0.5)
    assert q_function.conv_layers[0].weight.shape[1] == 1
    assert all(bool((layer.bias == 0.5).all()) for layer in q_function.conv_layers)
    assert torch.equal(*(q_function(torch.rand(1, 1, 84, 84)).q_values for _ in range(2)))


def test_sizes_of_numpy_become_ints_which_a_compiler_takes_for_constants() -> None:
    q_function = nets.DistributionalDuelingDQN(np.int64(2), np.int64(3), -1.0, 1.0)  # as gymnasium counts actions
    assert [type(size) for size in (q_function.n_actions, q_function.n_atoms)] == [int] * 2


def test_streams_can_be_made_noisy() -> None:
    q_function = nets.DistributionalDuelingDQN(3, 5, -1, 1)
    to_factorized_noisy(q_function, sigma_scale=0.5)
    assert all(isinstance(getattr(q_function, name), FactorizedNoisyLinear) for name in DISTRIBUTIONAL_STREAMS)
    assert not torch.equal(q_function(FRAMES).q_values, q_function(FRAMES).q_values)
