import copy
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from buffer_parts import append, filled, rewards

from pfrl_like import replay_buffers as own
from pfrl_like.errors import CheckpointError, NonFiniteError
from pfrl_like.storage import write_arrays

DATA = Path(__file__).parents[2] / "data"
HINDSIGHT = functools.partial(own.HindsightReplayBuffer, reward_fn=lambda *_: 0, capacity=10)


def test_an_item_that_is_terminal_and_truncated_is_terminal():
    buffer = own.ReplayBuffer(num_steps=2)
    obs = np.zeros((1, 2), np.float32)
    buffer.append_batch(obs, [0], [1.0], obs, [True], [True])
    assert buffer.sample_batch(1, 0.9).discount.tolist() == [0.0]


def test_index_counts_on_over_many_rounds():
    buffer = filled(5000, capacity=10)
    batch = buffer.sample_batch(10)
    assert sorted(batch.index.tolist()) == list(range(4990, 5000))
    assert batch.reward.tolist() == batch.index.tolist()


@pytest.mark.parametrize("n", [4, -1])
@pytest.mark.parametrize("method", ["sample", "sample_batch"])
def test_more_than_the_buffer_holds_or_less_than_none_is_refused(method, n):
    with pytest.raises(ValueError, match=f"got {n}, expected 0 to 3"):
        getattr(filled(3), method)(n)


NAN, INF = float("nan"), float("inf")
OUT_OF_RANGE = {
    own.ReplayBuffer: {"capacity": [0, -1, NAN, "10"], "num_steps": [0, 2.5]},
    own.PrioritizedReplayBuffer: {
        "capacity": [0], "alpha": [-0.1, NAN], "beta0": [-0.1, 1.1], "betasteps": [0], "eps": [-0.01], "num_steps": [0],
        "normalize_by_max": ["max"], "error_min": [NAN, 2], "error_max": [-1],
    },
    own.PrioritizedEpisodicReplayBuffer: {
        "capacity": [0], "alpha": [-1], "beta0": [2], "betasteps": [NAN], "eps": [-1], "normalize_by_max": ["all"],
        "uniform_ratio": [1.5, -0.1], "error_min": [INF], "error_max": [-1],
    },
    HINDSIGHT: {"capacity": [0], "num_steps": [0], "strategy": ["past"], "n_goals": [-1, INF]},
}  # fmt: skip


@pytest.mark.parametrize("kind", OUT_OF_RANGE)
def test_an_argument_out_of_its_range_is_refused_by_name(kind):
    for name, values in OUT_OF_RANGE[kind].items():
        for value in values:
            with pytest.raises(ValueError, match=f"^{name}"):
                kind(**{name: value})


@pytest.mark.parametrize("kind", [own.ReplayBuffer, own.PrioritizedReplayBuffer, own.EpisodicReplayBuffer, HINDSIGHT])
def test_the_size_of_a_sample_has_two_names_of_which_one_is_passed(kind):
    assert kind().sample(n=0) == kind().sample(num_experiences=0) == []
    for sizes in ({}, {"n": 0, "num_experiences": 0}):
        with pytest.raises(TypeError, match=f"{len(sizes)} of the arguments num_experiences and n are passed"):
            kind().sample(**sizes)


@pytest.mark.parametrize("kind", [own.ReplayBuffer, own.PrioritizedReplayBuffer, own.EpisodicReplayBuffer, HINDSIGHT])
def test_nothing_is_drawn_of_a_buffer_that_has_never_held_anything(kind):
    assert kind().sample(0) == []
    with pytest.raises(ValueError, match="nothing was ever stored"):
        kind().sample_batch(0)


@pytest.mark.parametrize("kind", [own.ReplayBuffer, own.PrioritizedReplayBuffer, own.EpisodicReplayBuffer])
def test_numbers_may_be_numpys(kind):
    buffer = kind(np.int64(4))
    for i in range(10):
        buffer.append(i, 0, 0.0, i + 1, is_state_terminal=i % 2 == 1)
    assert len(buffer) == 4
    assert len(buffer.sample(np.int64(2))) == len(buffer.sample_batch(np.int64(2))) == 2


@pytest.mark.parametrize("kind", [own.ReplayBuffer, own.PrioritizedReplayBuffer, own.EpisodicReplayBuffer])
def test_its_own_source_of_randomness_leaves_the_global_one_alone(kind):
    buffers = [filled(100, kind=kind, rng=np.random.default_rng(7)) for _ in range(2)]
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    for buffer in buffers:
        buffer.stop_current_episode()
    draws = [(buffer.sample_batch(8).index.tolist(), rewards(buffer.sample(8))) for buffer in buffers]
    assert np.random.random() == expected
    assert draws[0] == draws[1]


def test_no_environment_at_all_is_no_step():
    buffer = own.ReplayBuffer()
    buffer.append_batch([], [], [], [], [], [], [])
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(env_ids=[0]), "env_ids: got 1"),
        (dict(terminated=[False]), "'next_obs': 2, 'terminated': 1, 'truncated': 2"),
    ],
)
def test_columns_of_different_lengths_are_refused(changed, message):
    obs = np.zeros((2, 1))
    arguments = dict(obs=obs, action=[0, 0], reward=[0, 0], next_obs=obs, terminated=[0, 0], truncated=[0, 0])
    buffer = own.ReplayBuffer()
    with pytest.raises(ValueError, match=message):
        buffer.append_batch(**(arguments | changed))
    assert len(buffer) == 0


def test_the_columns_of_one_environment_may_be_stacks_of_nests():
    buffer = own.ReplayBuffer()
    obs = {"a": np.ones((1, 2)), "b": (np.zeros((1, 3)), np.ones(1))}
    buffer.append_batch(obs, np.zeros((1, 2)), [0.0], obs, [False], [False], note=np.zeros((1, 4)))
    (item,) = buffer.memory
    assert item[0]["state"]["b"][0].shape == (3,)
    assert item[0]["note"].shape == (4,)


def test_a_batch_is_on_the_device_asked_for():
    assert filled(3).sample_batch(2, device="meta").obs.device.type == "meta"
    assert filled(3).sample_batch(2, device=torch.device("cpu")).obs.device.type == "cpu"


# Files


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_file_restores_the_own_source_of_randomness(make, tmp_path):
    saved, other = filled(50, rng=make(1)), filled(0, rng=make(2))
    saved.sample_batch(10)
    saved.save(str(tmp_path / "buffer"))
    other.load(str(tmp_path / "buffer"))
    for _ in range(3):
        assert other.sample_batch(10).index.tolist() == saved.sample_batch(10).index.tolist()


@pytest.mark.parametrize("mine", [None, np.random.RandomState(0), np.random.Generator(np.random.MT19937(0))])
def test_another_kind_of_randomness_is_refused_in_a_state_and_left_out_of_a_file(mine, tmp_path):
    other, buffer, before = filled(5, rng=np.random.default_rng(0)), filled(3, rng=mine), copy.deepcopy(mine)
    with pytest.raises(ValueError, match="the saved rng does not match"):
        buffer.load_state_dict(other.state_dict())
    assert rewards(buffer.memory) == [[0.0], [1.0], [2.0]]
    other.save(str(tmp_path / "buffer"))
    buffer.load(str(tmp_path / "buffer"))
    assert len(buffer) == 5
    assert mine is None or mine.uniform() == before.uniform()


@pytest.mark.parametrize("name", ["first", "n_items", "columns n_obs"])
@pytest.mark.parametrize("number", [10**30, -1, 1e300])
def test_numbers_out_of_range_are_refused_and_the_content_stays(name, number, tmp_path):
    state = filled(5).state_dict()
    *outer, name = name.split()
    (state["header"][outer[0]] if outer else state["header"])[name] = number
    write_arrays(tmp_path / "buffer", state["header"], state["arrays"])
    buffer = filled(3)
    with pytest.raises(CheckpointError):
        buffer.load(str(tmp_path / "buffer"))
    assert rewards(buffer.memory) == [[0.0], [1.0], [2.0]] and len(buffer.sample_batch(3)) == 3


def test_a_running_episode_that_does_not_go_on_is_over():
    loaded = own.ReplayBuffer(num_steps=3)
    loaded.load_state_dict(filled(2, num_steps=3).state_dict())
    append(loaded, 70)
    append(loaded, 71)
    assert rewards(loaded.memory) == [[0.0, 1.0], [1.0]]


@pytest.mark.parametrize("make", [lambda: own.ReplayBuffer(num_steps=2), lambda: own.EpisodicReplayBuffer()])
def test_the_file_of_another_kind_of_buffer_is_refused_and_the_content_stays(make, tmp_path):
    make().save(str(tmp_path / "buffer"))
    buffer = filled(3)
    with pytest.raises(CheckpointError, match="expected .* as in this buffer"):
        buffer.load(str(tmp_path / "buffer"))
    assert rewards(buffer.memory) == [[0.0], [1.0], [2.0]]


def test_objects_are_saved_only_with_allow_pickle(tmp_path):
    path = str(tmp_path / "buffer")
    buffer = own.ReplayBuffer()
    buffer.append("a", 0, 0.0, "b")
    with pytest.raises(CheckpointError, match="pickle"):
        buffer.save(path)
    buffer.save(path, allow_pickle=True)
    loaded = own.ReplayBuffer()
    with pytest.raises(CheckpointError, match="pickle"):
        loaded.load(path)
    loaded.load(path, allow_pickle=True)
    assert loaded.memory[0][0]["next_state"] == "b"


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [(own.ReplayBuffer, "replay", range(2, 8)), (own.EpisodicReplayBuffer, "episodic", [6, 7])],
)
def test_pfrls_file_loads_with_allow_pickle(kind, name, expected):
    buffer, path = filled(1, kind=kind), str(DATA / f"pfrl_0_4_{name}_buffer.pkl")
    with pytest.raises(CheckpointError, match="allow_pickle"):
        buffer.load(path)
    buffer.load(path, allow_pickle=True)
    assert rewards(buffer.memory) == [[reward] for reward in expected]


def test_pfrls_file_of_another_kind_is_refused_and_the_content_stays():
    buffer = filled(2)
    with pytest.raises(CheckpointError):
        buffer.load(str(DATA / "pfrl_0_4_episodic_buffer.pkl"), allow_pickle=True)
    assert rewards(buffer.memory) == [[0.0], [1.0]]


def test_items_of_pfrl_with_several_steps_keep_their_windows():
    # As PFRL holds them: the transitions of one episode, shared by its windows; the last two windows are short.
    steps = [
        dict(state=i, action=0, reward=float(i), next_state=i + 1, next_action=None, is_state_terminal=False)
        for i in range(4)
    ]
    buffer = own.ReplayBuffer(num_steps=3)
    buffer._append_windows([steps[0:3], steps[1:4], steps[2:4], steps[3:4]])
    assert rewards(buffer.memory) == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0], [3.0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["obs", "action", "next_obs"])
def test_a_number_that_is_not_finite_is_refused_where_it_is_stored(name, dtype):
    buffer = own.ReplayBuffer()
    step = {"obs": np.zeros(3, dtype), "action": np.zeros(2, dtype), "next_obs": np.full(3, np.finfo(dtype).max, dtype)}
    buffer.append(step["obs"], step["action"], 0.0, step["next_obs"])
    step[name][1] = np.nan
    with pytest.raises(NonFiniteError, match=f"{name} has nan at index 1"):
        buffer.append(step["obs"], step["action"], 0.0, step["next_obs"])
    assert len(buffer) == 1


def test_nan_in_a_nested_observation_is_refused_where_it_is_stored():
    with pytest.raises(NonFiniteError, match=r"next_obs\['b'\] has nan"):
        own.ReplayBuffer().append({"b": np.zeros(1)}, 0, 0.0, {"b": np.full(1, np.nan)})


@pytest.mark.parametrize(
    "reward",
    [1e39, -1e39, pytest.param(10**400, id="large"), float("nan"), float("inf"), np.float64(1e39), np.float32("inf")],
)
def test_a_reward_beyond_float32_is_refused_where_it_is_stored(reward):
    buffer, obs = own.ReplayBuffer(), np.zeros(3, np.float32)
    with pytest.raises(NonFiniteError, match="reward is .*, expected a finite number"):
        buffer.append(obs, 0, reward, obs)
    with pytest.raises(ValueError, match="reward"):
        buffer.append_batch([obs] * 2, [0, 1], [0.0, reward], [obs] * 2, [False] * 2, [False] * 2)
    assert len(buffer) == 0
    buffer.append(obs, 0, 3.4e38, obs)
    assert torch.isfinite(buffer.sample_batch(1).reward).all()
    with pytest.raises(NonFiniteError, match="reward is"):
        buffer.memory[0][0]["reward"] = reward
    buffer.memory = []
    with pytest.raises(NonFiniteError, match="reward is"):
        buffer.append(obs, 0, reward, obs)
    assert len(buffer) == 0


@pytest.mark.parametrize("reward", ["1", b"1", None, [1.0]])
def test_a_reward_that_is_no_number_is_refused_where_it_is_stored(reward):
    buffer, obs = own.ReplayBuffer(), np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="reward is .*, expected a single number"):
        buffer.append(obs, 0, reward, obs)
    assert len(buffer) == 0


@pytest.mark.parametrize("first", [True, False])
def test_an_action_beyond_int64_is_refused_where_it_is_stored(first):
    buffer, obs = own.ReplayBuffer(), np.zeros(3, np.float32)
    if not first:
        buffer.append(obs, 0, 0.0, obs)
    with pytest.raises(ValueError, match="action is an integer of 1329 bits, expected an int64"):
        buffer.append(obs, 10**400, 0.0, obs)
    assert len(buffer) == (0 if first else 1)
