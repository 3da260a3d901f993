"""Q-functions that give quantiles."""

from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like import agents, q_functions
from pfrl_like.agents import iqn
from pfrl_like.nn import RecurrentSequential
from pfrl_like.utils.contexts import reads_training
from pfrl_like.utils.recurrent import forward, sequence_outputs


def parts(hidden: int = 6) -> tuple[nn.Module, nn.Module, nn.Module]:
    phi = nn.Sequential(q_functions.CosineBasisLinear(4, hidden), nn.ReLU())
    return nn.Linear(5, hidden), phi, nn.Linear(hidden, 3)


def implicit(**options: Any) -> q_functions.ImplicitQuantileQFunction:
    return q_functions.ImplicitQuantileQFunction(*parts(), **options)


def parametrized(**options: Any) -> q_functions.FullyParametrizedQFunction:
    return q_functions.FullyParametrizedQFunction(*parts(), nn.Linear(6, 8), **options)


def test_fully_connected_quantiles_have_the_shape_asked_for() -> None:
    q_function = q_functions.QuantileFCStateQFunctionWithDiscreteAction(5, 3, 7, 16, 2, torch.tanh, 0.0)
    value = q_function(torch.randn(4, 5))
    assert value.quantiles.shape == (4, 7, 3)
    assert (value.quantiles == 0).all()  # last_wscale
    assert [layer.out_features for layer in q_function.modules() if isinstance(layer, nn.Linear)] == [16, 16, 21]
    assert q_function.model[0].nonlinearity is torch.tanh


def test_quantiles_are_f_of_the_product() -> None:
    q_function = implicit()
    obs, taus = torch.randn(4, 5), torch.rand(4, 7)
    expected = q_function.f(q_function.psi(obs)[:, None] * q_function.phi(taus))
    torch.testing.assert_close(q_function(obs)(taus).quantiles, expected)


def test_the_features_are_computed_once() -> None:
    calls: list[Any] = []
    q_function = implicit()
    q_function.psi.register_forward_hook(lambda *_: calls.append(1))
    rows = torch.ones(4)
    value = q_function(torch.randn(4, 5))
    value.td_loss(rows.long(), rows, rows, value)
    assert len(calls) == 1


def test_cosine_layer_is_linear_in_the_cosines() -> None:
    layer, taus = q_functions.CosineBasisLinear(4, 6), torch.rand(3, 2)
    torch.testing.assert_close(layer(taus), layer.linear(q_functions.cosine_basis_functions(taus, 4)))


def test_numbers_of_fractions_have_the_defaults_of_pfrl() -> None:
    assert implicit().thresholds == (64, 64, 32)
    changed = implicit(quantile_thresholds_N=1, quantile_thresholds_N_prime=2, quantile_thresholds_K=3)
    assert changed.thresholds == (1, 2, 3)


def test_an_embedding_of_another_size_is_refused() -> None:
    psi, _, f = parts()
    q_function = q_functions.ImplicitQuantileQFunction(psi, q_functions.CosineBasisLinear(4, 1), f)
    with pytest.raises(ValueError, match=r"phi returns \(2, 32, 1\) .* expected \(2, 32, 6\), because psi returns"):
        q_function(torch.randn(2, 5)).q_values.sum()


@pytest.mark.parametrize("psi", [nn.GRU(5, 6), RecurrentSequential(nn.LSTM(5, 4), nn.Linear(4, 6))])
def test_a_recurrent_one_gives_the_values_of_every_step(psi: nn.Module) -> None:
    _, phi, f = parts()
    q_function = q_functions.RecurrentImplicitQuantileQFunction(psi, phi, f, quantile_thresholds_K=3)
    rows, lengths = torch.randn(5, 5), torch.tensor([3, 2])
    value, state = forward(q_function, rows, None, lengths)
    assert value.q_values.shape == (5, 3) and value.taus.shape == (5, 3)
    faster = sequence_outputs(q_function, rows, None, lengths)
    torch.testing.assert_close(faster.features, value.features)
    last = forward(q_function, torch.randn(2, 5), state)[0]
    assert last.features.shape == (2, 6)


def test_fractions_are_proposed_from_the_features() -> None:
    q_function = parametrized()
    obs = torch.randn(4, 5)
    value = q_function(obs)
    torch.testing.assert_close(value.masses, q_function.proposal(q_function.psi(obs)).softmax(1))
    value.fraction_loss(torch.zeros(4).long()).sum().backward()
    learning = {name.split(".")[0] for name, param in q_function.named_parameters() if param.grad is not None}
    assert learning == {"proposal"}


def test_the_loss_of_the_quantiles_does_not_reach_the_proposal() -> None:
    q_function, rows = parametrized(), torch.ones(4)
    value = q_function(torch.randn(4, 5))
    loss = value.td_loss(rows.long(), rows, rows, q_function(torch.randn(4, 5)))[0]
    (loss - value.fraction_loss(rows.long())).sum().backward()
    moved = {name.split(".")[0] for name, param in q_function.named_parameters() if param.grad.abs().sum() > 1e-6}
    assert moved == {"psi", "phi", "f"}


def test_the_entropy_coefficient_is_used() -> None:
    assert parametrized(entropy_coeff=0.25)(torch.randn(4, 5)).entropy_coeff == 0.25


def test_the_proposal_has_a_group_of_its_own() -> None:
    q_function = parametrized()
    for network in (q_function, nn.Sequential(nn.Linear(5, 5), q_function)):
        groups = q_functions.fqf_parameter_groups(network, lr=1e-9)
        assert groups[1] == {"params": list(q_function.proposal.parameters()), "lr": 1e-9}
        assert len(groups[0]["params"]) + 2 == len(list(network.parameters()))
    with pytest.raises(ValueError, match="q_function is Linear, expected a module that contains a FullyParametrized"):
        q_functions.fqf_parameter_groups(nn.Linear(1, 1))


def test_none_of_them_reads_training() -> None:
    psi = RecurrentSequential(nn.GRU(5, 6))
    recurrent = q_functions.RecurrentImplicitQuantileQFunction(psi, *parts()[1:])
    quantile = q_functions.QuantileFCStateQFunctionWithDiscreteAction(5, 3, 7, 16, 2)
    for q_function in (implicit(), parametrized(), recurrent, quantile):
        assert not reads_training(q_function)


def test_pfrls_paths_lead_here() -> None:
    for name in ("ImplicitQuantileQFunction", "CosineBasisLinear", "RecurrentImplicitQuantileQFunction"):
        assert getattr(iqn, name) is getattr(q_functions, name)
    assert iqn.cosine_basis_functions is q_functions.cosine_basis_functions
    assert iqn.IQN is agents.IQN
