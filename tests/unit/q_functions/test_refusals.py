"""What Q-functions refuse when they are made or called."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from pfrl_like import q_functions

BOX = spaces.Box(np.array([-1, 0], dtype=np.float32), np.array([1, 4], dtype=np.float32))
PARTS = nn.Linear(5, 6), q_functions.CosineBasisLinear(4, 6), nn.Linear(6, 3)
LATE = ("FCLateActionSAQFunction", "FCBNLateActionSAQFunction")
#: Critics of a hidden size and a number of hidden layers.
CRITICS = ("FCSAQFunction", "FCBNSAQFunction", "FCLSTMSAQFunction", "DropoutFCSAQFunction")
#: Classes, their arguments, what is said.
REFUSED: list[tuple[str, tuple[Any, ...], str]] = [
    ("DistributionalFCStateQFunctionWithDiscreteAction", (3, 2, 1, -1, 1, 4, 1), "n_atoms is 1"),
    ("DistributionalFCStateQFunctionWithDiscreteAction", (3, 2, 5, 1, 1, 4, 1), "expected v_min < v_max"),
    ("DistributionalDuelingDQN", (2, 1, -1, 1), "expected at least 2"),
    ("DistributionalDuelingDQN", (2, 3, 2, 1), "expected v_min < v_max"),
    ("FCQuadraticStateQFunction", (3, 2, 4, 0, BOX), "n_hidden_layers is 0"),
    ("FCQuadraticStateQFunction", (3, 2, 4, 1, spaces.Discrete(2)), "expected a Box"),
    ("FCQuadraticStateQFunction", (3, 3, 4, 1, BOX), "n_dim_action is 3, but action_space.low has shape"),
    ("FCQuadraticStateQFunction", (3, 2, 4, 1, spaces.Box(-1, 1, (1,))), "n_dim_action is 2, but action_space.low has"),
    ("FCQuadraticStateQFunction", (3, 1, 4, 1, spaces.Box(-np.inf, np.inf, (1,))), "expected finite bounds"),
    *(
        ("DistributionalSingleModelStateQFunctionWithDiscreteAction", (nn.Identity(), z_values), "z_values")
        for z_values in ([0, 1, 2, 4, 8], [4, 3, 2, 1, 0], [1.0], [0.0, 0.0])
    ),
    ("QuantileFCStateQFunctionWithDiscreteAction", (5, 3, 0, 16, 2), "n_quantiles is 0, expected at least 1"),
    ("QuantileFCSAQFunction", (3, 1, 0, 8, 2), "n_quantiles"),
    ("DistributionalFCSAQFunction", (3, 1, 1, 0.0, 1.0, 8, 2), "n_atoms"),
    ("ImplicitQuantileFCSAQFunction", (3, 1, 8, 0), "n_hidden_layers"),
    ("FullyParametrizedFCSAQFunction", (3, 1, 0, 8, 1), "n_fractions"),
    *((name, (3, 2, 4, 0), "n_hidden_layers is 0, expected an integer from 1 on") for name in LATE),
    *((name, (3, 1, 8, -1), "n_hidden_layers is -1") for name in (*LATE, *CRITICS)),
    *((name, (3, 1, 0, 1), "n_hidden_channels is 0") for name in CRITICS),
    *((name, (3, 1, 8, 1.5), r"n_hidden_layers is 1.5 \(float\)") for name in (*LATE, *CRITICS)),
    *((name, (3, 1, 0, 2), "n_hidden_channels is 0, expected an integer from 1 on") for name in LATE),
    ("QuantileFCSAQFunction", (3, 1, 5, 0, 1), "n_hidden_channels is 0"),
    ("QuantileFCSAQFunction", (3, 1, 5, 8, 1.5), r"n_hidden_layers is 1.5 \(float\)"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), REFUSED)
def test_what_does_not_fit_is_refused(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(q_functions, name)(*arguments)


@pytest.mark.parametrize("name", ["N", "N_prime", "K"])
def test_no_fractions_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"quantile_thresholds_{name} is 0, expected an integer from 1 on"):
        q_functions.ImplicitQuantileQFunction(*PARTS, **{f"quantile_thresholds_{name}": 0})
    with pytest.raises(TypeError, match=rf"quantile_thresholds_{name} is 6.0 \(float\), expected an integer"):
        q_functions.ImplicitQuantileQFunction(*PARTS, **{f"quantile_thresholds_{name}": 6.0})


def test_a_negative_weight_of_the_entropy_is_refused() -> None:
    with pytest.raises(ValueError, match="entropy_coeff is -1, expected a finite number of at least 0"):
        q_functions.FullyParametrizedQFunction(*PARTS, nn.Linear(6, 8), entropy_coeff=-1)


@pytest.mark.parametrize("name", [*LATE, "FCSAQFunction", "FCBNSAQFunction", "DropoutFCSAQFunction"])
def test_an_observation_without_an_action_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="got one Tensor, expected an observation and an action, or a pair"):
        getattr(q_functions, name)(3, 1, 8, 1)(torch.zeros(2, 4))
