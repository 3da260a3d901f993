"""Critics that give distributions."""

import torch

from pfrl_like.q_functions import (
    DistributionalFCSAQFunction,
    FullyParametrizedFCSAQFunction,
    ImplicitQuantileFCSAQFunction,
    QuantileFCSAQFunction,
)

OBS, ACTION = torch.randn(2, 3), torch.randn(2, 1)


def test_quantiles_and_atoms_of_one_action() -> None:
    quantiles, atoms = QuantileFCSAQFunction(3, 1, 5, 8, 2), DistributionalFCSAQFunction(3, 1, 11, -1.0, 4.0, 8, 2)
    value = quantiles((OBS, ACTION))
    assert value.quantiles.shape == (2, 5, 1)
    torch.testing.assert_close(quantiles(OBS, ACTION).quantiles, value.quantiles)
    value = atoms((OBS, ACTION))
    assert value.q_dist.shape == (2, 1, 11)
    torch.testing.assert_close(value.z_values, torch.linspace(-1, 4, 11))
    torch.testing.assert_close(atoms(OBS, ACTION).q_dist, value.q_dist)


def test_drawn_and_proposed_fractions_of_one_action() -> None:
    value = ImplicitQuantileFCSAQFunction(3, 1, 8, 2, n_cosines=4, quantile_thresholds_N=7)((OBS, ACTION))
    assert value(torch.rand(2, 6)).quantiles.shape == (2, 6, 1)
    assert value.thresholds.N == 7 and value.n_actions == 1
    value = FullyParametrizedFCSAQFunction(3, 1, 6, 8, 2, n_cosines=4, entropy_coeff=0.5)((OBS, ACTION))
    assert value.masses.shape == (2, 6) and value.entropy_coeff == 0.5 and value.q_values.shape == (2, 1)
