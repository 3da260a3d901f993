import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.nn import Branched, Recurrent, RecurrentBranched, RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.utils.recurrent import is_recurrent


def sequences() -> list[Tensor]:
    return [torch.randn(3, 2), torch.randn(1, 2)]


def test_sequential_equals_its_layers_one_after_the_other() -> None:
    before, lstm, gru, after = nn.Linear(2, 3), nn.LSTM(3, 4), nn.GRU(4, 5), nn.Linear(5, 1)
    inputs = sequences()
    output, states = RecurrentSequential(before, lstm, gru, nn.Tanh(), after)(pack_sequence(inputs), None)
    middle, lstm_state = lstm(pack_sequence([before(x) for x in inputs]))
    middle, gru_state = gru(middle)
    torch.testing.assert_close(output.data, after(torch.tanh(middle.data)))
    torch.testing.assert_close(states, (lstm_state, gru_state))


def test_sequential_goes_on_from_a_state() -> None:
    model = RecurrentSequential(nn.GRU(2, 3))
    x = torch.randn(4, 2)
    whole, _ = model(pack_sequence([x]), None)
    _, state = model(pack_sequence([x[:3]]), None)
    rest, _ = model(pack_sequence([x[3:]]), state)
    torch.testing.assert_close(rest.data, whole.data[3:])


def test_sequential_keeps_the_order_of_unsorted_sequences() -> None:
    model = RecurrentSequential(nn.Linear(2, 2), nn.GRU(2, 3), nn.Linear(3, 1))
    short, long = torch.randn(1, 2), torch.randn(3, 2)
    output, _ = model(pack_sequence([short, long], enforce_sorted=False), None)
    alone, _ = model(pack_sequence([short]), None)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output)
    assert lengths.tolist() == [1, 3]
    torch.testing.assert_close(padded[:1, 0], alone.data)


def test_sequential_gives_an_action_value_over_all_rows() -> None:
    output, _ = RecurrentSequential(nn.GRU(2, 3), DiscreteActionValueHead())(pack_sequence(sequences()), None)
    assert isinstance(output, DiscreteActionValue)
    assert output.q_values.shape == (4, 3)


def test_sequential_hands_every_row_on_without_recurrent_layers() -> None:
    output, states = RecurrentSequential(nn.Identity())(pack_sequence(sequences()), None)
    assert isinstance(output, PackedSequence)
    assert states == ()


def test_sequential_takes_inputs_of_several_parts() -> None:
    inputs = (pack_sequence(sequences()), pack_sequence(sequences()))
    add = Branched(nn.Identity())  # one non-recurrent layer that sees the tuple of both
    output, _ = RecurrentSequential(add)(inputs, None)
    assert torch.equal(output[0][1].data, inputs[1].data)


def test_sequential_refuses_input_that_is_not_packed() -> None:
    with pytest.raises(ValueError, match="packed_input is a Tensor, expected a PackedSequence"):
        RecurrentSequential(nn.GRU(2, 3))(torch.zeros(1, 2), None)


def test_sequential_refuses_the_state_of_another_model() -> None:
    with pytest.raises(ValueError, match="recurrent_state has 2 parts, expected 1"):
        RecurrentSequential(nn.GRU(2, 3))(pack_sequence(sequences()), (None, None))


def test_branched_gives_outputs_and_states_of_each_branch() -> None:
    one, two = nn.GRU(2, 3), RecurrentSequential(nn.LSTM(2, 4))
    inputs = pack_sequence(sequences())
    outputs, states = RecurrentBranched(one, two)(inputs, None)
    torch.testing.assert_close(outputs[0].data, one(inputs)[0].data)
    torch.testing.assert_close(outputs[1].data, two(inputs, None)[0].data)
    again, _ = RecurrentBranched(one, two)(inputs, states)
    torch.testing.assert_close(again[0].data, one(inputs, states[0])[0].data)
    torch.testing.assert_close(again[1].data, two(inputs, states[1])[0].data)


def test_containers_are_recurrent_and_nest() -> None:
    model = RecurrentSequential(RecurrentBranched(nn.GRU(2, 3), nn.GRU(2, 3)))
    assert is_recurrent(model)
    assert model.recurrent_children == (model[0],)
    outputs, _ = model(pack_sequence(sequences()), None)
    assert [output.data.shape for output in outputs] == [(4, 3), (4, 3)]


def test_parameters_have_the_names_they_have_in_pfrl() -> None:
    rnn = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    sequential = RecurrentSequential(nn.Linear(2, 3), nn.LSTM(3, 4), nn.Linear(4, 2), DiscreteActionValueHead())
    expected = ["0.weight", "0.bias", *(f"1.{name}" for name in rnn), "2.weight", "2.bias"]
    assert list(sequential.state_dict()) == expected
    branched = RecurrentBranched(nn.GRU(2, 3), RecurrentSequential(nn.LSTM(2, 3)))
    assert list(branched.state_dict()) == [f"{branch}.{name}" for branch in ("0", "1.0") for name in rnn]


def test_interface_names_the_class_that_lacks_forward() -> None:
    class Unfinished(Recurrent, nn.Module):
        """Has no forward."""

    with pytest.raises(NotImplementedError, match="Unfinished has to define forward"):
        Unfinished()(None, None)
