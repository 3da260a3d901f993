"""Records of statistics: deques of floats for whoever reads and writes them, and no waiting in the step."""

import copy
import gc
import json
import math
import operator
import pickle
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_batch
from as_on_gpu import as_on_gpu
from on_policy_parts import make_on_policy
from registry import LEARNERS
from seed_parts import exemplar

from pfrl_like.learning.statistics import Record
from pfrl_like.random_streams.reachable import Reachable
from pfrl_like.storage.plain_tensors import from_plain, to_plain
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one

CHAIN = Chain(time_limit=7)


def both() -> tuple[Record, deque[float]]:
    """A record whose tensors have not been read, and a deque of the same numbers."""
    record = Record([9.0, 1.0], maxlen=5)
    record.append(torch.tensor(2.0))
    record.append(torch.tensor([[3.0, 4.0], [2.0, 6.0]]))
    return record, deque([9.0, 1.0, 2.0, 3.0, 4.0, 2.0, 6.0], maxlen=5)


READ: dict[str, Any] = {
    "list": list,
    "len": len,
    "bool": bool,
    "first": operator.itemgetter(0),
    "reversed": lambda record: list(reversed(record)),
    "index": lambda record: record.index(2.0, 1),
    "equal": lambda record: (record == deque([2.0, 3.0, 4.0, 2.0, 6.0]), record != deque([2.0])),
    "equal from the other side": lambda record: deque([2.0, 3.0, 4.0, 2.0, 6.0]) == record,
    "mean": np.mean,
    "maxlen": operator.attrgetter("maxlen"),
    "copy": lambda record: record.copy(),
    "copy of a module": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda record: pickle.loads(pickle.dumps(record)),
    "sum with another": lambda record: record + deque([5.0]),
    "repr": lambda record: repr(record).replace("Record", "deque"),
}


@pytest.mark.parametrize("read", READ.values(), ids=READ.keys())
def test_it_is_read_as_a_deque_of_floats_is(read: Any) -> None:
    record, plain = both()
    found, expected = read(record), read(plain)
    assert found == expected
    if isinstance(expected, deque):
        assert type(found) is Record and found.maxlen == expected.maxlen


def test_numbers_are_floats_of_python_whatever_came() -> None:
    record = Record()
    record.append(np.float32(0.5))
    record.append(torch.tensor(1))
    record.append(torch.tensor(True))
    record.extend(np.float32([[0.25], [0.125]]))
    record.extend([torch.tensor(2.0), 3, np.array([4.0])])
    assert [*record] == [0.5, 1.0, 1.0, 0.25, 0.125, 2.0, 3.0, 4.0]
    assert {type(value) for value in record} == {float}
    with pytest.raises(TypeError):
        record.append(None)


WRITE: dict[str, Any] = {
    "append": lambda record: record.append(0.5),
    "appendleft": lambda record: record.appendleft(0.5),
    "extend by an array": lambda record: record.extend(np.array([0.5, 0.25])),
    "extend by a list": lambda record: record.extend([0.5] * 9),
    "extend by itself": lambda record: record.extend(record),
    "+=": lambda record: operator.iadd(record, [0.5, 0.25]),
    "*=": lambda record: operator.imul(record, 2),
    "clear": lambda record: record.clear(),
    "set": lambda record: operator.setitem(record, -1, 0.5),
}


@pytest.mark.parametrize("write", WRITE.values(), ids=WRITE.keys())
def test_it_is_written_to_as_a_deque_of_floats_is(write: Any) -> None:
    record, plain = both()
    assert write(record) == write(plain)
    assert len(record) == len(plain)
    record.append(torch.tensor(8.0))
    plain.append(8.0)
    assert record == plain


def test_every_method_of_a_deque_knows_of_tensors_that_wait() -> None:
    apart = {"__new__", "__getattribute__", "__class_getitem__"}
    methods = {name for name, method in vars(deque).items() if callable(method)} - apart
    assert methods <= vars(Record).keys()


def test_a_record_of_no_length_stays_empty() -> None:
    record = Record(maxlen=0)
    record.extend(torch.ones(3))
    assert (len(record), [*record]) == (0, [])


# Costs


@pytest.mark.slow
def test_tensors_that_nobody_reads_do_not_pile_up() -> None:
    record, alive = Record(maxlen=10), weakref.WeakSet[torch.Tensor]()
    for size in (0, 4, 4, 4, 0, 4, 4, 1, 8):
        tensor = torch.ones(size)
        alive.add(tensor)
        record.append(tensor)
        del tensor
    gc.collect()
    assert sorted(len(tensor) for tensor in alive) == [1, 4, 8]  # the last ten numbers are in the last three
    assert len(record) == 10


def test_a_record_keeps_no_graph() -> None:
    parameter = torch.ones(2, requires_grad=True)
    record = Record()
    record.append(parameter.exp())
    assert not record._pending[0].requires_grad


@pytest.fixture
def looks(monkeypatch: Any) -> list[str]:
    """The names of all calls that wait for a device and bring numbers from it."""
    found: list[str] = []

    def looking(name: str, method: Any) -> Any:
        return lambda *args: found.append(name) or method(*args)

    for name in ("tolist", "item", "numpy", "cpu", "__float__", "__int__", "__bool__", "__array__"):
        monkeypatch.setattr(torch.Tensor, name, looking(name, getattr(torch.Tensor, name)))
    return found


def test_who_reads_a_thousand_values_waits_once(looks: list[str]) -> None:
    record = Record(maxlen=1000)
    for i in range(40):
        record.append(torch.full((32,), float(i)))
    record.append(torch.tensor(40.0))
    assert (len(record), looks) == (1000, [])
    assert [*record][-1] == 40.0
    assert looks == ["tolist"]
    assert np.mean(record) == np.mean([*record]) and record[0] == 8.0
    assert looks == ["tolist"]  # what was read stays


def test_an_update_does_not_wait_for_its_statistics(looks: list[str]) -> None:
    agent = as_on_gpu(make_agent())
    agent.update(make_batch(0))
    looks.clear()
    for _ in range(9):
        agent.update(make_batch(0))
    assert looks == []
    agent.get_statistics()
    assert looks == ["tolist", "tolist"]  # one for the values, one for the losses


def test_who_looks_for_random_streams_reads_no_record(looks: list[str]) -> None:
    record = Record()
    record.append(torch.ones(3))
    Reachable().visit({"record": record}, "agent")
    assert looks == []


def test_a_step_of_an_on_policy_agent_does_not_wait_for_its_statistics(looks: list[str]) -> None:
    agent = make_on_policy("PPO", update_interval=1000)
    distribution, value = torch.distributions.Categorical(torch.ones(3, 2)), torch.ones(3, 1)
    agent._record_acting(distribution, value, slice(None))
    looks.clear()
    agent._record_acting(distribution, value, slice(None))
    assert looks == []
    assert [*agent.value_record] == [1.0] * 6 and looks == ["tolist"]


# The records of agents


#: Of each agent that PFRL has, its records and their lengths there.
Q_AND_LOSS = {"q_record": 1000, "loss_record": 100}
OF_PAIR = {"q1_record": 1000, "q2_record": 1000, "q_func1_loss_record": 100, "q_func2_loss_record": 100}
OF_ACTING = {"value_record": 1000, "entropy_record": 1000}
PFRL = {
    **dict.fromkeys(
        ("DQN", "DoubleDQN", "CategoricalDQN", "CategoricalDoubleDQN", "AL", "PAL", "DoublePAL", "DPP", "IQN",
         "DoubleIQN"), Q_AND_LOSS,
    ),
    "DDPG": {"q_record": 1000, "actor_loss_record": 100, "critic_loss_record": 100},
    "TD3": {**OF_PAIR, "policy_loss_record": 100},
    "SoftActorCritic": {**OF_PAIR, "entropy_record": 1000},
    "PPO": {**OF_ACTING, "value_loss_record": 100, "policy_loss_record": 100},
    "TRPO": {**OF_ACTING, "kl_record": 100, "policy_step_size_record": 100},
}  # fmt: skip


@pytest.mark.representatives(12)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_agent_fills_its_records_and_those_that_pfrl_has(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = exemplar(name)
    agent = LEARNERS[name].make(case, tmp_path)
    play_one(agent, LEARNERS[name].env(case), 24)
    records = {key: value for key, value in vars(agent).items() if key.endswith("_record")}
    assert {key: records[key].maxlen for key in PFRL.get(name, {})} == PFRL.get(name, {})
    averages = dict(agent.get_statistics())
    for key, record in records.items():
        assert isinstance(record, deque) and record.maxlen in (100, 1000)
        assert all(type(value) is float for value in record)
        average = f"average_{key.removesuffix('_record')}"
        if average in averages:
            assert len(record) and averages[average] == np.mean(record), key


@pytest.mark.parametrize("kind", ["DQN", "PPO"])
@pytest.mark.parametrize("own", [deque(maxlen=10), [], Record(maxlen=10)], ids=["deque", "list", "record"])
def test_what_a_user_puts_in_its_place_is_filled_with_floats_averaged_and_saved(kind: str, own: Any) -> None:
    own, name = copy.deepcopy(own), "loss" if kind == "DQN" else "value_loss"

    def make() -> Any:
        return make_agent() if kind == "DQN" else make_on_policy(kind)

    agent = make()
    setattr(agent, f"{name}_record", own)
    play_one(agent, CHAIN, 60)
    assert getattr(agent, f"{name}_record") is own
    assert len(own) >= 10 and {type(value) for value in own} == {float}
    assert dict(agent.get_statistics())[f"average_{name}"] == np.mean(own)
    other = make()
    there = deque([7.0], maxlen=4)
    setattr(other, f"{name}_record", there)
    other.restore_state(agent.saved_state())
    assert [*there] == [*own][-4:]


# Former states


def former(*parts: Any) -> list[Any]:
    """A record as former versions saved it: one tensor for each update."""
    return [{"dtype": "torch.float32", "values": part} for part in parts]


def test_a_former_state_of_an_agent_with_replay_gives_the_same_statistics() -> None:
    agent = make_agent()
    state = {**agent.saved_state(), "q_record": former([0.5, 1.5], [2.5, None]), "loss_record": former(0.25, 0.75)}
    agent.restore_state(state)
    assert [*agent.q_record][:3] == [0.5, 1.5, 2.5] and math.isnan(agent.q_record[3])
    assert dict(agent.get_statistics())["average_loss"] == 0.5


def test_a_former_state_of_an_on_policy_agent_gives_the_same_statistics() -> None:
    agent = make_on_policy("PPO")
    windows = {"value": former([[0.5], [1.5]], [[4.0]]), "entropy": [], "value_loss": former([1.0, 2.0])}
    agent.restore_state({**agent.saved_state(), "windows": {**windows, "policy_loss": []}})
    statistics = dict(agent.get_statistics())
    assert (statistics["average_value"], statistics["average_value_loss"]) == (2.0, 1.5)
    assert math.isnan(statistics["average_entropy"]) and agent.value_record.maxlen == 1000


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_nested_tensors_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    value = (torch.randn(2, 3, dtype=dtype), None, (torch.tensor(0.1, dtype=dtype), torch.zeros(0, dtype=dtype)), ())
    back = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)), "cpu")
    assert back[0].dtype == dtype
    torch.testing.assert_close(back[0], value[0], rtol=0, atol=0)
    torch.testing.assert_close(back[2], value[2], rtol=0, atol=0)
    assert back[1] is None and back[3] == ()


def test_many_numbers_stay_a_tensor_and_come_back_as_a_copy() -> None:
    many = torch.arange(10_001.0)
    [plain] = to_plain((many,))
    [back] = from_plain([plain], "cpu")
    assert plain is many and torch.equal(back, many) and back.data_ptr() != many.data_ptr()


def test_numbers_that_are_not_finite_come_back_as_nan() -> None:
    back = from_plain(to_plain(torch.tensor([1.0, math.nan, math.inf])), "cpu")
    assert difference(back, torch.tensor([1.0, math.nan, math.nan])) is None


@pytest.mark.parametrize("value", [5, "a", {}, {"dtype": "torch.float32", "values": [[1.0], [1, 2.0]]}, [{"dtype": 1}]])
def test_what_is_no_such_value_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="for a tensor, expected a dict with dtype and values"):
        from_plain(value, "cpu")
