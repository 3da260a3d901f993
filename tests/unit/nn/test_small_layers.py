from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.functions import bound_by_tanh
from pfrl_like.nn import ActivityPenalty, BoundByTanh, Branched, ConcatObsAndAction, Lambda


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


@pytest.mark.parametrize(("low", "high"), [(np.zeros(2), np.full(2, 4.0)), ([0, 0], [4, 4]), (0, 4.0)])
def test_the_function_takes_any_bounds_and_keeps_the_dtype(low: Any, high: Any) -> None:
    bounded = bound_by_tanh(torch.zeros(3, 2), low, high)
    assert bounded.dtype == torch.float32
    assert torch.equal(bounded, torch.full((3, 2), 2.0))  # the middle


def test_observation_comes_before_the_action() -> None:
    pair = (torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]]))
    assert ConcatObsAndAction()(pair).tolist() == [[1.0, 2.0, 3.0]]


def test_a_penalty_of_activity_is_in_the_gradient_and_leaves_nothing_in_a_trace() -> None:
    layer, x = ActivityPenalty(0.5), torch.tensor([[1.0, -3.0]], requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 1 + 2 * 0.5 / 2 * x.detach())  # of 0.5 * mean(x**2), and of the sum
    with torch.no_grad():
        traced = torch.jit.trace(layer, x.detach())
    assert traced(x.detach()).tolist() == [[1.0, -3.0]]
    assert not [node for node in traced.graph.nodes() if "Penalised" in str(node)]
    given = torch.ones(2)
    assert layer(given) is given  # nothing learns from it
    with pytest.raises(ValueError, match="rate is -1"):
        ActivityPenalty(-1)


def test_every_branch_gets_the_same_arguments() -> None:
    one, two = Branched(nn.Identity(), Lambda(lambda x: 2 * x))(torch.tensor([3.0]))
    assert (one.item(), two.item()) == (3.0, 6.0)
