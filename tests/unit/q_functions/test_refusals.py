"""What Q-functions refuse when they are made or called."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from pfrl_like.q_functions import (
    CosineBasisLinear,
    DistributionalDuelingDQN,
    DistributionalFCSAQFunction,
    DistributionalFCStateQFunctionWithDiscreteAction,
    DistributionalSingleModelStateQFunctionWithDiscreteAction,
    DropoutFCSAQFunction,
    FCBNLateActionSAQFunction,
    FCBNSAQFunction,
    FCLateActionSAQFunction,
    FCLSTMSAQFunction,
    FCQuadraticStateQFunction,
    FCSAQFunction,
    FullyParametrizedFCSAQFunction,
    FullyParametrizedQFunction,
    ImplicitQuantileFCSAQFunction,
    ImplicitQuantileQFunction,
    QuantileFCSAQFunction,
    QuantileFCStateQFunctionWithDiscreteAction,
)

BOX = spaces.Box(np.array([-1, 0], dtype=np.float32), np.array([1, 4], dtype=np.float32))
PARTS = nn.Linear(5, 6), CosineBasisLinear(4, 6), nn.Linear(6, 3)


def quadratic(n_actions: int = 2, n_layers: int = 1, space: Any = BOX) -> Any:
    return FCQuadraticStateQFunction(3, n_actions, 4, n_layers, space)


def of_atoms(z_values: Any) -> Any:
    return DistributionalSingleModelStateQFunctionWithDiscreteAction(nn.Identity(), z_values)


def fractions(name: str, number: Any) -> Any:
    return ImplicitQuantileQFunction(*PARTS, **{f"quantile_thresholds_{name}": number})


#: Critics of a hidden size and a number of hidden layers.
CRITICS = [
    FCLateActionSAQFunction, FCBNLateActionSAQFunction, FCSAQFunction, FCBNSAQFunction, FCLSTMSAQFunction,
    DropoutFCSAQFunction, lambda obs, action, *sizes: QuantileFCSAQFunction(obs, action, 5, *sizes),
]  # fmt: skip
REFUSED: list[tuple[Any, str]] = [
    (lambda: DistributionalFCStateQFunctionWithDiscreteAction(3, 2, 1, -1, 1, 4, 1), "n_atoms is 1"),
    (lambda: DistributionalFCStateQFunctionWithDiscreteAction(3, 2, 5, 1, 1, 4, 1), "expected v_min < v_max"),
    (lambda: DistributionalDuelingDQN(2, 1, -1, 1), "expected at least 2"),
    (lambda: DistributionalDuelingDQN(2, 3, 2, 1), "expected v_min < v_max"),
    (lambda: quadratic(n_layers=0), "n_hidden_layers is 0"),
    (lambda: quadratic(space=spaces.Discrete(2)), "expected a Box"),
    (lambda: quadratic(3), "n_dim_action is 3, but action_space.low has shape"),
    (lambda: quadratic(space=spaces.Box(-1, 1, (1,))), "n_dim_action is 2, but action_space.low has shape"),
    (lambda: quadratic(1, space=spaces.Box(-np.inf, np.inf, (1,))), "expected finite bounds"),
    *((lambda z_values=z_values: of_atoms(z_values), "z_values") for z_values in ([0, 1, 2, 4, 8], [4, 3, 2, 1, 0])),
    *((lambda z_values=z_values: of_atoms(z_values), "z_values") for z_values in ([1.0], [0.0, 0.0])),
    (lambda: QuantileFCStateQFunctionWithDiscreteAction(5, 3, 0, 16, 2), "n_quantiles is 0, expected at least 1"),
    (lambda: QuantileFCSAQFunction(3, 1, 0, 8, 2), "n_quantiles"),
    (lambda: DistributionalFCSAQFunction(3, 1, 1, 0.0, 1.0, 8, 2), "n_atoms"),
    (lambda: ImplicitQuantileFCSAQFunction(3, 1, 8, 0), "n_hidden_layers"),
    (lambda: FullyParametrizedFCSAQFunction(3, 1, 0, 8, 1), "n_fractions"),
    (lambda: FullyParametrizedQFunction(*PARTS, nn.Linear(6, 8), entropy_coeff=-1), "entropy_coeff is -1, expected a"),
    (lambda: FCLateActionSAQFunction(3, 2, 4, 0), "n_hidden_layers is 0, expected at least 1"),
    (lambda: FCBNLateActionSAQFunction(3, 2, 4, 0), "n_hidden_layers is 0, expected at least 1"),
    *((lambda n=n: fractions(n, 0), f"thresholds_{n} is 0, expected an integer from 1") for n in ("N", "N_prime", "K")),
    *((lambda n=n: fractions(n, 6.0), rf"_{n} is 6.0 \(float\), expected an integer") for n in ("N", "N_prime", "K")),
    *((lambda critic=critic: critic(3, 1, 8, -1), "n_hidden_layers is -1") for critic in CRITICS),
    *((lambda critic=critic: critic(3, 1, 0, 1), "n_hidden_channels is 0") for critic in CRITICS[2:]),
    *((lambda critic=critic: critic(3, 1, 8, 1.5), r"n_hidden_layers is 1.5 \(float\)") for critic in CRITICS[2:]),
    *((lambda critic=critic: critic(3, 1, 8, 1)(torch.zeros(2, 4)), "action, or a pair of both, got one Tensor")
      for critic in CRITICS if critic is not FCLSTMSAQFunction),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda each: each if isinstance(each, str) else "")
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
