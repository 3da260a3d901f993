"""Changes of stored steps: which rows observations get, which are free again, and what n-step windows make of ends."""

import numpy as np
import pytest

from pfrl_like.columns import Columns, edit
from pfrl_like.columns.segments import apply_patch, dump_patch


def vector(i):
    return np.full(3, i, np.float32)


def append(columns, i, next_obs="following", terminal=False, env_id=0, **extra):
    following = vector(i + 1) if isinstance(next_obs, str) else next_obs
    row = columns.append(vector(i), i, float(i), following, terminal, env_id, extra)
    if terminal:
        columns.end(env_id)
    return row


def n_observations(columns):
    return columns.obs_rows.size - 1 - len(columns.obs_rows.free)


def chain(n):
    columns = Columns()
    return columns, [append(columns, i) for i in range(n)]


def test_changing_an_observation_again_takes_no_more_rows():
    columns, rows = chain(3)
    for i in range(5):
        for row in rows:
            edit(columns, row, {"state": vector(50 + i), "next_state": vector(60 + i)}, 1)
    # Two for each step, and the one that the running episode waits for.
    assert n_observations(columns) == 7
    for row in rows:
        columns.release(row)
    for _ in range(2):  # of an episode that has ended there is nothing to end
        columns.end(0)
    assert n_observations(columns) == 0


def test_an_episode_goes_on_from_the_observation_that_came_and_not_from_the_changed_one():
    columns, rows = chain(1)
    edit(columns, rows[0], {"next_state": vector(50)}, 1)
    assert columns.continues(0, vector(1)) and not columns.continues(0, vector(50))
    rows.append(append(columns, 1))
    assert columns.successor[rows[0]] == rows[1]
    assert n_observations(columns) == 4


def test_steps_of_several_environments_free_what_they_do_not_go_on_from():
    columns = Columns()
    rows = [append(columns, 10 * env_id, env_id=env_id) for env_id in range(2)]
    for row in rows:
        edit(columns, row, {"next_state": vector(50)}, 1)
    assert n_observations(columns) == 6
    obs = np.stack([vector(1), vector(70)])  # the first goes on from what came, the second begins elsewhere
    columns.append_many(obs, [0, 0], [0.0, 0.0], obs + 1, np.zeros(2, bool), [0, 1], {})
    assert n_observations(columns) == 8
    for row in [*rows, *[run.tail for run in columns.running.values()]]:
        columns.release(row)
    for env_id in range(2):
        columns.end(env_id)
    assert n_observations(columns) == 0


def test_a_step_without_next_state_that_is_no_longer_terminal_is_not_learnt_from():
    columns = Columns()
    row = append(columns, 0, next_obs=None, terminal=True)
    edit(columns, row, {"is_state_terminal": False}, 1)
    with pytest.raises(ValueError, match="next_state: got None"):
        columns.batch(np.array([row]), np.array([0]), None, 1, 0.9, "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": np.zeros(2)}, "action: got ndarray of shape \\(2,\\), float64, expected a number, int64"),
        ({"action": 0.5}, "action: got float of shape \\(\\), float64, expected a number, int64"),
        ({"reward": "much"}, "reward is 'much' \\(str\\), expected a single number"),
        ({"state": np.zeros(2, np.float32)}, "state: got ndarray of shape \\(2,\\), float32, expected an array"),
        ({"state": None}, "state: got NoneType, expected an array"),
        ({"next_state": {"a": 1}}, "next_state: got dict, expected a single value"),
        ({"is_state_terminal": 2}, "is_state_terminal: got 2, expected True or False"),
        ({"is_state_terminal": "no"}, "is_state_terminal: got 'no', expected True or False"),
        ({"note": [1, 2]}, "note: got list of shape \\(2,\\), int64, expected a number"),
        ({"bonus": 1.0}, "bonus: got float .* for a new key .* \\['state', 'action', .*'note'\\]"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_changed(changes, message):
    columns = Columns()
    row = append(columns, 0, note=1)
    before = str(columns.transitions(np.array([row])))
    with pytest.raises((ValueError, TypeError), match=message):
        edit(columns, row, {"reward": 7.0, "next_state": vector(9), **changes}, 1)
    assert str(columns.transitions(np.array([row]))) == before and columns.edits == 0
    assert n_observations(columns) == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("patch/states", np.array([4]), "'patch/states' contains step numbers out of range"),
        ("patch/values", np.array([-1]), "'patch/values' contains step numbers out of range"),
        ("patch/reward", np.zeros(2), "'patch/reward' has shape \\(2,\\)"),
        ("patch/told", np.zeros(0, np.bool_), "'patch/told' has shape \\(0,\\)"),
        ("patch/state/0/data", np.zeros((1, 2), np.float32), "has shape \\(1, 2\\)"),
        ("patch/action/0/data", np.zeros(1), "float64, expected \\(1,\\), int64"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(name, value, message):
    columns, rows = chain(4)
    edit(columns, rows[0], {"action": 7, "state": vector(1), "next_state": vector(5)}, 1)
    patch = dump_patch(columns, np.array(rows), np.zeros(4, np.int64))
    with pytest.raises(ValueError, match=message):
        apply_patch(chain(4)[0], np.array(rows), patch | {name: value})
