"""The conjugate-gradient method."""

import pytest
import torch

from pfrl_like.utils.conjugate_gradient import conjugate_gradient


def test_conjugate_gradient_solves_in_as_many_steps_as_there_are_dimensions() -> None:
    # [[4, 1], [1, 3]] x = [1, 2]: x = (3 - 2, 8 - 1) / 11
    a, b = torch.tensor([[4.0, 1.0], [1.0, 3.0]]).double(), torch.tensor([1.0, 2.0]).double()
    assert conjugate_gradient(lambda v: a @ v, b).tolist() == pytest.approx([1 / 11, 7 / 11])
    # The first step is r.r / r.A r = 5 / 20 of b.
    assert conjugate_gradient(lambda v: a @ v, b, max_iter=1).tolist() == pytest.approx([0.25, 0.5])


def test_conjugate_gradient_stops_when_nothing_is_left() -> None:
    calls = []
    assert conjugate_gradient(lambda v: calls.append(v) or 2 * v, torch.tensor([4.0])).tolist() == [2.0]
    assert conjugate_gradient(lambda v: calls.append(v) or v, torch.zeros(1)).tolist() == [0.0]
    assert len(calls) == 1
