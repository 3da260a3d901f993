"""Critics that give distributions: forms, both ways to call them, and what they refuse."""

from typing import Any

import pytest
import torch

from pfrl_like.q_functions import (
    DistributionalFCSAQFunction,
    DropoutFCSAQFunction,
    FCBNSAQFunction,
    FCLSTMSAQFunction,
    FCSAQFunction,
    FullyParametrizedFCSAQFunction,
    ImplicitQuantileFCSAQFunction,
    QuantileFCSAQFunction,
)

OBS, ACTION = torch.randn(2, 3), torch.randn(2, 1)


def test_quantiles_of_one_action() -> None:
    q_function = QuantileFCSAQFunction(3, 1, 5, 8, 2)
    value = q_function((OBS, ACTION))
    assert value.quantiles.shape == (2, 5, 1)
    torch.testing.assert_close(q_function(OBS, ACTION).quantiles, value.quantiles)
    torch.testing.assert_close(value.q_values, value.quantiles.mean(1))


def test_atoms_of_one_action() -> None:
    q_function = DistributionalFCSAQFunction(3, 1, 11, -1.0, 4.0, 8, 2)
    value = q_function((OBS, ACTION))
    assert value.q_dist.shape == (2, 1, 11)
    torch.testing.assert_close(value.q_dist.sum(2), torch.ones(2, 1))
    assert value.z_values.tolist() == pytest.approx([-1 + 0.5 * i for i in range(11)])
    torch.testing.assert_close(q_function(OBS, ACTION).q_dist, value.q_dist)


def test_quantiles_at_fractions() -> None:
    q_function = ImplicitQuantileFCSAQFunction(3, 1, 8, 2, n_cosines=4, quantile_thresholds_N=7)
    value = q_function((OBS, ACTION))
    assert value(torch.rand(2, 6)).quantiles.shape == (2, 6, 1)
    assert value.thresholds.N == 7
    assert value.n_actions == 1


def test_proposed_fractions() -> None:
    q_function = FullyParametrizedFCSAQFunction(3, 1, 6, 8, 2, n_cosines=4, entropy_coeff=0.5)
    value = q_function((OBS, ACTION))
    assert value.masses.shape == (2, 6) and value.entropy_coeff == 0.5
    assert value.q_values.shape == (2, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: QuantileFCSAQFunction(3, 1, 0, 8, 2),
        lambda: DistributionalFCSAQFunction(3, 1, 1, 0.0, 1.0, 8, 2),
        lambda: ImplicitQuantileFCSAQFunction(3, 1, 8, 0),
        lambda: FullyParametrizedFCSAQFunction(3, 1, 0, 8, 1),
    ],
)
def test_counts_below_their_least_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="n_quantiles|n_atoms|n_hidden_layers|n_fractions"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda size, layers: FCSAQFunction(3, 1, size, layers),
        lambda size, layers: FCBNSAQFunction(3, 1, size, layers),
        lambda size, layers: FCLSTMSAQFunction(3, 1, size, layers),
        lambda size, layers: DropoutFCSAQFunction(3, 1, size, layers),
        lambda size, layers: QuantileFCSAQFunction(3, 1, 5, size, layers),
    ],
)
def test_hidden_layers_are_counted_and_have_a_size(make: Any) -> None:
    with pytest.raises(ValueError, match="n_hidden_layers is -1"):
        make(8, -1)
    with pytest.raises(ValueError, match="n_hidden_channels is 0"):
        make(0, 1)
    with pytest.raises(TypeError, match=r"n_hidden_layers is 1.5 \(float\)"):
        make(8, 1.5)


def test_an_observation_without_an_action_is_refused() -> None:
    for q_function in (
        QuantileFCSAQFunction(3, 1, 5, 8, 2),
        DropoutFCSAQFunction(3, 1, 8, 2),
        FCSAQFunction(3, 1, 8, 2),
    ):
        with pytest.raises(TypeError, match="expected an observation and an action, or a pair of both, got one Tensor"):
            q_function(torch.zeros(2, 4))
