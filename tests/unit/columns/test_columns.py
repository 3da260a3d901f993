import numpy as np
import pytest
import torch

from pfrl_like.columns import Columns, rows_of
from pfrl_like.columns.leaves import to_tensors


def vector(i):
    return np.full(3, i, np.float32)


def append(columns, i, next_obs=None, env_id=0, **extra):
    return columns.append(vector(i), i, float(i), vector(i + 1) if next_obs is None else next_obs, False, env_id, extra)


def batch_of(columns, rows, **kwargs):
    arguments = dict(index=np.array(rows), weight=None, num_steps=1, gamma=0.9, device="cpu") | kwargs
    return columns.batch(np.array(rows), **arguments)


def test_an_observation_is_compared_when_it_comes_not_when_it_was_made():
    columns, shared = Columns(), vector(1)
    columns.append(vector(0), 0, 0.0, shared, False, 0, {})
    shared += 7
    columns.append(shared, 0, 0.0, vector(2), False, 0, {})
    np.testing.assert_array_equal(columns.obs.plain[columns.next_row[1]], vector(1))
    np.testing.assert_array_equal(columns.obs.plain[columns.obs_row[2]], vector(8))


def test_nan_does_not_break_the_sharing_of_observations():
    columns, odd = Columns(), np.array([np.nan, 0, 1], np.float32)
    columns.append(vector(0), 0, 0.0, odd, False, 0, {})
    columns.append(odd.copy(), 0, 0.0, vector(2), False, 0, {})
    assert columns.obs_rows.size - 1 - len(columns.obs_rows.free) == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(obs=np.zeros(4, np.float32)), "obs: got ndarray of shape \\(4,\\)"),
        (dict(next_obs=np.zeros((3, 1), np.float32)), "next_obs: got ndarray of shape \\(3, 1\\)"),
        (dict(obs={"a": vector(0)}), "obs: got dict, expected a single value"),
        (dict(action=0.5), "action: got float of shape \\(\\), float64, expected a number, int64"),
        (dict(action=np.zeros(2)), "action: got ndarray"),
        (dict(reward=None), "reward is None \\(NoneType\\), expected a single number"),
        (dict(reward=np.zeros(2)), "reward is an array of shape \\(2,\\)"),
        (dict(extra={}), "extra keywords: got \\[\\], expected \\['note'\\]"),
        (dict(extra={"note": 1, "more": 2}), "extra keywords: got \\['more', 'note'\\]"),
        (dict(extra={"note": [1, 2]}), "note: got list of shape \\(2,\\), int64, expected a number"),
    ],
)
def test_what_does_not_fit_the_first_step_is_refused_and_nothing_stored(changed, message):
    columns = Columns()
    append(columns, 0, note=1)
    before = (len(columns.steps.free), len(columns.obs_rows.free), len(columns.extras["note"].rows.free))
    given = dict(obs=vector(1), action=1, reward=1.0, next_obs=vector(2), terminal=False, env_id=7, extra={"note": 1})
    with pytest.raises((ValueError, TypeError), match=message):
        columns.append(**(given | changed))
    assert (len(columns.steps.free), len(columns.obs_rows.free), len(columns.extras["note"].rows.free)) == before
    assert list(columns.running) == [0]


def test_a_refused_first_step_leaves_the_columns_open():
    columns = Columns()
    with pytest.raises(ValueError, match="next_obs"):
        columns.append(vector(0), 0, 0.0, np.zeros(2, np.float32), False, 0, {})
    with pytest.raises(ValueError, match="next_obs"):
        columns.append_many([vector(0)] * 2, [0, 1], [0.0, 0.0], [1.0, 2.0], np.zeros(2, bool), [0, 1], {})
    columns.append(np.zeros(2), 0.5, 0.0, np.ones(2), False, 0, {})
    assert columns.plain.dtype == np.float64


@pytest.mark.parametrize("name", ["weight", "obs", "state"])
def test_an_extra_that_would_hide_a_field_is_refused(name):
    with pytest.raises(ValueError, match=f"got \\['{name}'\\]"):
        Columns().append(vector(0), 0, 0.0, vector(1), False, 0, {name: 1})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(reward=[1.0]), "reward: got .* of shape \\(1,\\), float64, expected 2 numbers"),
        (dict(env_ids=[3, 3]), "env_ids: got \\[3, 3\\], expected 2 different ids"),
        (dict(next_obs=[vector(0), np.zeros(2, np.float32)]), "next_obs"),
        (dict(action=[0, 0.5]), "action"),
        (dict(extra={"note": [np.zeros(2), np.zeros(3)]}), "note"),
    ],
)
def test_a_bad_row_among_several_is_refused_and_none_stored(changed, message):
    obs, columns = [vector(0), vector(1)], Columns()
    arguments = dict(obs=obs, action=[0, 1], reward=[0.0, 1.0], next_obs=obs, terminal=np.zeros(2, bool))
    with pytest.raises(ValueError, match=message):
        columns.append_many(**(arguments | {"env_ids": [0, 1], "extra": {}} | changed))
    assert not columns.running and columns.obs is None


def test_integers_and_observations_keep_their_dtype_and_rewards_are_floats():
    columns = Columns()
    columns.append(np.array([1, 2], np.int16), np.int32(3), 0, np.array([2, 3], np.int16), False, 0, {})
    batch = batch_of(columns, [1])
    assert (batch.obs.dtype, batch.action.dtype, batch.reward.dtype) == (torch.int16, torch.int32, torch.float32)
    assert columns.reward.dtype == np.float64


def test_further_values_go_into_their_fields_of_the_batch_or_into_extra():
    columns = Columns()
    mask, state = np.array([True, False]), (np.ones((1, 4), np.float32), np.zeros((1, 4), np.float32))
    rows = [
        append(columns, i, action_mask=mask, next_action_mask=~mask, recurrent_state=state, log_prob=-0.5, note="a")
        for i in range(2)
    ]
    batch = batch_of(columns, rows)
    assert batch.action_mask.tolist() == [[True, False]] * 2
    assert batch.next_action_mask.tolist() == [[False, True]] * 2
    assert batch.recurrent_state[0].shape == (1, 2, 4)
    assert batch.log_prob.dtype == torch.float32
    assert batch.extra == {"note": ["a", "a"]}


def test_what_is_missing_means_everything_allowed_and_the_initial_state():
    columns = Columns()
    rows = [
        append(columns, 0, action_mask=None, recurrent_state=None, note=None),
        append(columns, 1, action_mask=np.array([True, False]), recurrent_state=np.ones((1, 4)), note=1.0),
    ]
    batch = batch_of(columns, rows)
    assert batch.action_mask.tolist() == [[True, True], [True, False]]
    assert batch.recurrent_state[0].tolist() == [[0.0] * 4, [1.0] * 4]
    assert batch.extra is None  # a note is not known for every row
    assert batch_of(columns, rows[:1]).recurrent_state is None


def test_the_next_things_of_an_item_are_those_of_its_last_step():
    columns = Columns()
    rows = [
        append(columns, i, action_mask=np.array([i]), next_action_mask=np.array([10 + i]), next_action=i)
        for i in range(3)
    ]
    columns.set_windows(rows[0], rows[2], 3)
    batch = batch_of(columns, rows[:1], num_steps=3)
    assert batch.action_mask.tolist() == [[0]]
    assert batch.next_action_mask.tolist() == [[12]]
    assert batch.next_action.tolist() == [2]
    assert batch.next_obs.tolist() == [[3.0] * 3]


def test_a_step_that_is_not_terminal_and_has_no_next_observation_cannot_be_learnt_from():
    columns = Columns()
    columns.append(vector(0), 0, 0.0, None, False, 0, {})
    assert columns.transitions(np.array([1]))[0]["next_state"] is None
    with pytest.raises(ValueError, match="next_state: got None"):
        batch_of(columns, [1])


def test_objects_come_back_as_lists():
    columns = Columns()
    thing, other = object(), object()
    columns.append(thing, "left", 0.0, other, False, 0, {})
    batch = batch_of(columns, [1])
    assert (batch.obs, batch.action, batch.next_obs) == ([thing], ["left"], [other])


def test_a_batch_is_fresh_memory():
    columns = Columns()
    append(columns, 1)
    batch_of(columns, [1]).obs.zero_()
    assert batch_of(columns, [1]).obs.tolist() == [[1.0] * 3]


@pytest.mark.parametrize("values", [3, [1], {"a": [1]}])
def test_too_few_values_for_the_environments_are_refused(values):
    with pytest.raises(ValueError, match="obs.*expected 2 values"):
        rows_of(values, 2, "obs")


def test_nested_observations_of_several_environments_come_in_any_of_three_forms():
    made = [{"a": vector(i), "b": (np.float64(i),)} for i in range(2)]
    stacked = {"a": np.stack([vector(0), vector(1)]), "b": (np.array([0.0, 1.0]),)}
    for obs in (made, tuple(made), stacked):
        columns = Columns()
        for _ in range(2):  # the second time, the columns know the form
            rows = columns.append_many(obs, [0, 1], [0.0, 1.0], obs, np.zeros(2, bool), [0, 1], {})
        assert columns.transitions(rows)[1]["state"]["b"] == (1.0,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_rows_reach_a_gpu_in_one_copy():
    columns = Columns()
    rows = [append(columns, i, action_mask=np.array([True, False])) for i in range(5)]
    here, there = batch_of(columns, rows), batch_of(columns, rows, device="cuda")
    for name in ("obs", "action", "reward", "next_obs", "discount", "action_mask"):
        assert torch.equal(getattr(here, name), getattr(there, name).cpu())
        assert getattr(there, name).is_cuda


def test_other_devices_get_their_own_copies():
    jobs = [(np.arange(6.0).reshape(3, 2), np.array([2, 0])), ["a", "b"]]
    tensor, objects = to_tensors(jobs, "meta")
    assert (tensor.device.type, tensor.shape, objects) == ("meta", (2, 2), ["a", "b"])
