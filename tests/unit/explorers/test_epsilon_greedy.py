import logging
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.explorers import ConstantEpsilonGreedy, ExponentialDecayEpsilonGreedy, LinearDecayEpsilonGreedy

GREEDY, RANDOM = 0, 7


def always_7() -> int:
    return RANDOM


def never() -> int:
    raise AssertionError("a random action was asked for")


def value(mask: Any, k: int = 1) -> DiscreteActionValue:
    return DiscreteActionValue(torch.zeros(k, 4)).masked(mask)


def test_epsilon_may_be_changed() -> None:
    explorer = ConstantEpsilonGreedy(0.0, always_7)
    explorer.epsilon = 1.0
    assert explorer.select_action(0, lambda: GREEDY) == RANDOM


def test_linear_decay_goes_straight_to_its_end_and_stays() -> None:
    explorer = LinearDecayEpsilonGreedy(1.0, 0.2, 8, always_7)
    assert [explorer.compute_epsilon(t) for t in (0, 4, 8, 1000)] == [1.0, 0.6, 0.2, 0.2]


def test_linear_decay_over_no_steps_starts_at_its_end() -> None:
    explorer = LinearDecayEpsilonGreedy(1.0, 0.0, 0, never)
    assert explorer.select_action(0, lambda: GREEDY) == GREEDY


def test_exponential_decay_multiplies_down_to_a_floor() -> None:
    explorer = ExponentialDecayEpsilonGreedy(0.8, 0.1, 0.5, always_7)
    assert [explorer.compute_epsilon(t) for t in (0, 1, 2, 3, 10)] == [0.8, 0.4, 0.2, 0.1, 0.1]


def test_epsilon_is_that_of_the_latest_choice() -> None:
    explorer = LinearDecayEpsilonGreedy(1.0, 0.0, 10, always_7)
    assert explorer.epsilon == 1.0
    explorer.select_action(5, lambda: GREEDY)
    assert explorer.epsilon == 0.5
    explorer.select_actions(10, np.zeros(3))
    assert explorer.epsilon == 0.0


def test_batch_makes_one_draw_for_each_active_environment() -> None:
    np.random.seed(0)
    draws = np.random.rand(3)
    np.random.seed(0)
    active = np.array([True, False, True, True, False])
    actions = ConstantEpsilonGreedy(0.7, always_7).select_actions(0, np.zeros(5, dtype=np.int64), active=active)
    assert actions[active].tolist() == np.where(draws < 0.7, RANDOM, GREEDY).tolist()
    assert actions[~active].tolist() == [GREEDY, GREEDY]
    after = np.random.rand()
    np.random.seed(0)
    assert after == np.random.rand(4)[3]


def test_batch_does_not_write_into_the_greedy_actions() -> None:
    greedy = np.zeros(3, dtype=np.int64)
    ConstantEpsilonGreedy(1.0, always_7).select_actions(0, greedy)
    assert greedy.tolist() == [0, 0, 0]


def test_random_action_is_drawn_from_the_allowed_ones() -> None:
    explorer = ConstantEpsilonGreedy(1.0, never)
    drawn = {int(explorer.select_action(0, never, value([False, True, False, True]))) for _ in range(50)}
    assert drawn == {1, 3}


def test_each_environment_has_its_own_mask() -> None:
    explorer = ConstantEpsilonGreedy(1.0, never)
    actions = explorer.select_actions(0, np.zeros(2, dtype=np.int64), value(np.eye(4, dtype=bool)[[3, 1]], 2))
    assert actions.tolist() == [3, 1]


def test_mask_that_allows_nothing_counts_as_allowing_everything() -> None:
    explorer = ConstantEpsilonGreedy(1.0, never)
    assert explorer.select_action(0, never, value([False] * 4)) in range(4)


def test_state_of_an_explorer_with_another_kind_of_stream_is_refused() -> None:
    state = ConstantEpsilonGreedy(0.5, always_7, rng=np.random.default_rng(0)).state_dict()
    with pytest.raises(ValueError, match="got .* global stream"):
        ConstantEpsilonGreedy(0.5, always_7).load_state_dict(state)


@pytest.mark.parametrize(
    ("kind", "epsilons"),
    [
        (ConstantEpsilonGreedy, (1.0,)),
        (LinearDecayEpsilonGreedy, (1.0, 1.0, 1)),
        (ExponentialDecayEpsilonGreedy, (1.0, 1.0, 0.5)),
    ],
)
def test_choices_are_logged_at_debug_level(kind: Any, epsilons: Any, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("choices")
    explorer = kind(*epsilons, always_7, logger)
    explorer.select_action(3, lambda: GREEDY)
    assert not caplog.messages
    with caplog.at_level(logging.DEBUG, "choices"):
        explorer.select_action(4, lambda: GREEDY)
        explorer.select_actions(5, np.zeros(1, dtype=np.int64))
    assert caplog.messages == ["t:4 a:7 non-greedy", "t:5 a:[7] non-greedy:[0]"]


def test_both_ends_of_a_decay_are_probabilities() -> None:
    with pytest.raises(ValueError, match="start_epsilon is -0.1"):
        LinearDecayEpsilonGreedy(-0.1, 0.1, 1, always_7)
    with pytest.raises(ValueError, match="end_epsilon is nan"):
        ExponentialDecayEpsilonGreedy(1.0, float("nan"), 0.5, always_7)


@pytest.mark.parametrize("random_action", [1.7, np.array([1]), None, "left"])
def test_a_random_action_unlike_the_greedy_one_is_refused(random_action: Any) -> None:
    with pytest.raises(ValueError, match="random_action_func returned"):
        ConstantEpsilonGreedy(1.0, lambda: random_action).select_actions(0, np.array([0, 0]))
