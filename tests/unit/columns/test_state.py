import json

import numpy as np
import pytest

from pfrl_like.columns import Columns, dump, restore


def vector(i):
    return np.full(3, i, np.float32)


def made(env_ids=("a",)):
    columns = Columns()
    rows = [
        columns.append(vector(i), i, float(i), vector(i + 1), i == 2, env_id, {"note": i if i % 2 else None})
        for env_id in env_ids
        for i in range(4)
    ]
    return columns, np.array(rows)


@pytest.mark.parametrize("env_id", [0, "north", (1, "a"), -3])
def test_names_of_environments_come_back(env_id):
    header, arrays = dump(*made([env_id]))
    assert list(restore(json.loads(json.dumps(header)), arrays).running) == [env_id]
    assert "env_ids" not in arrays


def test_names_that_json_cannot_hold_go_into_an_array_of_objects():
    env_id = frozenset({1})
    header, arrays = dump(*made([env_id]))
    assert arrays["env_ids"].dtype == object
    assert list(restore(header, arrays).running) == [env_id]


@pytest.mark.parametrize(
    ("name", "value"), [("successor", 5), ("successor", -2), ("obs_row", 0), ("next_row", 6), ("extra/0/index", 2)]
)
def test_row_numbers_out_of_range_are_refused(name, value):
    header, arrays = dump(*made())
    arrays[name][0] = value
    with pytest.raises(ValueError, match=name):
        restore(header, arrays)


@pytest.mark.parametrize("name", ["reward", "terminal", "obs/0/data", "action/0/data", "extra/0/0/data"])
def test_missing_and_misshapen_arrays_are_refused(name):
    header, arrays = dump(*made())
    with pytest.raises(ValueError, match="has shape"):
        restore(header, arrays | {name: arrays[name][:-1]})
    del arrays[name]
    with pytest.raises(ValueError, match="missing"):
        restore(header, arrays)


@pytest.mark.parametrize("name", ["n_steps", "obs", "extras", "running", "names"])
def test_a_header_without_its_parts_is_refused(name):
    header, arrays = dump(*made())
    with pytest.raises(ValueError, match="header"):
        restore({key: value for key, value in header.items() if key != name}, arrays)


def test_a_running_episode_that_is_not_there_is_refused():
    header, arrays = dump(*made())
    header["running"] = [[1, 1, []]]
    with pytest.raises(ValueError, match="running episodes"):
        restore(header, arrays)
