"""Crossings between datasets of d3rlpy 2 and of this library. All rewards differ, so that a shift by a row shows."""

from typing import Any

import numpy as np
import pytest
import torch
from d3rlpy_parts import numbered, rewards_of

from pfrl_like.algos import DQN
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset import (
    BasicTransitionPicker,
    Episode,
    FrameStackTransitionPicker,
    InfiniteBuffer,
    MultiStepTransitionPicker,
    ReplayBuffer,
    SparseRewardTransitionPicker,
    batch_of,
    create_infinite_replay_buffer,
    from_library_dataset,
)
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.errors import NonFiniteError


def whole_batch(dataset: ReplayBuffer, gamma: float = 0.9, **options: Any):
    return batch_of(dataset, np.arange(dataset.transition_count), gamma, **options)


def test_a_batch_of_single_steps() -> None:
    batch = whole_batch(numbered("-t-o"), returns=True)  # transitions of the rows 0, 1 and 2
    assert batch.obs.tolist() == [[0], [1], [2]] and batch.action.tolist() == [0, 1, 2]
    assert batch.reward.tolist() == [0.5, 1.5, 3.5]
    assert batch.next_obs.tolist() == [[1], [0], [3]] and batch.next_action.tolist() == [1, 0, 0]
    assert batch.discount.tolist() == pytest.approx([0.9, 0, 0.9])
    assert batch.returns.tolist() == pytest.approx([0.5 + 0.9 * 1.5, 1.5, 3.5 + 0.9 * 7.5])
    assert (batch.action.dtype, batch.next_action.dtype, batch.reward.dtype) == (
        torch.int64, torch.int64, torch.float32,
    )  # fmt: skip


def test_the_next_action_of_the_last_step_of_a_truncated_episode_is_that_of_its_last_row() -> None:
    actions = np.array([[0.1], [0.2], [0.3], [0.4], [0.5]])
    batch = whole_batch(numbered("--o-t", actions=actions))
    assert batch.next_action.ravel().tolist() == pytest.approx([0.2, 0.3, 0.5, 0])
    assert batch.action.dtype == torch.float32 and batch.action.shape == (4, 1)


def test_rewards_of_several_steps_have_the_pickers_discount_factor_and_targets_the_agents() -> None:
    picker = MultiStepTransitionPicker(2, 0.5)
    batch = whole_batch(numbered("--t--o", transition_picker=picker), 0.9)
    assert batch.reward.tolist() == [0.5 + 1.5 / 2, 1.5 + 3.5 / 2, 3.5, 7.5 + 15.5 / 2, 15.5]
    assert batch.discount.tolist() == pytest.approx([0.81, 0, 0, 0.81, 0.9])
    assert batch.next_obs.ravel().tolist() == [2, 0, 0, 5, 5]


class UsersPicker:
    """A picker that is none of this package, and does what one of them does."""

    def __init__(self, picker: Any) -> None:
        self.picker, self.calls = picker, 0

    def __call__(self, episode: Any, index: int) -> Any:
        self.calls += 1
        return self.picker(episode, index)


IMAGES = np.arange(1, 8, dtype=np.uint8).reshape(7, 1, 1, 1) * np.ones((1, 1, 2, 2), np.uint8)


@pytest.mark.parametrize(
    "actions", [np.arange(7), np.linspace(-1, 1, 14).reshape(7, 2)], ids=["discrete", "continuous"]
)
@pytest.mark.parametrize(
    "observations",
    [IMAGES, np.arange(14.0).reshape(7, 2), (IMAGES, np.arange(14.0).reshape(7, 2))],
    ids=["images", "vectors", "tuples"],
)
@pytest.mark.parametrize(
    "picker",
    [
        BasicTransitionPicker(), FrameStackTransitionPicker(3), MultiStepTransitionPicker(3, 0.5),
        SparseRewardTransitionPicker(-9, 1.0),
    ],
    ids=lambda picker: type(picker).__name__,
)  # fmt: skip
def test_columns_give_what_the_picker_gives(picker: Any, observations: Any, actions: np.ndarray) -> None:
    slow = UsersPicker(picker)
    arrays = {"observations": observations, "actions": actions, "rewards": np.array([1, 1, 1, 0.5, 1.5, 3.5, 7.5])}
    fast, reference = (whole_batch(numbered("--tt--o", transition_picker=each, **arrays), returns=True)
                       for each in (picker, slow))  # fmt: skip
    assert slow.calls == 6
    for name in ("obs", "action", "reward", "next_obs", "next_action", "discount", "returns"):
        values, expected = getattr(fast, name), getattr(reference, name)
        assert all(map(np.allclose, *(v if isinstance(v, tuple) else (v,) for v in (values, expected)))), name


def test_a_subclass_of_a_picker_is_called() -> None:
    class Doubled(BasicTransitionPicker):
        def __call__(self, episode: Any, index: int) -> Any:
            transition = super().__call__(episode, index)
            return type(transition)(**vars(transition) | {"reward": 2 * transition.reward})

    assert whole_batch(numbered("-t", transition_picker=Doubled())).reward.tolist() == [1, 3]


def test_tuples_of_observations_are_tuples_of_tensors() -> None:
    arrays = np.arange(3.0).reshape(3, 1), np.arange(6.0).reshape(3, 2)
    batch = whole_batch(numbered("--t", observations=arrays))
    assert [part.dtype for part in batch.obs] == [torch.float32] * 2
    assert batch.next_obs[1].tolist() == [[2, 3], [4, 5], [0, 0]]


def test_episodes_of_an_own_buffer_are_read() -> None:
    class Reversed(InfiniteBuffer):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(len(self) - 1 - index)

    dataset = ReplayBuffer(Reversed(), episodes=numbered("-t-t").episodes)
    assert whole_batch(dataset).reward.tolist() == [7.5, 3.5, 1.5, 0.5]


def test_observations_of_arrays_are_shared_and_those_of_episodes_copied() -> None:
    arrays = np.zeros((5, 2), np.float32)
    dataset = numbered("-t--t", observations=arrays)
    assert np.shares_memory(dataset.columns.columns.obs.leaves[0].data, arrays)
    for episodes in ([*reversed(dataset.episodes)], [Episode(**vars(dataset.episodes[0])), dataset.episodes[1]]):
        assert len(whole_batch(create_infinite_replay_buffer(episodes=episodes))) == 5


def test_episodes_that_are_added_later_are_read() -> None:
    dataset = numbered("-t")
    assert len(whole_batch(dataset)) == 2
    dataset.append_episode(Episode(np.full((2, 1), 7, np.float32), np.ones((2, 1), int), np.full((2, 1), 9.0), False))
    batch = whole_batch(dataset)
    assert batch.reward.tolist() == [0.5, 1.5, 9] and batch.next_obs.ravel().tolist() == [1, 0, 7]


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"actions": np.array([[0, 1], [1, 0]])}, ValueError, "actions"),
        ({"actions": np.array([0, -1])}, ValueError, "got -1 in row 1"),
        ({"rewards": np.array([0, np.nan])}, NonFiniteError, "rewards"),
        ({"observations": np.array([[0], [np.inf]])}, NonFiniteError, "observations"),
    ],
)
def test_what_agents_cannot_learn_from_is_rejected(changes: dict, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        whole_batch(numbered("-t", **changes))


# Conversions


@pytest.mark.parametrize("convention", ["same_row", "next_row"])
def test_a_dataset_of_the_library_becomes_one_of_the_layer(convention: str) -> None:
    """Each action pays the reward that it pays in the library, in either convention."""
    rewards = rewards_of(6)
    flags = np.array([0, 0, 1, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 1])
    rows = np.arange(6, dtype=np.float32).reshape(6, 1), np.array([0, 1, 2, 0, 1, 4])
    library = LibraryDataset(*rows, rewards, flags[0], True, timeouts=flags[1], reward_convention=convention)
    dataset = from_library_dataset(library, MultiStepTransitionPicker(1, 1.0))
    got = [e.rewards.ravel().tolist() for e in dataset.episodes]
    if convention == "same_row":
        assert got == [[0.5, 1.5, 3.5], [7.5, 15.5, 0]]
    else:  # the terminal state has a row in the library, and none in d3rlpy
        assert got == [[1.5, 3.5], [15.5, 31.5, 0]]
    assert [e.terminated for e in dataset.episodes] == [True, False]
    assert (dataset.dataset_info.action_space, dataset.dataset_info.action_size) == (ActionSpace.DISCRETE, 5)
    same, ours = whole_batch(dataset), library.batch(np.arange(library.n_steps), 0.9)
    for name in ("obs", "action", "reward", "discount"):
        assert torch.equal(getattr(same, name), getattr(ours, name)), name
    alive = same.discount > 0
    assert torch.equal(same.next_obs[alive], ours.next_obs[alive])


def test_a_dataset_of_the_layer_becomes_one_of_the_library() -> None:
    dataset = numbered("t--o--t", action_size=7).to_library_dataset()
    assert dataset.reward_convention == "same_row" and dataset.get_action_size() == 7
    arrays = dataset.to_arrays()
    assert arrays["observations"].ravel().tolist() == [0, 1, 2, 4, 5, 6]
    assert arrays["rewards"].tolist() == [0.5, 1.5, 3.5, 15.5, 31.5, 63.5]
    assert arrays["actions"].tolist() == [0, 1, 2, 1, 2, 0]
    assert arrays["terminals"].tolist() == [True, False, False, False, False, True]
    assert arrays["timeouts"].tolist() == [False, False, True, False, False, False]
    assert [[t.reward for t in episode] for episode in dataset] == [[0.5], [1.5, 3.5], [15.5, 31.5, 63.5]]


def test_there_and_back_again_only_the_reward_of_a_truncated_row_is_lost() -> None:
    before = numbered("t--o--t")
    after = from_library_dataset(before.to_library_dataset())
    for old, new in zip(before.episodes, after.episodes, strict=True):
        assert np.array_equal(old.observations, new.observations) and np.array_equal(old.actions, new.actions)
        kept = slice(None) if old.terminated else slice(-1)
        assert np.array_equal(old.rewards[kept], new.rewards[kept]) and old.terminated == new.terminated
    assert after.episodes[1].rewards[-1] == 0 and after.dataset_info.action_size == 3


def test_tuples_cross_and_dicts_and_other_objects_are_refused() -> None:
    arrays = np.arange(3.0).reshape(3, 1), np.arange(6.0).reshape(3, 2)
    there = numbered("--t", observations=arrays).to_library_dataset()
    assert np.array_equal(from_library_dataset(there).episodes[0].observations[1], arrays[1])
    rest = np.arange(3), np.zeros(3), np.array([0, 0, 1])
    with pytest.raises(TypeError, match="observations are dicts"):
        from_library_dataset(LibraryDataset({"a": arrays[0]}, *rest, True, reward_convention="same_row"))
    with pytest.raises(TypeError, match="expected a ReplayBuffer or an MDPDataset"):
        from_library_dataset(numbered("-t"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no transitions"):
        numbered("o").to_library_dataset()


def test_an_estimator_of_the_library_learns_the_same_from_either_front() -> None:
    layer = numbered("t--o--t---t")
    values = []
    for data in (layer, layer.to_library_dataset()):
        torch.manual_seed(0)
        np.random.seed(0)
        estimator = DQN(n_epochs=1, batch_size=4, q_func_factory="mean")
        estimator.fit(data, save_metrics=False, show_progress=False)
        values.append(estimator.predict_value(np.arange(3, dtype=np.float32).reshape(3, 1), np.arange(3)))
    assert np.array_equal(*values)
    with pytest.raises(TypeError, match=r"episodes\[0\] is Episode, expected an Episode of pfrl_like.dataset"):
        DQN().fit(layer.episodes)
