import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from pfrl_like.nn import Branched, Recurrent, RecurrentBranched, RecurrentSequential
from pfrl_like.utils import recurrent


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


def test_sequential_keeps_the_order_of_unsorted_sequences() -> None:
    model = RecurrentSequential(nn.Linear(2, 2), nn.GRU(2, 3), nn.Linear(3, 1))
    short, long = torch.randn(1, 2), torch.randn(3, 2)
    output, _ = model(pack_sequence([short, long], enforce_sorted=False), None)
    alone, _ = model(pack_sequence([short]), None)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output)
    assert lengths.tolist() == [1, 3]
    torch.testing.assert_close(padded[:1, 0], alone.data)


def test_sequential_takes_inputs_of_several_parts() -> None:
    inputs = (pack_sequence(sequences()), pack_sequence(sequences()))
    add = Branched(nn.Identity())  # one non-recurrent layer that sees the tuple of both
    output, states = RecurrentSequential(add)(inputs, None)
    assert states == ()
    assert torch.equal(output[0][1].data, inputs[1].data)


def test_sequential_refuses_input_that_is_not_packed() -> None:
    with pytest.raises(ValueError, match="sequences is Tensor, expected a PackedSequence"):
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
    assert recurrent.is_recurrent(model)
    assert model.recurrent_children == (model[0],)
    outputs, _ = model(pack_sequence(sequences()), None)
    assert [output.data.shape for output in outputs] == [(4, 3), (4, 3)]


def test_interface_names_the_class_that_lacks_forward() -> None:
    class Unfinished(Recurrent, nn.Module):
        """Has no forward."""

    with pytest.raises(NotImplementedError, match="Unfinished must define forward"):
        Unfinished()(None, None)


LAYERS = {
    "LSTM": lambda: nn.LSTM(2, 3, num_layers=2),
    "GRU": lambda: nn.GRU(2, 3),
    "RNN": lambda: nn.RNN(2, 3, batch_first=True),
    "projected": lambda: nn.LSTM(2, 4, proj_size=3),
    "both ways": lambda: nn.GRU(2, 3, bidirectional=True),
    "in a row": lambda: RecurrentSequential(nn.Linear(2, 4), nn.ReLU(), nn.LSTM(4, 3), nn.Linear(3, 2)),
    "in branches": lambda: RecurrentSequential(
        RecurrentBranched(nn.LSTM(2, 3), RecurrentSequential(nn.GRU(2, 3), nn.Tanh())), Concatenated()
    ),
}


class Concatenated(nn.Module):
    def forward(self, parts: tuple[Tensor, ...]) -> Tensor:
        return torch.cat(parts, 1)


@pytest.mark.parametrize("lengths", [[4, 4, 4], [5, 3, 1], [9, 1, 1, 1, 1], [1]])
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_alone_are_those_of_the_packed_sequences(name: str, lengths: list[int]) -> None:
    model = LAYERS[name]()
    rows = torch.randn(sum(lengths), 2, requires_grad=True)
    _, state = recurrent.one_step_forward(model, torch.randn(len(lengths), 2), None)
    state = recurrent.detach_recurrent_state(state)
    for before in (None, state):
        expected = recurrent.forward(model, rows, before, torch.tensor(lengths))[0]
        output = recurrent.sequence_outputs(model, rows, before, torch.tensor(lengths))
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
        params = [rows, *model.parameters()]
        weight = torch.randn_like(output)
        grads = [torch.autograd.grad((values * weight).sum(), params) for values in (output, expected)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_a_forward_of_the_users_own_and_hooks_are_called_for_the_output_alone() -> None:
    class Doubled(RecurrentSequential):
        def forward(self, packed_input: PackedSequence, recurrent_state: object) -> tuple[object, object]:
            output, state = super().forward(packed_input, recurrent_state)
            return output._replace(data=2 * output.data), state

    model, rows, lengths = Doubled(nn.GRU(2, 3)), torch.randn(4, 2), torch.tensor([3, 1])
    torch.testing.assert_close(
        recurrent.sequence_outputs(model, rows, None, lengths), recurrent.forward(model, rows, None, lengths)[0]
    )
    hooked, calls = RecurrentSequential(nn.GRU(2, 3)), []
    hooked.register_forward_hook(lambda *_: calls.append(1))
    recurrent.sequence_outputs(hooked, rows, None, lengths)
    assert calls == [1]
