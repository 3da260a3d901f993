from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.nn import BoundByTanh, ConcatObsAndAction


def test_bounds_may_be_arrays_and_are_not_saved() -> None:
    bound = BoundByTanh(np.array([-1.0, 0.0]), np.array([3.0, 1.0]))
    torch.testing.assert_close(bound(torch.tensor([[0.0, 100.0]])), torch.tensor([[1.0, 1.0]]))
    assert not bound.state_dict()


def test_bounds_may_be_numbers() -> None:
    assert BoundByTanh(-2.0, 2.0)(torch.tensor([[100.0, -100.0]])).tolist() == [[2.0, -2.0]]


@pytest.mark.parametrize(("low", "high", "message"), [(-np.inf, 0, "low is"), (0, np.inf, "high is"), (1, 0, "low <=")])
def test_impossible_bounds_are_refused(low: Any, high: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BoundByTanh(low, high)


def test_observation_comes_before_the_action() -> None:
    pair = (torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]]))
    assert ConcatObsAndAction()(pair).tolist() == [[1.0, 2.0, 3.0]]
