"""Q-functions of state and action."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from pfrl_like import q_functions
from pfrl_like.q_function import StateActionQFunction
from pfrl_like.utils.recurrent import forward, is_recurrent, sequence_outputs

OBS, ACTION = torch.randn(6, 3), torch.randn(6, 2)
PLAIN = ["FCSAQFunction", "FCBNSAQFunction", "FCLateActionSAQFunction", "FCBNLateActionSAQFunction"]


def make(name: str, n_hidden_layers: int = 2, **options: Any) -> Any:
    return getattr(q_functions, name)(3, 2, 4, n_hidden_layers, **options)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("n_hidden_layers", [1, 2, 3])
def test_one_number_a_row_that_depends_on_observation_and_action(name: str, n_hidden_layers: int) -> None:
    q_function = make(name, n_hidden_layers, nonlinearity=torch.tanh).eval()
    assert isinstance(q_function, StateActionQFunction)
    q = q_function(OBS, ACTION)
    assert q.shape == (6, 1)
    for changed in (q_function(OBS + 1, ACTION), q_function(OBS, ACTION + 1)):
        assert bool((changed != q).all())
    assert torch.equal(q_function((OBS, ACTION)), q)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("n_hidden_layers", [1, 3])
def test_nonlinearity_follows_each_hidden_layer_of_its_size(name: str, n_hidden_layers: int) -> None:
    seen: list[Any] = []
    make(name, n_hidden_layers, nonlinearity=lambda x: seen.append(x.shape) or torch.relu(x))(OBS, ACTION)
    assert seen == [(6, 4)] * n_hidden_layers


def test_fully_connected_is_an_mlp_over_both() -> None:
    q_function = make("FCSAQFunction", 1, nonlinearity=lambda x: x + 10)
    for parameter in q_function.parameters():
        nn.init.constant_(parameter, 2.0)
    # hidden 2 * (3 * 1 + 2 * 1) + 2 + 10 = 22, output 4 * 2 * 22 + 2 = 178
    assert q_function(torch.ones(1, 3), torch.ones(1, 2)).tolist() == [[178.0]]


@pytest.mark.parametrize("n_hidden_layers", [1, 2])
def test_late_action_joins_the_output_of_the_first_layer(n_hidden_layers: int) -> None:
    q_function = make("FCLateActionSAQFunction", n_hidden_layers, nonlinearity=lambda x: x + 10)
    for parameter in q_function.parameters():
        nn.init.constant_(parameter, 2.0)
    # first layer 2 * 3 + 2 + 10 = 18; beside the action of ones 4 * 18 + 2 = 74, 2 * 74 + 2 = 150
    expected = 150.0 if n_hidden_layers == 1 else 4 * 2 * (150.0 + 10) + 2
    assert q_function(torch.ones(1, 3), torch.ones(1, 2)).tolist() == [[expected]]


def test_late_action_with_normalisation_normalises_observations_alone() -> None:
    q_function = make("FCBNLateActionSAQFunction", 1)
    seen: list[torch.Tensor] = []
    q_function.mlp.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    q_function.nonlinearity = lambda x: x
    q_function(OBS, ACTION * 100)
    torch.testing.assert_close(seen[0][:, :4].mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    assert torch.equal(seen[0][:, 4:], ACTION * 100)


def test_the_output_layer_under_two_names_is_one() -> None:
    q_function = make("FCLateActionSAQFunction")
    assert q_function.output is q_function.mlp.output
    assert len([*q_function.parameters()]) == 6


@pytest.mark.parametrize("name", [*PLAIN, "FCLSTMSAQFunction"])
def test_last_layer_is_scaled(name: str) -> None:
    q_function = make(name, last_wscale=0.0)
    last = q_function[-1].output if name == "FCLSTMSAQFunction" else getattr(q_function, "mlp", q_function).output
    assert not last.weight.any()


class TestRecurrent:
    """FCLSTMSAQFunction."""

    def test_steps_one_by_one_are_those_of_the_sequence(self) -> None:
        q_function = make("FCLSTMSAQFunction")
        assert is_recurrent(q_function)
        assert isinstance(q_function, StateActionQFunction)
        packed = pack_sequence([OBS]), pack_sequence([ACTION])
        q, _ = q_function(packed, None)
        assert q.data.shape == (6, 1)
        state = None
        for i in range(6):
            step, state = forward(q_function, (OBS[i : i + 1], ACTION[i : i + 1]), state)
            torch.testing.assert_close(step, q.data[i : i + 1])

    def test_sequences_of_different_lengths_are_rows_of_their_own(self) -> None:
        q_function, lengths = make("FCLSTMSAQFunction"), torch.tensor([3, 2, 1])
        q, state = forward(q_function, (OBS, ACTION), None, lengths)
        torch.testing.assert_close(sequence_outputs(q_function, (OBS, ACTION), None, lengths), q)
        alone, _ = forward(q_function, (OBS[2:3], ACTION[2:3]), None)  # the third sequence's only step
        torch.testing.assert_close(q[2:3], alone)
        assert [part.shape for part in state[0]] == [(1, 3, 4)] * 2

    @pytest.mark.parametrize(("n_hidden_layers", "n_linear"), [(0, 1), (1, 2), (2, 3)])
    def test_hidden_layers_come_before_the_lstm(self, n_hidden_layers: int, n_linear: int) -> None:
        q_function = make("FCLSTMSAQFunction", n_hidden_layers)
        kinds = [type(part) for part in q_function.modules() if isinstance(part, nn.Linear | nn.LSTM)]
        assert kinds == [nn.Linear] * (n_linear - 1) + [nn.LSTM, nn.Linear]
        assert forward(q_function, (OBS, ACTION))[0].shape == (6, 1)

    def test_nonlinearity_follows_each_hidden_layer(self) -> None:
        calls = []
        forward(make("FCLSTMSAQFunction", nonlinearity=lambda x: calls.append(1) or torch.relu(x)), (OBS, ACTION))
        assert len(calls) == 2


def test_quantiles_and_atoms_of_one_action() -> None:
    quantiles, atoms = (
        q_functions.QuantileFCSAQFunction(3, 2, 5, 8, 2),
        q_functions.DistributionalFCSAQFunction(3, 2, 11, -1.0, 4.0, 8, 2),
    )
    value = quantiles((OBS, ACTION))
    assert value.quantiles.shape == (6, 5, 1)
    torch.testing.assert_close(quantiles(OBS, ACTION).quantiles, value.quantiles)
    atoms = q_functions.DistributionalFCSAQFunction(3, 2, 11, -1.0, 4.0, 8, 2)
    value = atoms((OBS, ACTION))
    assert value.q_dist.shape == (6, 1, 11)
    torch.testing.assert_close(value.z_values, torch.linspace(-1, 4, 11))
    torch.testing.assert_close(atoms(OBS, ACTION).q_dist, value.q_dist)


def test_drawn_and_proposed_fractions_of_one_action() -> None:
    value = q_functions.ImplicitQuantileFCSAQFunction(3, 2, 8, 2, n_cosines=4, quantile_thresholds_N=7)((OBS, ACTION))
    assert value(torch.rand(6, 6)).quantiles.shape == (6, 6, 1)
    assert value.thresholds.N == 7 and value.n_actions == 1
    value = q_functions.FullyParametrizedFCSAQFunction(3, 2, 6, 8, 2, n_cosines=4, entropy_coeff=0.5)((OBS, ACTION))
    assert value.masses.shape == (6, 6) and value.entropy_coeff == 0.5 and value.q_values.shape == (6, 1)
