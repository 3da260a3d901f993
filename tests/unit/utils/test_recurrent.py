from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.nn import RecurrentBranched, RecurrentSequential
from pfrl_like.utils import recurrent


def sequences() -> list[Tensor]:
    """Row t of sequence i is (i, t)."""
    return [torch.tensor([[float(i), float(t)] for t in range(length)]) for i, length in enumerate((3, 2, 2))]


LENGTHS = torch.tensor([3, 2, 2])
ROWS = torch.tensor([[0.0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2]])  # packed: time first


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.LSTM(1, 1), True),
        (nn.GRU(1, 1), True),
        (nn.RNN(1, 1), True),
        (RecurrentSequential(), True),
        (RecurrentBranched(), True),
        (nn.Sequential(nn.GRU(1, 1)), False),
        (nn.Linear(1, 1), False),
        (len, False),
    ],
)
def test_recurrent_layers_are_recognised(layer: Any, expected: bool) -> None:
    assert recurrent.is_recurrent(layer) is expected


# Forward passes


def test_module_that_is_not_recurrent_gets_the_rows_and_has_no_state() -> None:
    module = nn.Linear(2, 1)
    for lengths in (None, LENGTHS):
        output, state = recurrent.forward(module, ROWS, None, lengths)
        torch.testing.assert_close(output, module(ROWS))
        assert state is None


def test_packed_rows_go_through_a_recurrent_module_as_sequences() -> None:
    gru = nn.GRU(2, 3)
    output, state = recurrent.forward(gru, ROWS, None, LENGTHS)
    expected, expected_state = gru(pack_sequence(sequences()))
    torch.testing.assert_close(output, expected.data)
    torch.testing.assert_close(state, expected_state)


def test_sequences_are_independent_of_each_other() -> None:
    lstm = nn.LSTM(2, 3)
    output, state = recurrent.forward(lstm, ROWS, None, LENGTHS)
    for i, sequence in enumerate(sequences()):
        alone, (h, c) = recurrent.forward(lstm, sequence, None, torch.tensor([len(sequence)]))
        torch.testing.assert_close(output[ROWS[:, 0] == i], alone)
        torch.testing.assert_close(recurrent.get_recurrent_state_at(state, i, detach=True), (h[:, 0], c[:, 0]))


def test_state_before_the_sequences_is_used() -> None:
    gru = nn.GRU(2, 3)
    before = torch.randn(1, 3, 3)
    output, _ = recurrent.forward(gru, ROWS, before, LENGTHS)
    torch.testing.assert_close(output, gru(pack_sequence(sequences()), before)[0].data)


def test_rows_without_lengths_are_one_step_each() -> None:
    gru = nn.GRU(2, 3)
    state = torch.randn(1, 7, 3)
    output, new_state = recurrent.forward(gru, ROWS, state)
    one_step, one_step_state = recurrent.one_step_forward(gru, ROWS, state)
    expected, expected_state = gru(ROWS.unsqueeze(0), state)
    torch.testing.assert_close(output, expected[0])
    torch.testing.assert_close(one_step, expected[0])
    torch.testing.assert_close(new_state, expected_state)
    torch.testing.assert_close(one_step_state, expected_state)


def test_nested_inputs_are_packed_part_by_part() -> None:
    class Parts(recurrent.Recurrent, nn.Module):
        """Feeds one of its inputs to a GRU."""

        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(2, 3)

        def forward(self, packed_input: Any, recurrent_state: Any) -> tuple[Any, Any]:
            return self.gru(packed_input["x"][0], recurrent_state)

    module = Parts()
    output, _ = recurrent.forward(module, {"x": (ROWS,), "y": ROWS}, None, LENGTHS)
    torch.testing.assert_close(output, module.gru(pack_sequence(sequences()))[0].data)
    assert recurrent.one_step_forward(module, {"x": (ROWS,)}, None)[0].shape == (7, 3)


def test_rows_are_packed_as_sequences_of_one_step_and_unpacked() -> None:
    rows = torch.randn(3, 2)
    packed, (inner,) = recurrent.pack_one_step_batch_as_sequences((rows, (rows + 1,)))
    assert packed.batch_sizes.tolist() == inner.batch_sizes.tolist() == [3]
    alone, (too,) = recurrent.unpack_sequences_as_one_step_batch((packed, (inner,)))
    assert torch.equal(alone, rows)
    assert torch.equal(too, rows + 1)


def test_list_of_sequences_is_packed_and_computed() -> None:
    gru = nn.GRU(2, 3)
    output, state = recurrent.pack_and_forward(gru, sequences(), None)
    torch.testing.assert_close((output, state), recurrent.forward(gru, ROWS, None, LENGTHS))


# Packing


def test_batch_sizes_count_the_running_sequences() -> None:
    assert recurrent.batch_sizes_of(LENGTHS).tolist() == [3, 3, 1] == pack_sequence(sequences()).batch_sizes.tolist()


@pytest.mark.parametrize("lengths", [[], [0], [2, 0], [1, 2]])
def test_lengths_that_are_not_falling_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="expected positive lengths in descending order"):
        recurrent.batch_sizes_of(torch.tensor(lengths, dtype=torch.int64))


def test_flattened_sequences_are_in_packed_order() -> None:
    flat = recurrent.flatten_sequences_time_first([["a0", None, "a2"], ["b0", "b1"], ["c0"]])
    assert flat == ["a0", "b0", "c0", None, "b1", "a2"]
    torch.testing.assert_close(torch.stack(recurrent.flatten_sequences_time_first(sequences())), ROWS)


def test_packing_and_unwrapping_give_the_packed_rows() -> None:
    packed = recurrent.pack_sequences_recursive([(s, {"x": s}) for s in sequences()])
    unwrapped = recurrent.unwrap_packed_sequences_recursive(packed)
    torch.testing.assert_close(unwrapped, (ROWS, {"x": ROWS}))


def test_wrapping_undoes_unwrapping() -> None:
    packed = pack_sequence(sequences()[::-1], enforce_sorted=False)
    info = recurrent.get_packed_sequence_info(({"x": packed},))
    assert info is not None
    wrapped = recurrent.wrap_packed_sequences_recursive(({"x": packed.data},), *info)[0]["x"]
    assert isinstance(wrapped, PackedSequence)
    assert torch.equal(wrapped.unsorted_indices, packed.unsorted_indices)


def test_other_objects_pass_through() -> None:
    value = DiscreteActionValue(torch.zeros(1, 1))
    assert recurrent.unwrap_packed_sequences_recursive(value) is value
    assert recurrent.wrap_packed_sequences_recursive(value, torch.tensor([1]), None) is value
    assert recurrent.get_packed_sequence_info(value) is None
    assert recurrent.pack_sequences_recursive(["a", "b"]) == ["a", "b"]


def test_sequences_that_cannot_be_packed_are_refused() -> None:
    with pytest.raises(ValueError, match="sequences is empty"):
        recurrent.pack_sequences_recursive([])
    with pytest.raises(ValueError, match=r"sequences has lengths \[2, 2, 3\], expected descending lengths"):
        recurrent.pack_sequences_recursive(sequences()[::-1])


def test_priority_of_a_sequence_is_its_largest_absolute_error() -> None:
    errors = torch.tensor([1.0, -5.0, 0.0, -2.0, 3.0, 0.0, 1.5])
    assert recurrent.max_over_sequences(errors, LENGTHS).tolist() == [2.0, 5.0, 0.0]


# States

STATE = torch.arange(12.0).reshape(2, 3, 2)  # two layers, three sequences
NESTED = (STATE, (STATE + 100, None))


def test_masked_sequences_are_back_at_zero() -> None:
    masked = recurrent.mask_recurrent_state_at(NESTED, [0, 2])
    assert masked[0][:, [0, 2]].abs().max() == 0
    assert torch.equal(masked[1][0][:, 1], STATE[:, 1] + 100)
    assert masked[1][1] is None
    assert STATE[0, 0, 1] == 1.0


def test_masking_resets_what_is_not_finite() -> None:
    broken = torch.full((1, 2, 1), float("nan"))
    assert recurrent.mask_recurrent_state_at(broken, 0)[0, 0, 0] == 0


def test_state_of_one_sequence_loses_the_batch_axis() -> None:
    one = recurrent.get_recurrent_state_at(NESTED, 1, detach=False)
    assert torch.equal(one[0], STATE[:, 1])
    assert recurrent.get_recurrent_state_at(NESTED, [1], detach=False)[0].shape == (2, 1, 2)


def test_detaching_is_a_choice() -> None:
    state = STATE.clone().requires_grad_()
    assert recurrent.get_recurrent_state_at(state, 0, detach=False).requires_grad
    assert not recurrent.get_recurrent_state_at(state, 0, detach=True).requires_grad
    assert not recurrent.detach_recurrent_state((state,))[0].requires_grad


@pytest.mark.parametrize("as_numpy", [False, True])
def test_states_taken_apart_can_be_put_together(as_numpy: bool) -> None:
    parts = [recurrent.get_recurrent_state_at(NESTED, i, detach=True) for i in range(3)]
    if as_numpy:
        parts = [recurrent.recurrent_state_as_numpy(part) for part in parts]
    whole = recurrent.concatenate_recurrent_states(parts)
    if as_numpy:
        assert isinstance(whole[0], np.ndarray)
        whole = recurrent.recurrent_state_from_numpy(whole, "cpu")
    assert torch.equal(whole[0], STATE)
    assert torch.equal(whole[1][0], STATE + 100)
    assert whole[1][1] is None


def test_missing_states_count_as_zeros() -> None:
    whole = recurrent.concatenate_recurrent_states([None, (STATE[:, 1],), None])
    assert whole[0].shape == STATE.shape
    assert torch.equal(whole[0][:, 1], STATE[:, 1])
    assert whole[0][:, [0, 2]].abs().max() == 0
    assert recurrent.concatenate_recurrent_states([None, None]) is None


def test_initial_state_stays_none() -> None:
    assert recurrent.mask_recurrent_state_at(None, 0) is None
    assert recurrent.get_recurrent_state_at(None, 0, detach=True) is None
    assert recurrent.recurrent_state_as_numpy(None) is None
    assert recurrent.recurrent_state_from_numpy(None, "cpu") is None
    assert recurrent.detach_recurrent_state(None) is None


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(ValueError, match="recurrent_state is 'x', expected a tensor, a tuple of states, or None"):
        recurrent.detach_recurrent_state("x")
