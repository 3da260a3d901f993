from typing import Any

import torch
from torch import nn

from pfrl_like.batch import Batch
from pfrl_like.learning.recurrent_memory import burn_in
from pfrl_like.utils.recurrent import forward

LENGTHS = torch.tensor([4, 3, 1])
ROWS = torch.tensor([[0.0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [0, 2], [1, 2], [0, 3]])  # (sequence, step), packed


def batch(**fields: Any) -> Batch:
    rows = {"obs": ROWS, "next_obs": ROWS + 10, "action": ROWS[:, 1].long(), "reward": ROWS[:, 0]}
    return Batch(**{**rows, "discount": torch.ones(8), "lengths": LENGTHS, **fields})


def test_first_steps_are_taken_off_but_the_last_is_kept() -> None:
    rest = burn_in(nn.GRU(2, 3), batch(weight=ROWS[:, 1]), 2)
    assert rest.lengths is not None and rest.weight is not None
    assert rest.lengths.tolist() == [2, 1, 1]
    assert rest.obs.tolist() == [[0, 2], [1, 2], [2, 0], [0, 3]]
    assert rest.next_obs.tolist() == [[10, 12], [11, 12], [12, 10], [10, 13]]
    assert rest.action.tolist() == [2, 2, 0, 3]
    assert rest.weight.tolist() == [2, 2, 0, 3]


def test_rest_of_the_sequences_goes_on_as_if_nothing_had_been_cut() -> None:
    lstm = nn.LSTM(2, 3)
    state = tuple(torch.randn(1, 3, 3) for _ in range(2))
    next_state = tuple(torch.randn(1, 3, 3) for _ in range(2))
    whole = batch(recurrent_state=state, next_recurrent_state=next_state)
    rest = burn_in(lstm, whole, 2)
    kept = [5, 6, 2, 7]
    for inputs, before, now in (
        ("obs", "recurrent_state", "recurrent_state"),
        ("next_obs", "next_recurrent_state", "next_recurrent_state"),
    ):
        expected, _ = forward(lstm, getattr(whole, inputs), getattr(whole, before), LENGTHS)
        output, _ = forward(lstm, getattr(rest, inputs), getattr(rest, now), rest.lengths)
        torch.testing.assert_close(output, expected[kept])


def test_states_take_no_gradient() -> None:
    assert not burn_in(nn.GRU(2, 3), batch(), 1).recurrent_state.requires_grad


def test_sequences_of_one_step_keep_their_state() -> None:
    state = torch.randn(1, 2, 3)
    single = Batch(
        obs=ROWS[:2], next_obs=ROWS[:2], action=ROWS[:2], reward=torch.ones(2), discount=torch.ones(2),
        lengths=torch.tensor([1, 1]), recurrent_state=state,
    )  # fmt: skip
    rest = burn_in(nn.GRU(2, 3), single, 5)
    assert torch.equal(rest.recurrent_state, state)
    assert torch.equal(rest.obs, ROWS[:2])


def test_nothing_happens_without_sequences_or_steps() -> None:
    transitions = batch(lengths=None)
    assert burn_in(nn.GRU(2, 3), transitions, 2) is transitions
    sequences = batch()
    assert burn_in(nn.GRU(2, 3), sequences, 0) is sequences
