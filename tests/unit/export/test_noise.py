"""Random numbers of a greedy policy: which there are, and what stands in their place."""

from typing import Any

import pytest
import torch

from pfrl_like.errors import ExportError
from pfrl_like.export.policy import Draw, Draws, draws_of


def test_draws_are_found_without_a_trace_in_the_stream() -> None:
    def act(batch: int) -> None:
        torch.randn(7)
        torch.rand(batch, 3, dtype=torch.float64)
        torch.randn_like(torch.zeros(5 * batch, 2))

    before = torch.get_rng_state()
    shared, fractions, samples = draws_of(act)
    assert torch.equal(before, torch.get_rng_state())
    assert shared == Draw(False, 0, (7,), torch.float32)
    assert fractions == Draw(True, 1, (3,), torch.float64)
    assert samples == Draw(False, 5, (2,), torch.float32)
    assert [draw.input_shape for draw in (shared, fractions, samples)] == [(7,), ("batch", 3), ("batch", 5, 2)]


def test_given_numbers_take_their_place_in_the_shape_in_which_they_are_drawn() -> None:
    draw = Draw(False, 5, (2,), torch.float32)
    given = draw.sample(3, torch.Generator().manual_seed(0))
    with Draws([draw.as_drawn(given)]):
        drawn = torch.randn(15, 2)
    assert torch.equal(drawn, given.view(15, 2))


def test_fixed_fractions_are_even_and_fixed_weights_without_noise() -> None:
    assert Draw(True, 1, (4,), torch.float32).fixed().tolist() == [[0.125, 0.375, 0.625, 0.875]]
    assert Draw(False, 0, (4,), torch.float32).fixed().tolist() == [0, 0, 0, 0]
    samples = Draw(False, 5, (2,), torch.float32)
    assert samples.fixed().shape == (1, 5, 2) and torch.equal(samples.fixed(), samples.fixed())
    assert samples.fixed().std() > 0.1


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda batch: torch.randn(3, batch), "expected a difference only in the first axis"),
        (lambda batch: torch.randn(batch + 1), "expected a difference only in the first axis"),
        (lambda batch: torch.rand(batch) if batch < 3 else None, "depends on the number of observations"),
        (lambda batch: torch.randperm(batch), "an unsupported function samples, expected torch.rand"),
    ],
)
def test_what_nobody_could_give_is_refused(act: Any, words: str) -> None:
    with pytest.raises(ExportError, match=words):
        draws_of(act)
