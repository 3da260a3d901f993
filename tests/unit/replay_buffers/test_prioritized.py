import numpy as np
import pytest
import torch

from pfrl_like.errors import NonFiniteError
from pfrl_like.replay_buffers import PrioritizedReplayBuffer


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


def test_only_the_first_transition_of_an_item_holds_a_weight():
    buffer = PrioritizedReplayBuffer(num_steps=2)
    for i in range(3):
        buffer.append([float(i)], 0, 0.0, [i + 1.0])
    assert [["weight" in step for step in item] for item in buffer.sample(1)] == [[True, False]]


def test_capacity_drops_the_oldest_items_and_their_priorities():
    buffer = proportional([1e9, 1.0, 1.0], capacity=3)
    buffer.update_priorities([1, 2], [1.0, 2.0])
    append(buffer, 3, 1)
    assert len(buffer) == buffer.capacity == 3
    assert priorities(buffer) == [1.0, 2.0, 1e9]  # the new item has the largest so far


def test_beta0_is_the_exponent_of_the_first_weights_and_betasteps_none_keeps_it():
    buffer = proportional([1.0, 4.0], beta0=0.5, betasteps=None)
    for _ in range(3):
        assert sorted(buffer.sample_batch(2).weight.tolist()) == [0.5, 1.0]
    assert buffer.beta == 0.5


def test_negative_betasteps_keep_beta0_after_a_warning():
    with pytest.warns(UserWarning, match=r"betasteps is -700.* stays beta0, 0\.5"):
        buffer = proportional([1.0, 4.0], beta0=0.5, betasteps=300 - 1_000)
    buffer.sample_batch(2)
    assert buffer.beta == 0.5


def test_update_errors_writes_to_the_last_sample_in_its_order():
    buffer = buffer_of(3, alpha=1.0, eps=0.0, error_max=None)
    sampled = observations(buffer.sample(3))
    buffer.update_errors([10.0 + i for i in sampled])
    assert priorities(buffer) == [10.0, 11.0, 12.0]


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
