"""The warnings about what arrays mean, and who tells the convention that holds."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.dataset.selection import Selection
from pfrl_like.replay_buffers import ReplayBuffer

ROWS: list[Any] = [np.arange(3.0)[:, None], np.zeros((3, 1)), np.array([1.0, 5, 7]), np.array([0, 0, 1])]


def warned(make: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    return [str(warning.message) for warning in caught]


def test_a_dataset_of_no_convention_is_warned_of_once_and_holds_the_documented_one() -> None:
    with pytest.warns(UserWarning, match="reward_convention is not given") as caught:
        dataset = MDPDataset(*ROWS)
    assert caught[0].filename == __file__
    assert dataset.reward_convention == "next_row" and dataset.to_arrays()["rewards"].tolist() == [5, 7]
    assert not warned(lambda: MDPDataset(*ROWS))


def test_the_warning_shows_both_readings_of_two_rows_and_the_argument() -> None:
    (text,) = warned(lambda: MDPDataset(*ROWS))
    assert [line.split() for line in text.splitlines() if line.startswith("    ")][1:] == [
        ["0", "left", "1.0", "0", "5.0", "1.0"],  # t, action, reward, terminal, next_row, same_row
        ["1", "right", "5.0", "1", "none", "5.0"],
    ]
    assert 'reward_convention="same_row"' in text and 'reward_convention="next_row"' in text


@pytest.mark.parametrize("convention", ["next_row", "same_row"])
def test_nothing_is_warned_of_that_was_named(convention: str, tmp_path: Any) -> None:
    def use() -> None:
        dataset = MDPDataset(*ROWS, reward_convention=convention)
        dataset.append(*ROWS)
        dataset.extend(MDPDataset.from_arrays(*ROWS))
        dataset.dump(tmp_path / "data.npz")
        MDPDataset.load(tmp_path / "data.npz").append(*ROWS)
        part = MDPDataset.from_episodes(dataset[:1])
        part.append(*ROWS)
        assert "convention" not in [finding.kind for finding in part.check()]

    assert not warned(use)


def test_a_convention_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="reward_convention: got 'this_row', expected 'next_row'"):
        MDPDataset(*ROWS, reward_convention="this_row")
    with pytest.raises(ValueError, match="reward_convention: got 'this_row'"):
        MDPDataset.from_buffer(ReplayBuffer.from_dataset(MDPDataset.from_arrays(*ROWS)), reward_convention="this_row")


def test_rewards_are_appended_by_assumption_only_with_the_warning() -> None:
    dataset = MDPDataset.from_arrays(*ROWS)  # which left no doubt, where append does
    with pytest.warns(UserWarning, match="reward_convention is not given"):
        dataset.append(*ROWS)
    assert [finding.kind for finding in dataset.check() if finding.where == "rewards"] == ["convention"]


def test_check_tells_a_convention_that_was_assumed() -> None:
    with pytest.warns(UserWarning, match="reward_convention"):
        assumed = MDPDataset(*ROWS)
    (finding,) = [finding for finding in assumed.check() if finding.where == "rewards"]
    assert "('next_row')" in finding.message and "reward_convention='same_row'" in finding.message
    assert finding.kind == "convention" and not len(finding.places)
    named = MDPDataset(*ROWS, reward_convention="next_row")
    named.extend(assumed)
    assert finding.message in [finding.message for finding in named.check()]


def test_check_tells_rows_of_the_arrays_that_same_row_shows() -> None:
    actions = np.array([[0.0], [0], [9], [0]])
    dataset = MDPDataset(np.arange(4.0)[:, None], actions, np.ones(4), [0, 1, 0, 0], reward_convention="same_row")
    box = gymnasium.spaces.Box(-1, 1, (1,))
    (outside,) = [finding for finding in dataset.check(action_space=box) if finding.kind == "outside"]
    assert outside.places.tolist() == [2] and dataset.actions[outside.places].tolist() == [[9]]
    assert outside.steps is not None and outside.steps.tolist() == [[1, 0]]


def test_a_terminal_state_that_same_row_leaves_out_is_told_with_the_step_into_it() -> None:
    dataset = MDPDataset.from_episodes(MDPDataset(*ROWS, reward_convention="same_row")[:])
    dataset.extend(MDPDataset(*ROWS, reward_convention="next_row"))  # whose terminal state is told
    box = gymnasium.spaces.Box(-1, 1, (1,))
    (outside,) = [finding for finding in dataset.check(observation_space=box) if finding.kind == "outside"]
    assert outside.steps is not None and outside.steps.tolist() == [[0, 2], [1, 2]]
    assert outside.places.tolist() == [2, 4]


def test_logs_tell_the_convention_that_arrays_were_read_in() -> None:
    named = MDPDataset(*ROWS, reward_convention="same_row")
    assert logged_convention(named) == logged_convention(Selection(named)) == {"reward_convention": "same_row"}
    with pytest.warns(UserWarning, match="reward_convention"):
        assert logged_convention(MDPDataset(*ROWS)) == {"reward_convention": "next_row"}
    assert logged_convention(MDPDataset.from_arrays(*ROWS)) == logged_convention(ReplayBuffer(3)) == {}


INTEGERS = [[0], [1], [0]]


def test_integer_vectors_of_one_number_are_continuous_and_warned_of_once() -> None:
    def make() -> MDPDataset:
        return MDPDataset(ROWS[0], INTEGERS, *ROWS[2:], reward_convention="same_row")

    with pytest.warns(UserWarning, match=r"actions are integers of shape \(3, 1\), .* pass discrete_action=True"):
        dataset = make()
    assert not dataset.is_action_discrete() and not warned(make)


@pytest.mark.parametrize(
    ("actions", "discrete"),
    [(INTEGERS, True), (np.float32(INTEGERS), False), ([[0, 1], [1, 1], [0, 0]], False), ([[0], [-1], [0]], False)],
)
def test_actions_that_leave_no_doubt_are_not_warned_of(actions: Any, discrete: bool) -> None:
    assert not warned(lambda: MDPDataset(ROWS[0], actions, *ROWS[2:], discrete, reward_convention="same_row"))
