import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from pfrl_like.errors import CheckpointError, NonFiniteError
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.storage import write_arrays

DATA = Path(__file__).parents[2] / "data"


def append(buffer, i, terminal=False, env_id=0, **extra):
    buffer.append(
        np.full(2, i, np.float32), i % 2, float(i), np.full(2, i + 1, np.float32), None, terminal, env_id, **extra
    )


def filled(n, *args, **kwargs):
    buffer = ReplayBuffer(*args, **kwargs)
    for i in range(n):
        append(buffer, i)
    return buffer


def rewards(buffer):
    return [[step["reward"] for step in item] for item in buffer.memory]


def test_a_new_buffer_is_empty():
    buffer = ReplayBuffer()
    assert (len(buffer), buffer.capacity, buffer.prioritized, list(buffer.memory)) == (0, None, False, [])
    assert isinstance(buffer, AbstractReplayBuffer)


def test_the_oldest_items_leave():
    assert rewards(filled(5, capacity=3)) == [[2.0], [3.0], [4.0]]


def test_a_buffer_without_capacity_grows():
    assert len(filled(3000)) == 3000


def test_an_item_waits_for_its_steps():
    assert len(filled(2, num_steps=3)) == 0
    assert rewards(filled(4, num_steps=3)) == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize("cut", [True, False])
def test_the_end_of_an_episode_completes_its_items(cut):
    buffer = filled(2, num_steps=3)
    if cut:
        buffer.stop_current_episode()
    else:
        append(buffer, 2, terminal=True)
    last = 1 if cut else 2
    assert rewards(buffer) == [[float(i) for i in range(begin, last + 1)] for begin in range(last + 1)]


def test_what_is_appended_in_one_episode_is_one_item_even_if_the_states_do_not_fit_together():
    buffer = ReplayBuffer(num_steps=3)
    step = {"state": 0, "action": 1, "reward": 2, "next_state": 3, "next_action": 4, "is_state_terminal": False}
    for _ in range(3):
        buffer.append(**step)
    assert len(buffer) == 1 and buffer.sample(1) == [[step] * 3]


def test_items_do_not_join_episodes():
    buffer = filled(1, num_steps=2)
    buffer.stop_current_episode()
    append(buffer, 1)
    append(buffer, 2)
    assert rewards(buffer) == [[0.0], [1.0, 2.0]]


def test_stopping_an_episode_that_has_not_begun_does_nothing():
    buffer = filled(0)
    buffer.stop_current_episode("nobody")
    append(buffer, 0, terminal=True)
    buffer.stop_current_episode()
    assert len(buffer) == 1


def test_a_batch_has_the_n_step_return_and_its_discount():
    buffer = filled(2, num_steps=3)
    append(buffer, 2, terminal=True)  # rewards 0, 1, 2
    batch = buffer.sample_batch(3, gamma=0.5)
    order = np.argsort(batch.index)
    # 0 + 0.5 * 1 + 0.25 * 2, 1 + 0.5 * 2, 2
    assert batch.reward[order].tolist() == [1.0, 2.0, 2.0]
    assert batch.discount.tolist() == [0.0] * 3
    assert batch.next_obs.tolist() == [[3.0, 3.0]] * 3


def test_a_truncated_item_bootstraps_after_as_many_steps_as_it_has():
    buffer = filled(2, num_steps=3)
    buffer.stop_current_episode()
    batch = buffer.sample_batch(2, gamma=0.5)
    order = np.argsort(batch.index)
    assert batch.discount[order].tolist() == [0.25, 0.5]
    assert batch.next_obs.tolist() == [[2.0, 2.0]] * 2


def test_an_item_that_is_terminal_and_truncated_is_terminal():
    buffer = ReplayBuffer(num_steps=2)
    obs = np.zeros((1, 2), np.float32)
    buffer.append_batch(obs, [0], [1.0], obs, [True], [True])
    assert buffer.sample_batch(1, 0.9).discount.tolist() == [0.0]


def test_append_gives_pfrls_dicts_back():
    buffer = ReplayBuffer()
    step = dict(state=3, action=1, reward=2.0, next_state=4, next_action=0, is_state_terminal=False, note="a")
    buffer.append(**step)
    assert buffer.sample(1) == [[step]]


def test_sampled_items_are_distinct():
    buffer = filled(50)
    assert sorted(item[0]["reward"] for item in buffer.sample(50)) == list(range(50))


def test_index_counts_all_items_that_ever_came():
    assert sorted(filled(7, capacity=3).sample_batch(3).index.tolist()) == [4, 5, 6]


def test_index_counts_on_over_many_rounds():
    buffer = filled(5000, capacity=10)
    batch = buffer.sample_batch(10)
    assert sorted(batch.index.tolist()) == list(range(4990, 5000))
    assert batch.reward.tolist() == batch.index.tolist()


@pytest.mark.parametrize("method", ["sample", "sample_batch"])
def test_more_than_the_buffer_holds_is_refused(method):
    with pytest.raises(ValueError, match="got 4, expected 0 to 3"):
        getattr(filled(3), method)(4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(capacity=0), "capacity: got 0"),
        (dict(capacity=-1), "capacity: got -1"),
        (dict(capacity=float("nan")), "capacity: got nan"),
        (dict(capacity="10"), "capacity: got '10'"),
        (dict(num_steps=0), "num_steps: got 0"),
        (dict(num_steps=2.0), "num_steps: got 2.0, expected an integer"),
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ReplayBuffer(**arguments)


@pytest.mark.parametrize("n", [-1, -4])
@pytest.mark.parametrize("method", ["sample", "sample_batch"])
def test_a_negative_number_is_refused(method, n):
    with pytest.raises(ValueError, match=f"got {n}, expected 0 to 3"):
        getattr(filled(3), method)(n)


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, EpisodicReplayBuffer])
def test_nothing_is_drawn_of_a_buffer_that_has_never_held_anything(kind):
    assert kind().sample(0) == []
    with pytest.raises(ValueError, match="nothing was ever stored"):
        kind().sample_batch(0)


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, EpisodicReplayBuffer])
def test_numbers_may_be_numpys(kind):
    buffer = kind(np.int64(4))
    for i in range(10):
        buffer.append(i, 0, 0.0, i + 1, is_state_terminal=i % 2 == 1)
    assert len(buffer) == 4
    assert len(buffer.sample(np.int64(2))) == len(buffer.sample_batch(np.int64(2))) == 2


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError):
        ReplayBuffer(capactiy=10)


def test_its_own_source_of_randomness_leaves_the_global_one_alone():
    buffers = [filled(100, rng=np.random.default_rng(7)) for _ in range(2)]
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    draws = [buffer.sample_batch(8).index.tolist() for buffer in buffers]
    assert np.random.random() == expected
    assert draws[0] == draws[1]


def test_without_one_the_global_stream_decides_at_call_time():
    buffer = filled(100)
    np.random.seed(1)
    first = buffer.sample_batch(8).index.tolist()
    np.random.seed(1)
    assert buffer.sample_batch(8).index.tolist() == first


def test_a_step_of_several_environments_keeps_their_episodes_apart():
    buffer = ReplayBuffer(num_steps=2)
    for t in range(3):
        obs = np.array([[t], [10 + t]], np.float32)
        buffer.append_batch(obs, [0, 1], [t, 10.0 + t], obs + 1, [False, t == 0], [False, False])
    assert rewards(buffer) == [[10.0], [0.0, 1.0], [1.0, 2.0], [11.0, 12.0]]


def test_names_of_environments_may_be_anything_hashable():
    buffer = ReplayBuffer(num_steps=2)
    obs = np.zeros((2, 1), np.float32)
    for reward in ([0.0, 10.0], [1.0, 11.0]):
        buffer.append_batch(obs, [0, 0], reward, obs, [False] * 2, [False] * 2, env_ids=["a", ("b", 1)])
    assert rewards(buffer) == [[0.0, 1.0], [10.0, 11.0]]


def test_no_environment_at_all_is_no_step():
    buffer = ReplayBuffer()
    buffer.append_batch([], [], [], [], [], [], [])
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(env_ids=[0]), "env_ids: got 1"),
        (dict(terminated=[False]), "terminated: got shape \\(1,\\), expected \\(2,\\)"),
        (dict(truncated=[False] * 3), "truncated: got shape \\(3,\\)"),
        (dict(obs=np.zeros((3, 1))), "obs"),
    ],
)
def test_columns_of_different_lengths_are_refused(changed, message):
    obs = np.zeros((2, 1))
    arguments = dict(obs=obs, action=[0, 0], reward=[0, 0], next_obs=obs, terminated=[0, 0], truncated=[0, 0])
    buffer = ReplayBuffer()
    with pytest.raises(ValueError, match=message):
        buffer.append_batch(**(arguments | changed))
    assert len(buffer) == 0


def test_the_columns_of_one_environment_may_be_stacks_of_nests():
    buffer = ReplayBuffer()
    obs = {"a": np.ones((1, 2)), "b": (np.zeros((1, 3)), np.ones(1))}
    buffer.append_batch(obs, np.zeros((1, 2)), [0.0], obs, [False], [False], note=np.zeros((1, 4)))
    (item,) = buffer.memory
    assert item[0]["state"]["b"][0].shape == (3,)
    assert item[0]["note"].shape == (4,)


def test_memory_is_read_like_a_list():
    memory = filled(5, capacity=3).memory
    assert len(memory) == 3
    assert memory[-1][0]["reward"] == 4.0
    assert [item[0]["reward"] for item in memory[1:]] == [3.0, 4.0]
    with pytest.raises(IndexError):
        memory[3]


def test_a_batch_is_on_the_device_asked_for():
    assert filled(3).sample_batch(2, device="meta").obs.device.type == "meta"
    assert filled(3).sample_batch(2, device=torch.device("cpu")).obs.device.type == "cpu"


# Files


def test_priorities_are_refused():
    with pytest.raises(TypeError, match="ReplayBuffer keeps no priorities"):
        filled(3).update_priorities([0], [1.0])


def test_a_loaded_buffer_draws_what_the_saved_one_draws(tmp_path):
    saved, loaded = filled(50, capacity=20), ReplayBuffer(20)
    saved.save(str(tmp_path / "buffer"))
    loaded.load(str(tmp_path / "buffer"))
    drawn = []
    for buffer in (saved, loaded):
        np.random.seed(5)
        drawn.append(buffer.sample_batch(10))
    assert drawn[0].index.tolist() == drawn[1].index.tolist()
    assert torch.equal(drawn[0].obs, drawn[1].obs)


def test_state_dict_restores_the_own_source_of_randomness():
    for make in (np.random.default_rng, np.random.RandomState):
        saved, other = filled(50, rng=make(1)), filled(0, rng=make(2))
        other.load_state_dict(saved.state_dict())
        assert other.sample_batch(10).index.tolist() == saved.sample_batch(10).index.tolist()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_file_restores_the_own_source_of_randomness(make, tmp_path):
    saved, other = filled(50, rng=make(1)), filled(0, rng=make(2))
    saved.sample_batch(10)
    saved.save(str(tmp_path / "buffer"))
    other.load(str(tmp_path / "buffer"))
    for _ in range(3):
        assert other.sample_batch(10).index.tolist() == saved.sample_batch(10).index.tolist()


@pytest.mark.parametrize("mine", [None, np.random.RandomState(0), np.random.Generator(np.random.MT19937(0))])
def test_a_file_of_a_buffer_with_another_kind_of_randomness_leaves_the_own(mine, tmp_path):
    filled(5, rng=np.random.default_rng(0)).save(str(tmp_path / "buffer"))
    buffer = filled(3, rng=mine)
    before = copy.deepcopy(mine)
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
    assert rewards(buffer) == [[0.0], [1.0], [2.0]] and len(buffer.sample_batch(3)) == 3


@pytest.mark.parametrize("mine", [None, np.random.RandomState(0), np.random.Generator(np.random.MT19937(0))])
def test_another_kind_of_randomness_is_refused_and_the_content_stays(mine):
    buffer = filled(3, rng=mine)
    with pytest.raises(ValueError, match="its rng does not fit"):
        buffer.load_state_dict(filled(5, rng=np.random.default_rng(0)).state_dict())
    assert rewards(buffer) == [[0.0], [1.0], [2.0]]


def test_a_smaller_buffer_keeps_the_newest_items():
    loaded = ReplayBuffer(2)
    loaded.load_state_dict(filled(5).state_dict())
    assert rewards(loaded) == [[3.0], [4.0]]


def test_a_running_episode_goes_on_in_the_loaded_buffer():
    loaded = ReplayBuffer(num_steps=3)
    loaded.load_state_dict(filled(2, num_steps=3).state_dict())
    append(loaded, 2)
    assert rewards(loaded) == [[0.0, 1.0, 2.0]]


def test_a_running_episode_that_does_not_go_on_is_over():
    loaded = ReplayBuffer(num_steps=3)
    loaded.load_state_dict(filled(2, num_steps=3).state_dict())
    append(loaded, 70)
    append(loaded, 71)
    assert rewards(loaded) == [[0.0, 1.0], [1.0]]


@pytest.mark.parametrize("make", [lambda: ReplayBuffer(num_steps=2), lambda: EpisodicReplayBuffer()])
def test_the_file_of_another_kind_of_buffer_is_refused_and_the_content_stays(make, tmp_path):
    make().save(str(tmp_path / "buffer"))
    buffer = filled(3)
    with pytest.raises(CheckpointError, match="expected .* as in this buffer"):
        buffer.load(str(tmp_path / "buffer"))
    assert rewards(buffer) == [[0.0], [1.0], [2.0]]


def test_a_damaged_file_is_refused_and_the_content_stays(tmp_path):
    path = tmp_path / "buffer"
    filled(5).save(str(path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    buffer = filled(3)
    with pytest.raises(CheckpointError):
        buffer.load(str(path))
    assert len(buffer) == 3


def test_objects_are_saved_only_with_allow_pickle(tmp_path):
    path = str(tmp_path / "buffer")
    buffer = ReplayBuffer()
    buffer.append("a", 0, 0.0, "b")
    with pytest.raises(CheckpointError, match="pickle"):
        buffer.save(path)
    buffer.save(path, allow_pickle=True)
    loaded = ReplayBuffer()
    with pytest.raises(CheckpointError, match="pickle"):
        loaded.load(path)
    loaded.load(path, allow_pickle=True)
    assert loaded.memory[0][0]["next_state"] == "b"


def test_pfrls_file_loads_with_allow_pickle():
    buffer = filled(2)
    with pytest.raises(CheckpointError, match="allow_pickle"):
        buffer.load(str(DATA / "pfrl_0_4_replay_buffer.pkl"))
    assert len(buffer) == 2
    buffer.load(str(DATA / "pfrl_0_4_replay_buffer.pkl"), allow_pickle=True)
    assert rewards(buffer) == [[2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]
    assert [item[0]["is_state_terminal"] for item in buffer.memory] == [False, False, False, True, False, False]


def test_pfrls_file_of_another_kind_is_refused_and_the_content_stays():
    buffer = filled(2)
    with pytest.raises(CheckpointError):
        buffer.load(str(DATA / "pfrl_0_4_episodic_buffer.pkl"), allow_pickle=True)
    assert rewards(buffer) == [[0.0], [1.0]]


def test_items_of_pfrl_with_several_steps_keep_their_windows():
    # As PFRL holds them: the transitions of one episode, shared by its windows; the last two windows are short.
    steps = [
        dict(state=i, action=0, reward=float(i), next_state=i + 1, next_action=None, is_state_terminal=False)
        for i in range(4)
    ]
    buffer = ReplayBuffer(num_steps=3)
    buffer._append_windows([steps[0:3], steps[1:4], steps[2:4], steps[3:4]])
    assert rewards(buffer) == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0], [3.0]]


@pytest.mark.parametrize("draw", ["sample", "sample_batch"])
def test_an_empty_buffer_says_that_it_is_empty(draw: str) -> None:
    with pytest.raises(ValueError, match="got 100, but it is empty: no items are held"):
        getattr(ReplayBuffer(10), draw)(100)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["obs", "action", "next_obs"])
def test_a_number_that_is_not_finite_is_refused_where_it_is_stored(name, dtype):
    buffer = ReplayBuffer()
    step = {"obs": np.zeros(3, dtype), "action": np.zeros(2, dtype), "next_obs": np.full(3, np.finfo(dtype).max, dtype)}
    buffer.append(step["obs"], step["action"], 0.0, step["next_obs"])
    step[name][1] = np.nan
    with pytest.raises(NonFiniteError, match=f"{name} has nan at index 1"):
        buffer.append(step["obs"], step["action"], 0.0, step["next_obs"])
    assert len(buffer) == 1


def test_nan_in_a_nested_observation_is_refused_where_it_is_stored():
    with pytest.raises(NonFiniteError, match=r"next_obs\['b'\] has nan"):
        ReplayBuffer().append({"b": np.zeros(1)}, 0, 0.0, {"b": np.full(1, np.nan)})


@pytest.mark.parametrize(
    "reward",
    [1e39, -1e39, pytest.param(10**400, id="large"), float("nan"), float("inf"), np.float64(1e39), np.float32("inf")],
)
def test_a_reward_beyond_float32_is_refused_where_it_is_stored(reward):
    buffer, obs = ReplayBuffer(), np.zeros(3, np.float32)
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
    buffer, obs = ReplayBuffer(), np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="reward is .*, expected a single number"):
        buffer.append(obs, 0, reward, obs)
    assert len(buffer) == 0


def test_an_error_of_a_reward_too_large_for_float_is_a_sentence():
    with pytest.raises(NonFiniteError, match="^reward is a number beyond float32, expected a finite number"):
        ReplayBuffer().append(np.zeros(3), 0, 10**400, np.zeros(3))


@pytest.mark.parametrize("first", [True, False])
def test_an_action_beyond_int64_is_refused_where_it_is_stored(first):
    buffer, obs = ReplayBuffer(), np.zeros(3, np.float32)
    if not first:
        buffer.append(obs, 0, 0.0, obs)
    with pytest.raises(ValueError, match="action is an integer of 1329 bits, expected one that int64 can hold"):
        buffer.append(obs, 10**400, 0.0, obs)
    assert len(buffer) == (0 if first else 1)
