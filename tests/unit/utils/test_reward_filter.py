"""Reward filters, with PFRL's numbers."""

import pytest

from pfrl_like.utils.reward_filter import AverageRewardFilter, NormalizedRewardFilter


def test_rewards_are_normalised_by_running_means() -> None:
    # m = 1/4, m2 = 1/4; v = 1/4 - 1/16 = 3/16, at most eps = 1/10: 2 (1 - 1/4) / sqrt(1/10)
    normalized = NormalizedRewardFilter(tau=0.25, scale=2, eps=0.1)
    assert normalized(1.0) == pytest.approx(1.5 / 0.1**0.5)
    expected = [-10.67268710306828, 3.854025898330212, 14.749060649379082]
    assert [normalized(reward) for reward in (-2.0, 0.5, 3.0)] == pytest.approx(expected)
    assert (normalized.average_reward, normalized.average_reward_squared) == (0.66796875, 2.96484375)


def test_defaults_are_pfrls() -> None:
    expected = [31.606961258558215, -28.2757763497165, 6.911670890887369]
    normalized = NormalizedRewardFilter()
    assert [normalized(reward) for reward in (1.0, -2.0, 0.5)] == pytest.approx(expected)


def test_rewards_of_zero_stay_zero() -> None:
    assert NormalizedRewardFilter()(0.0) == 0.0


def test_the_running_mean_is_subtracted() -> None:
    average = AverageRewardFilter(0.5)  # means 1/2, 7/4, -1/8
    assert [average(reward) for reward in (1.0, 3.0, -2.0)] == [0.5, 1.25, -1.875]
