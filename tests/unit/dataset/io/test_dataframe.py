"""Datasets as pandas frames, and back."""

from typing import Any

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset

pandas = pytest.importorskip("pandas")
COLUMNS = ["observation_0", "observation_1"]


def numbered() -> MDPDataset:
    """Two episodes, of which the second one was cut off: states 0, 1, 2 (terminal), and 3, 4."""
    row = np.arange(5.0)
    return next_row(np.stack([row, -row], 1), 10 * row[:, None], row + 0.5, row == 2)


def logged(**changes: Any) -> Any:
    """A frame of a user's own, whose rows pay for themselves: two episodes of two steps, the first one cut off."""
    columns = {"x": [0.0, 1, 3, 4], "next_x": [1, 2, 4, 5], "force": [0.0, 10, 30, 40], "reward": [1.0, 2, 3, 4]}
    return pandas.DataFrame(columns | {"done": [0, 0, 0, 1], "run": ["a", "a", "b", "b"]} | changes)


def read(frame: Any, **options: Any) -> MDPDataset:
    return MDPDataset.from_dataframe(
        frame, **{"observations": ["x"], "actions": ["force"], "terminal": "done"} | options
    )


def steps_of(dataset: MDPDataset) -> list[tuple[float, float, float, int]]:
    return [(t.observation[0], t.next_reward, t.next_observation[0], t.terminal) for e in dataset for t in e]


OF_NUMBERED = [(0, 1.5, 1, 0), (1, 2.5, 2, 1), (3, 4.5, 4, 0)]


def test_frames_say_their_convention() -> None:
    table = numbered().to_dataframe()
    assert table.attrs == {"reward_convention": "next_row", "shown_convention": "next_row"}
    with pytest.raises(ValueError, match="reward_convention: got 'same_row', but the data contain 'next_row'"):
        MDPDataset.from_dataframe(table, COLUMNS, ["action_0"], reward_convention="same_row")
    table.attrs["reward_convention"] = "mine"
    with pytest.raises(ValueError, match="reward_convention: got 'mine', expected 'next_row'"):
        MDPDataset.from_dataframe(table, COLUMNS, ["action_0"])


def test_frames_that_pay_in_the_same_row_go_through_a_csv_file(tmp_path) -> None:
    table = numbered().to_dataframe(reward_convention="same_row")
    assert table["reward"].tolist() == [1.5, 2.5, 4.5, 0] and table["episode"].tolist() == [0, 0, 1, 1]
    table.to_csv(tmp_path / "own.csv", index=False)
    again = MDPDataset.from_dataframe(
        pandas.read_csv(tmp_path / "own.csv"), COLUMNS, ["action_0"], timeout="timeout", episode="episode"
    )
    without_terminal_states = [(x, r, x if terminal else after, terminal) for x, r, after, terminal in OF_NUMBERED]
    assert steps_of(again) == without_terminal_states


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (2,), "nested"])
def test_only_vectors_make_columns(shape) -> None:
    observations = {"x": np.zeros((2, 1))} if shape == "nested" else np.zeros(shape)
    with pytest.raises(ValueError, match="observations: got shape .*, expected vectors"):
        next_row(observations, np.zeros((2, 1)), np.zeros(2), np.array([0, 1])).to_dataframe()


def test_frames_of_no_convention_or_without_a_row_are_refused() -> None:
    with pytest.raises(ValueError, match="reward_convention: got 'mine', expected 'next_row'"):
        numbered().to_dataframe(reward_convention="mine")
    one = next_row(np.zeros((1, 2)), np.zeros((1, 1)), [0.0], [1])
    assert len(one.to_dataframe()) == 1
    with pytest.raises(ValueError, match="'same_row' stores transitions, but the dataset has no transitions"):
        one.to_dataframe(reward_convention="same_row")


def test_next_observations_keep_the_last_step_of_what_was_cut_off() -> None:
    assert steps_of(read(logged(), episode="run")) == [(0, 1, 1, 0), (3, 3, 4, 0), (4, 4, 4, 1)]
    whole = read(logged(), episode="run", next_observations=["next_x"])
    assert steps_of(whole) == [(0, 1, 1, 0), (1, 2, 2, 0), (3, 3, 4, 0), (4, 4, 5, 1)]


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"next_observations": ["x"]}, ValueError, "next_observations: row 0 differs from row 1 of observations"),
        ({"next_observations": ["next_x", "x"]}, ValueError, "next_observations: got 2 columns, expected 1"),
        ({"next_observations": []}, ValueError, r"next_observations: got \[\], expected at least one column"),
        ({"next_observations": "next_x"}, TypeError, "next_observations is 'next_x', expected a list"),
        ({"next_observations": ["next_y"]}, KeyError, "next_observations: the frame has no column 'next_y'"),
        ({"next_observations": ["next_x"], "reward_convention": "next_row"}, ValueError, "cannot be used with"),
    ],
)
def test_next_observations_that_cannot_be_are_refused(options, error, message) -> None:
    with pytest.raises(error, match=message):
        read(logged(), **options)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"done": ["no", "no", "no", "yes"]}, "terminal: column 'done' contains 'no' in row 0, expected numbers"),
        ({"done": [0, 0, 2, 1]}, "terminal: column 'done': got 2 in row 2, expected 0 or 1"),
        ({"x": [0, 1, "three", 4]}, "observations: column 'x' contains 'three' in row 2, expected numbers"),
        ({"reward": [1, 2, 3, "4"]}, "reward: column 'reward' contains '4' in row 3, expected numbers"),
        ({"force": [[1, 2]] * 4}, r"actions: column 'force' contains \[1, 2\] in row 0, expected numbers"),
    ],
)
def test_columns_of_something_else_than_numbers_are_named(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        read(logged(**changes))


def test_numbers_in_columns_of_objects_are_numbers() -> None:
    assert steps_of(read(logged().astype(object), episode="run")) == steps_of(read(logged(), episode="run"))


@pytest.mark.parametrize(
    "columns, error, message",
    [
        ({"actions": "act"}, KeyError, "actions: the frame has no column 'act', only .*'action_0'"),
        ({"observations": ["x", *COLUMNS]}, KeyError, "observations: the frame has no column 'x'"),
        ({"observations": "observation_0"}, TypeError, "observations is 'observation_0', expected a list of columns"),
        ({"timeout": "cut"}, KeyError, "timeout: the frame has no column 'cut'"),
        ({"log_prob": "logp"}, KeyError, "log_prob: the frame has no column 'logp'"),
        ({"reward": None}, KeyError, "reward: the frame has no column None"),
        ({"reward": ["reward"]}, KeyError, r"reward: the frame has no column \['reward'\]"),
        ({"observations": (name for name in COLUMNS)}, TypeError, "observations is <generator .*, expected a list of"),
        ({"observations": None}, TypeError, "observations is None, expected a list of columns"),
        ({"actions": None}, TypeError, "actions is None, expected a list of columns"),
        ({"observations": []}, ValueError, r"observations: got \[\], expected at least one column"),
        ({"actions": []}, ValueError, r"actions: got \[\], expected at least one column"),
        ({"actions": "reward"}, ValueError, r"got 0.5 in row 0, .*; for continuous .*, actions=\['reward'\]"),
        ({"frame": np.zeros((2, 4))}, TypeError, "frame is ndarray, expected a pandas DataFrame"),
    ],
)
def test_columns_that_a_frame_lacks_or_cannot_have_are_named(columns, error, message) -> None:
    given = {"frame": numbered().to_dataframe(), "observations": COLUMNS, "actions": ["action_0"]} | columns
    with pytest.raises(error, match=message):
        MDPDataset.from_dataframe(**given)


@pytest.mark.parametrize("column", ["observation_1", "action_0", "reward", "terminal", "timeout", "episode"])
def test_values_that_a_frame_lacks_are_named(column) -> None:
    table = numbered().to_dataframe().astype({column: "object"})
    table.loc[3:, column] = pandas.NA
    with pytest.raises(ValueError, match=f"column '{column}' has no value in row 3"):
        MDPDataset.from_dataframe(table, COLUMNS, ["action_0"], timeout="timeout", episode="episode")
