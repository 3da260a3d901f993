"""The picture of a run."""

import re

import pytest
from experiment_fakes import Counting, Recorder

from pfrl_like.experiments import train_agent
from pfrl_like.experiments.report import round_numbers


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (0, 132.5, [0, 25, 50, 75, 100, 125]),
        (8.0, 11.0, [8, 8.5, 9, 9.5, 10, 10.5, 11]),
        (0, 7752, [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000]),
        (0, 10000, [0, 2500, 5000, 7500, 10000]),
        (-21, 20.5, [-20, -10, 0, 10, 20]),
        (0, 0.004, [0, 0.001, 0.002, 0.003, 0.004]),
    ],
)
def test_axes_are_marked_at_round_numbers(low, high, expected):
    assert round_numbers(low, high) == pytest.approx(expected)


def test_the_learning_curve_is_marked_at_round_numbers(tmp_path):
    train_agent(Recorder(), Counting(30), 500, tmp_path, max_episode_len=7)
    marks = re.findall(r">(-?[\d,.]+)</text>", (tmp_path / "learning_curve.svg").read_text())
    assert marks == ["3", "4", "5", "6", "7", "0", "100", "200", "300", "400", "500"]
