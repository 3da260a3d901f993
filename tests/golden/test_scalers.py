"""Scalers against numbers worked out by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like import preprocessing

#: Columns: 1 to 5 with mean 3; always 2; -4, 0, 4.
ROWS = np.array([[1.0, 2.0, -4.0], [3.0, 2.0, 0.0], [5.0, 2.0, 4.0]])
REWARDS = np.array([1.0, 2.0, 6.0])


@pytest.mark.parametrize(
    ("scaler", "x", "expected"),
    [
        # 51 / 255 = 0.2
        (preprocessing.PixelScaler(), [0.0, 51.0, 255.0], [0.0, 0.2, 1.0]),
        # (2 - 1) / (5 - 1); the constant column: 7 - 2; (2 + 4) / (4 + 4)
        (preprocessing.MinMaxScaler(ROWS), [2.0, 7.0, 2.0], [0.25, 5.0, 0.75]),
        # mean 3, variance (4 + 0 + 4) / 3; the constant column: 7 - 2; mean 0, variance (16 + 0 + 16) / 3
        (preprocessing.StandardScaler(ROWS), [5.0, 7.0, 2.0], [2 / (8 / 3) ** 0.5, 5.0, 2 / (32 / 3) ** 0.5]),
        # 2 * (2 - 1) / (5 - 1) - 1; the constant column: 7 - 2; 2 * (2 + 4) / (4 + 4) - 1
        (preprocessing.MinMaxActionScaler(ROWS), [2.0, 7.0, 2.0], [-0.5, 5.0, 0.5]),
        (preprocessing.StandardActionScaler(ROWS), [1.0, 2.0, 0.0], [-2 / (8 / 3) ** 0.5, 0.0, 0.0]),
        # (3.5 - 1) / (6 - 1)
        (preprocessing.MinMaxRewardScaler(REWARDS), [3.5, 1.0], [0.5, 0.0]),
        # mean 3, variance (4 + 1 + 9) / 3
        (preprocessing.StandardRewardScaler(REWARDS), [3.0, 4.0], [0.0, 1 / (14 / 3) ** 0.5]),
        # 10 * (3.5 - 1) / (6 - 1)
        (preprocessing.MinMaxRewardScaler(REWARDS, multiplier=10.0), [3.5, 1.0], [5.0, 0.0]),
        # 2 * (5 - 1) / 4
        (preprocessing.StandardRewardScaler(mean=1.0, std=4.0, multiplier=2.0), [5.0], [2.0]),
        (preprocessing.MultiplyRewardScaler(-0.5), [4.0], [-2.0]),
        # returns 3 and 6: 2 * 6 / (6 - 3)
        (preprocessing.ReturnBasedRewardScaler([REWARDS[:2], REWARDS[2:]], multiplier=2.0), [6.0], [4.0]),
        # 3 * (5 - 1), and 3 * 5 - 1
        (preprocessing.ConstantShiftRewardScaler(-1.0, 3.0), [5.0], [12.0]),
        (preprocessing.ConstantShiftRewardScaler(-1.0, 3.0, multiply_first=True), [5.0], [14.0]),
        # within the bounds
        (preprocessing.ClipRewardScaler(-1.0, 2.0, multiplier=3.0), [0.5, 2.0], [1.5, 6.0]),
        # given by hand: (5 - 1) / 2
        (preprocessing.StandardScaler(mean=1.0, std=2.0), [5.0], [2.0]),
        (preprocessing.MinMaxScaler(minimum=[-1.0, 0.0], maximum=[1.0, 10.0]), [0.0, 5.0], [0.5, 0.5]),
    ],
)
def test_scaled_values(scaler: Any, x: list[float], expected: list[float]) -> None:
    scaled = scaler.transform(torch.tensor(x))
    assert scaled.tolist() == pytest.approx(expected)
    assert scaler.reverse_transform(scaled).tolist() == pytest.approx(x)


def test_clipped_rewards_stay_clipped() -> None:
    scaler = preprocessing.ClipRewardScaler(low=-1.0, high=2.0, multiplier=3.0)
    scaled = scaler.transform(torch.tensor([-5.0, 7.0]))
    assert scaled.tolist() == [-3.0, 6.0]
    assert scaler.reverse_transform(scaled).tolist() == [-1.0, 2.0]


def test_statistics_of_several_episodes_are_those_of_all_their_rows() -> None:
    episodes = [ROWS[:1], ROWS[1:]]
    standard, min_max = preprocessing.StandardScaler(episodes), preprocessing.MinMaxScaler(episodes)
    assert standard.mean is not None and standard.std is not None
    assert standard.mean.tolist() == [3.0, 2.0, 0.0]
    assert standard.std.tolist() == pytest.approx([(8 / 3) ** 0.5, 0.0, (32 / 3) ** 0.5])
    assert min_max.minimum is not None and min_max.minimum.tolist() == [1.0, 2.0, -4.0]
    assert min_max.maximum is not None and min_max.maximum.tolist() == [5.0, 2.0, 4.0]


def test_stacked_frames_are_scaled_frame_by_frame() -> None:
    scaler = preprocessing.MinMaxScaler(minimum=np.zeros((2, 1, 1)), maximum=np.array([[[2.0]], [[4.0]]]))
    x = torch.tensor([2.0, 2.0, 1.0, 4.0]).reshape(1, 4, 1, 1)  # two frames of two channels
    assert scaler.transform(x).flatten().tolist() == [1.0, 0.5, 0.5, 1.0]
