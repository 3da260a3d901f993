"""PFRL's helpers of explorers, Q-functions and batches, with PFRL's numbers."""

import numpy as np
import pytest
import torch

from pfrl_like.explorers.epsilon_greedy import select_action_epsilon_greedily
from pfrl_like.q_functions.state_q_functions import scale_by_tanh
from pfrl_like.utils.batch_states import _to_recursive


def test_actions_are_random_with_probability_epsilon() -> None:
    np.random.seed(1)
    selected = [select_action_epsilon_greedily(0.5, lambda: "random", lambda: "greedy") for _ in range(3)]
    assert selected == [("random", False), ("greedy", True), ("random", False)]


def test_numbers_are_scaled_to_the_bounds() -> None:
    low, high = np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)
    scaled = scale_by_tanh(torch.tensor([[0.0, 1.0], [-2.0, 3.0]]), low, high)
    assert scaled.numpy() == pytest.approx(np.array([[0.0, 3.5231884], [-0.9640276, 3.9901096]]), abs=1e-6)


def test_batches_move_as_tensors_lists_and_tuples() -> None:
    one = torch.ones(1)
    assert _to_recursive(one, "cpu") is one
    assert _to_recursive((one, one), torch.device("cpu")) == (one, one)
    assert _to_recursive([one], "cpu") == [one]
    with pytest.raises(TypeError, match="batched is dict, expected a tensor"):
        _to_recursive({}, "cpu")
