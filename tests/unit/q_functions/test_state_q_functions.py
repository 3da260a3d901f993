from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.action_value import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.q_functions import (
    DiscreteActionValueHead,
    DistributionalFCStateQFunctionWithDiscreteAction,
    DistributionalSingleModelStateQFunctionWithDiscreteAction,
    FCQuadraticStateQFunction,
    FCStateQFunctionWithDiscreteAction,
    QuantileFCStateQFunctionWithDiscreteAction,
)

BOX = gymnasium.spaces.Box(np.array([-1, 0], dtype=np.float32), np.array([1, 4], dtype=np.float32))


def test_head_makes_q_values_an_action_value() -> None:
    value = DiscreteActionValueHead()(torch.tensor([[1.0, 2.0]]))
    assert isinstance(value, DiscreteActionValue)
    assert value.greedy_actions.tolist() == [1]


def test_fully_connected_has_the_shape_asked_for() -> None:
    q_function = FCStateQFunctionWithDiscreteAction(3, 2, n_hidden_channels=5, n_hidden_layers=2)
    assert [tuple(p.shape) for p in q_function.parameters()] == [(5, 3), (5,), (5, 5), (5,), (2, 5), (2,)]
    assert q_function(torch.zeros(7, 3)).q_values.shape == (7, 2)


def test_fully_connected_uses_nonlinearity_and_scale() -> None:
    q_function = FCStateQFunctionWithDiscreteAction(3, 2, 5, 1, nonlinearity=torch.zeros_like, last_wscale=0.0)
    assert q_function.model.nonlinearity is torch.zeros_like
    assert q_function.model.output.weight.abs().max() == 0


def test_distributional_gives_probabilities_over_the_atoms() -> None:
    q_function = DistributionalFCStateQFunctionWithDiscreteAction(3, 2, 5, -10, 10, 6, 2)
    assert [layer.out_features for layer in q_function.modules() if isinstance(layer, nn.Linear)] == [6, 6, 10]
    value = q_function(torch.randn(7, 3))
    assert isinstance(value, DistributionalDiscreteActionValue)
    assert value.q_dist.shape == (7, 2, 5)
    assert value.z_values.tolist() == [-10.0, -5.0, 0.0, 5.0, 10.0]
    torch.testing.assert_close(value.q_dist.sum(2), torch.ones(7, 2))


def test_distributional_uses_nonlinearity_and_scale() -> None:
    arguments: dict[str, Any] = {"nonlinearity": torch.tanh, "last_wscale": 0.0}
    q_function = DistributionalFCStateQFunctionWithDiscreteAction(3, 2, 4, -1, 1, 4, 1, **arguments)
    torch.testing.assert_close(q_function(torch.randn(1, 3)).q_dist, torch.full((1, 2, 4), 0.25))
    assert q_function.model[0].nonlinearity is torch.tanh


@pytest.mark.parametrize("z_values", [[0, 1], np.linspace(0.0, 1.0, 2), np.float32([0, 1]), torch.arange(2)])
def test_atoms_become_floats(z_values: Any) -> None:
    q_function = DistributionalSingleModelStateQFunctionWithDiscreteAction(nn.Unflatten(1, (2, 2)), z_values)
    assert q_function(torch.tensor([[1.0, 0.0, 0.5, 0.5]])).q_values.tolist() == [[0.0, 0.5]]


def test_atoms_in_double_precision_stay_so() -> None:
    z_values = torch.linspace(0, 1, 2, dtype=torch.float64)
    q_function = DistributionalSingleModelStateQFunctionWithDiscreteAction(nn.Unflatten(1, (2, 2)), z_values)
    assert q_function(torch.full((1, 4), 0.5, dtype=torch.float64)).q_values.dtype == torch.float64


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (FCStateQFunctionWithDiscreteAction, (3, 2, 4, 1)),
        (DistributionalFCStateQFunctionWithDiscreteAction, (3, 2, 5, -1, 1, 4, 1)),
        (QuantileFCStateQFunctionWithDiscreteAction, (3, 2, 5, 4, 1)),
    ],
)
def test_sizes_may_be_numpys(kind: Any, sizes: tuple[int, ...]) -> None:
    assert kind(*map(np.int64, sizes))(torch.randn(6, 3)).q_values.shape == (6, 2)


def test_quadratic_is_largest_at_its_greedy_action_and_within_the_bounds() -> None:
    value = FCQuadraticStateQFunction(3, 2, 8, 2, BOX)(10 * torch.randn(100, 3))
    greedy = value.greedy_actions
    assert bool((greedy >= torch.tensor([-1.0, 0.0])).all() and (greedy <= torch.tensor([1.0, 4.0])).all())
    others = torch.tensor(np.stack([BOX.sample() for _ in range(100)]))
    assert bool((value.evaluate_actions(others) <= value.max + 1e-5).all())


def test_quadratic_matrix_is_positive_definite() -> None:
    mat = FCQuadraticStateQFunction(3, 2, 8, 1, BOX)(torch.randn(20, 3)).mat
    torch.testing.assert_close(mat, mat.mT)
    assert bool((torch.linalg.eigvalsh(mat) > 0).all())


def test_scale_mu_brings_mu_within_the_bounds() -> None:
    x = 100 * torch.randn(50, 3)
    scaled, free = (FCQuadraticStateQFunction(3, 2, 8, 1, BOX, scale_mu=scale)(x) for scale in (True, False))
    assert bool((scaled.mu[:, 1] >= 0).all() and (scaled.mu[:, 1] <= 4).all())
    assert bool((free.mu[:, 1] < 0).any())
    assert bool((free.greedy_actions[:, 1] >= 0).all())
