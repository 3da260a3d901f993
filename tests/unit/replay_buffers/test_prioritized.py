import numpy as np
import pytest
import torch

from pfrl_like.errors import CheckpointError, NonFiniteError
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer


def append(buffer, first, n):
    """Transitions i -> i + 1 of reward i, each an episode of its own."""
    for i in range(first, first + n):
        buffer.append([float(i)], i % 2, float(i), [i + 1.0], is_state_terminal=True)


def buffer_of(n, **kwargs):
    buffer = PrioritizedReplayBuffer(**kwargs)
    append(buffer, 0, n)
    return buffer


def proportional(errors, **kwargs):
    """A buffer of transitions 0, 1, ... whose priorities are the errors."""
    buffer = buffer_of(len(errors), alpha=1.0, eps=0.0, error_max=None, **kwargs)
    buffer.update_priorities(np.arange(len(errors)), errors)
    return buffer


def priorities(buffer):
    return buffer.state_dict()["arrays"]["own/priority"].tolist()


def observations(items):
    return [item[0]["state"][0] for item in items]


def test_draws_are_in_proportion_to_the_priorities():
    """Priorities 1, 2, 3, 4: shares of 4000 draws within five standard deviations."""
    buffer = proportional([1.0, 2.0, 3.0, 4.0])
    counts = np.bincount([int(observations(buffer.sample(1))[0]) for _ in range(4000)], minlength=4)
    chance = np.array([0.1, 0.2, 0.3, 0.4])
    assert (np.abs(counts / 4000 - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000)).all()


def test_a_minibatch_repeats_no_item_even_if_one_has_nearly_all_the_mass():
    buffer = proportional([1e15] + [1e-3] * 31)
    assert sorted(observations(buffer.sample(32))) == list(range(32))


def test_sample_and_sample_batch_make_the_same_draw():
    first, second = (proportional([1.0, 2.0, 3.0, 4.0, 5.0], rng=np.random.default_rng(1)) for _ in range(2))
    for _ in range(3):
        items, batch = first.sample(3), second.sample_batch(3)
        assert observations(items) == batch.obs[:, 0].tolist()
        assert [item[0]["weight"] for item in items] == pytest.approx(batch.weight.tolist())


def test_sample_batch_gives_weights_and_sequence_numbers():
    batch = buffer_of(7, capacity=5).sample_batch(5)
    assert batch.weight.dtype == torch.float32 and batch.weight.shape == (5,)
    assert batch.index.dtype == np.int64 and batch.index.tolist() == batch.obs[:, 0].tolist()


def test_only_the_first_transition_of_an_item_holds_a_weight():
    buffer = PrioritizedReplayBuffer(num_steps=2)
    for i in range(3):
        buffer.append([float(i)], 0, 0.0, [i + 1.0])
    assert [["weight" in step for step in item] for item in buffer.sample(1)] == [[True, False]]


def test_num_steps_sums_rewards():
    buffer = PrioritizedReplayBuffer(num_steps=2)
    for i in range(3):
        buffer.append([float(i)], 0, 1.0, [i + 1.0])
    assert buffer.sample_batch(2, gamma=0.5).reward.tolist() == [1.5, 1.5]


def test_capacity_drops_the_oldest_items_and_their_priorities():
    buffer = proportional([1e9, 1.0, 1.0], capacity=3)
    buffer.update_priorities([1, 2], [1.0, 2.0])
    append(buffer, 3, 1)
    assert len(buffer) == buffer.capacity == 3
    assert priorities(buffer) == [1.0, 2.0, 1e9]  # the new item has the largest so far


def test_new_items_have_priority_one_before_any_error_is_known():
    assert priorities(buffer_of(2)) == [1.0, 1.0]


def test_alpha_zero_draws_uniformly_whatever_the_errors():
    buffer = buffer_of(3, alpha=0.0)
    buffer.update_priorities([0, 1, 2], [0.0, 0.5, 1.0])
    assert priorities(buffer) == [1.0, 1.0, 1.0]


def test_eps_keeps_items_of_error_zero():
    buffer = buffer_of(2, alpha=1.0, eps=0.25)
    buffer.update_priorities([0, 1], [0.0, 0.5])
    assert priorities(buffer) == [0.25, 0.75]


def test_error_limits_clip_the_absolute_error():
    buffer = buffer_of(3, alpha=1.0, eps=0.0, error_min=0.5, error_max=2.0)
    buffer.update_priorities([0, 1, 2], [-0.1, -1.0, -5.0])
    assert priorities(buffer) == [0.5, 1.0, 2.0]


def test_errors_are_not_clipped_without_limits():
    buffer = buffer_of(2, alpha=1.0, eps=0.0, error_min=None, error_max=None)
    buffer.update_priorities([0, 1], [0.001, 1000.0])
    assert priorities(buffer) == [0.001, 1000.0]


def test_beta0_is_the_exponent_of_the_first_weights_and_betasteps_none_keeps_it():
    buffer = proportional([1.0, 4.0], beta0=0.5, betasteps=None)
    for _ in range(3):
        assert sorted(buffer.sample_batch(2).weight.tolist()) == [0.5, 1.0]
    assert buffer.beta == 0.5


def test_update_errors_writes_to_the_last_sample_in_its_order():
    buffer = buffer_of(3, alpha=1.0, eps=0.0, error_max=None)
    sampled = observations(buffer.sample(3))
    buffer.update_errors([10.0 + i for i in sampled])
    assert priorities(buffer) == [10.0, 11.0, 12.0]


def test_update_errors_without_a_sample_is_refused():
    buffer = buffer_of(1)
    with pytest.raises(RuntimeError, match="sample"):
        buffer.update_errors([1.0])
    buffer.sample(1)
    buffer.update_errors([1.0])
    with pytest.raises(RuntimeError, match="sample"):
        buffer.update_errors([1.0])


def test_several_batches_may_be_under_way():
    buffer = proportional([1.0, 1.0, 1.0])
    first, second = buffer.sample_batch(1), buffer.sample_batch(1)
    buffer.update_priorities(second.index, [3.0])
    buffer.update_priorities(first.index, [2.0])
    assert priorities(buffer)[first.index[0]] == 2.0


@pytest.mark.parametrize(
    "as_errors",
    [
        list,
        np.array,
        lambda errors: torch.tensor(errors, requires_grad=True),
        lambda errors: torch.tensor(errors, dtype=torch.bfloat16),
        lambda errors: torch.tensor(errors)[:, None],
    ],
    ids=["list", "array", "tensor", "bfloat16", "column"],
)
def test_errors_may_be_any_sequence_array_or_tensor(as_errors):
    buffer = buffer_of(2, alpha=1.0, eps=0.0)
    buffer.update_priorities(torch.tensor([1, 0]), as_errors([0.5, -0.25]))
    assert priorities(buffer) == [0.25, 0.5]


def test_errors_of_items_overwritten_meanwhile_are_dropped():
    buffer = proportional([1.0, 2.0, 3.0], capacity=3)
    append(buffer, 3, 2)
    buffer.update_priorities([0, 1, 2, 3], [7.0, 7.0, 5.0, 1.0])
    assert priorities(buffer) == [5.0, 1.0, 3.0]


def test_an_index_that_was_never_given_out_is_refused():
    with pytest.raises(ValueError, match="index holds 3"):
        buffer_of(3).update_priorities([0, 3], [1.0, 1.0])


def test_more_errors_than_items_are_refused():
    buffer = buffer_of(3)
    batch = buffer.sample_batch(2)
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        buffer.update_priorities(batch.index, [1.0] * 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_error_that_is_not_finite_is_refused_before_anything_changes(bad):
    buffer = buffer_of(2, alpha=1.0, eps=0.0)
    buffer.sample(2)
    for write in (buffer.update_errors, lambda errors: buffer.update_priorities([0, 1], errors)):
        with pytest.raises(NonFiniteError, match="td_error"):
            write([0.5, bad])
    assert priorities(buffer) == [1.0, 1.0]
    buffer.update_errors([0.5, 0.5])


def test_an_error_of_zero_without_eps_is_refused():
    buffer = buffer_of(2, eps=0.0)
    with pytest.raises(ValueError, match="priority holds 0.0"):
        buffer.update_priorities([0, 1], [1.0, 0.0])
    assert priorities(buffer) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("capacity", 0),
        ("alpha", -0.1),
        ("alpha", float("nan")),
        ("beta0", -0.1),
        ("beta0", 1.1),
        ("betasteps", 0),
        ("eps", -0.01),
        ("normalize_by_max", "max"),
        ("error_min", float("nan")),
        ("error_min", 2),
        ("error_max", -1),
        ("num_steps", 0),
    ],
)
def test_an_argument_out_of_its_range_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name}"):
        PrioritizedReplayBuffer(**{name: value})


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="beta1"):
        PrioritizedReplayBuffer(beta1=0.5)


def test_sampling_more_than_there_is_is_refused():
    buffer = buffer_of(2)
    with pytest.raises(ValueError, match="3"):
        buffer.sample(3)
    with pytest.raises(ValueError, match="3"):
        buffer.sample_batch(3)


def test_rng_is_the_only_source_of_randomness():
    before = np.random.get_state()[1].tolist()
    drawn = [buffer_of(100, rng=np.random.default_rng(5)).sample_batch(4).index.tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert np.random.get_state()[1].tolist() == before


def used(capacity):
    """A buffer whose priorities, beta and largest priority are no longer the first ones."""
    buffer = proportional(np.arange(1.0, capacity + 1), capacity=capacity, betasteps=10, rng=np.random.default_rng(0))
    append(buffer, capacity, 3)
    buffer.update_priorities(buffer.sample_batch(3).index, [100.0, 200.0, 300.0])
    buffer.update_priorities(np.arange(3, 3 + capacity), np.arange(capacity) + 1.0)
    return buffer


def fresh(capacity):
    return PrioritizedReplayBuffer(
        capacity=capacity, alpha=1.0, eps=0.0, error_max=None, betasteps=10, rng=np.random.default_rng(9)
    )


def test_state_dict_goes_on_exactly():
    buffer, restored = used(6), fresh(6)
    restored.load_state_dict(buffer.state_dict())
    assert restored.beta == buffer.beta > 0.4
    for step in range(3):
        append(buffer, 20 + step, 1)
        append(restored, 20 + step, 1)
        first, second = buffer.sample_batch(4), restored.sample_batch(4)
        assert first.index.tolist() == second.index.tolist()
        assert first.weight.tolist() == second.weight.tolist()
        assert first.obs.tolist() == second.obs.tolist()


def test_save_and_load_keep_priorities_beta_and_the_largest_priority(tmp_path):
    buffer, restored = used(6), fresh(6)
    buffer.save(str(tmp_path / "buffer"))
    restored.load(str(tmp_path / "buffer"))
    assert priorities(restored) == priorities(buffer) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert restored.beta == buffer.beta
    append(restored, 20, 1)
    assert priorities(restored)[-1] == 300.0


def test_loading_into_a_smaller_buffer_keeps_the_newest(tmp_path):
    restored = fresh(2)
    used(6).save(str(tmp_path / "buffer"))
    restored.load(str(tmp_path / "buffer"))
    assert priorities(restored) == [5.0, 6.0]
    assert sorted(observations(restored.sample(2))) == [7.0, 8.0]


def test_errors_wanted_before_loading_are_not_wanted_after_it():
    buffer = used(6)
    buffer.sample(2)
    buffer.load_state_dict(buffer.state_dict())
    with pytest.raises(RuntimeError, match="sample"):
        buffer.update_errors([1.0, 1.0])


def test_a_file_without_priorities_is_refused_and_the_content_stays(tmp_path):
    uniform = ReplayBuffer()
    append(uniform, 0, 3)
    uniform.save(str(tmp_path / "uniform"))
    buffer = proportional([1.0, 2.0])
    with pytest.raises(CheckpointError, match="priorities"):
        buffer.load(str(tmp_path / "uniform"))
    assert priorities(buffer) == [1.0, 2.0] and sorted(observations(buffer.sample(2))) == [0.0, 1.0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state["header"]["own"].update(beta=2.0),
        lambda state: state["header"]["own"].update(max_priority=-1.0),
        lambda state: state["arrays"].update({"own/priority": np.ones(5)}),
        lambda state: state["arrays"].update({"own/priority": np.array([1, 1, 1, 1, 1, np.nan])}),
        lambda state: state["arrays"].update({"own/priority": np.array([1, 1, 1, 1, 1, 0.0])}),
    ],
    ids=["beta", "max_priority", "length", "nan", "zero"],
)
def test_a_spoilt_state_is_refused_and_the_content_stays(spoil):
    state, buffer = used(6).state_dict(), proportional([1.0, 2.0])
    spoil(state)
    with pytest.raises(ValueError):
        buffer.load_state_dict(state)
    assert priorities(buffer) == [1.0, 2.0] and len(buffer) == 2
