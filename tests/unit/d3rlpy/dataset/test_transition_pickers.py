import numpy as np
import pytest
from d3rlpy_parts import numbered

from pfrl_like.d3rlpy.dataset import (
    BasicTransitionPicker,
    FrameStackTransitionPicker,
    MultiStepTransitionPicker,
    SparseRewardTransitionPicker,
)

BASIC = BasicTransitionPicker()


def test_the_last_step_of_a_terminated_episode_is_followed_by_zeros() -> None:
    transition = BASIC(numbered("--t").episodes[0], 2)
    assert (transition.observation, transition.action, transition.reward) == (2.0, 2, 3.5)
    assert (transition.next_observation, transition.next_action) == (0, 0)
    assert (transition.terminal, transition.interval) == (1.0, 1)


def test_the_last_step_of_a_truncated_episode_is_followed_by_its_last_row() -> None:
    transition = BASIC(numbered("--o").episodes[0], 1)
    assert (transition.next_observation, transition.next_action, transition.terminal) == (2.0, 2, 0.0)
    assert transition.rewards_to_go.tolist() == [[1.5], [3.5]]


@pytest.mark.parametrize(("ends", "index"), [("--t", 3), ("--o", 2), ("--t", -1)])
def test_a_row_that_begins_no_transition_is_rejected(ends: str, index: int) -> None:
    with pytest.raises(IndexError, match="index: got"):
        BASIC(numbered(ends).episodes[0], index)


def test_values_keep_their_dtypes() -> None:
    transition = BASIC(numbered("--t", rewards=np.ones(3, np.float32)).episodes[0], 0)
    assert (transition.reward.dtype, transition.action.dtype) == (np.float32, np.int64)
    assert transition.reward_signature.shape == [(1,)]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [  # index: 0.5 + 1.5 / 2 + 3.5 / 4, ...
        ("---t", [(2.125, 3.0, 0, 3), (5.125, 0.0, 1, 3), (7.25, 0.0, 1, 2), (7.5, 0.0, 1, 1)]),
        ("---o", [(2.125, 3.0, 0, 3), (3.25, 3.0, 0, 2), (3.5, 3.0, 0, 1)]),
    ],
)
def test_n_steps_end_with_the_episode(ends: str, expected: list) -> None:
    (episode,) = numbered(ends).episodes
    transitions = [MultiStepTransitionPicker(3, 0.5)(episode, i) for i in range(episode.transition_count)]
    got = [(float(t.reward[0]), float(t.next_observation[0]), t.terminal, t.interval) for t in transitions]
    assert got == expected


IMAGES = np.arange(1, 7, dtype=np.uint8).reshape(6, 1, 1, 1) * np.ones((1, 1, 2, 2), np.uint8)


def test_frames_are_stacked_oldest_first_after_zeros() -> None:
    (episode,) = numbered("-----t", observations=IMAGES).episodes
    picked = [FrameStackTransitionPicker(3)(episode, i) for i in (0, 2, 5)]
    assert [t.observation[:, 0, 0].tolist() for t in picked] == [[0, 0, 1], [1, 2, 3], [4, 5, 6]]
    assert [t.next_observation[:, 0, 0].tolist() for t in picked] == [[0, 1, 2], [2, 3, 4], [0, 0, 0]]
    assert picked[0].observation.dtype == np.uint8


def test_frames_do_not_cross_episodes_and_vectors_are_stacked_too() -> None:
    second = numbered("--t--t", observations=IMAGES).episodes[1]
    assert FrameStackTransitionPicker(2)(second, 0).observation[:, 0, 0].tolist() == [0, 4]
    assert FrameStackTransitionPicker(2)(numbered("--t").episodes[0], 1).observation.tolist() == [0, 1]


def test_steps_after_which_no_goal_is_reached_have_one_return() -> None:
    failed, reached = numbered("--o--t", rewards=np.array([-1, -1, -1, -1, 0.0, -1])).episodes
    picker = SparseRewardTransitionPicker(failure_return=-100, step_reward=-1)
    assert picker(failed, 1).rewards_to_go.tolist() == picker(reached, 2).rewards_to_go.tolist() == [[-100]]
    assert picker(reached, 1).rewards_to_go.tolist() == [[0], [-1]]
    assert picker(failed, 1).rewards_to_go.dtype == np.float32


def test_pickers_accept_and_ignore_what_d3rlpy_does_and_reject_bad_numbers() -> None:
    with pytest.raises(ValueError, match="n_frames"):
        FrameStackTransitionPicker(0)
    with pytest.raises(ValueError, match="gamma"):
        MultiStepTransitionPicker(3, 1.5)
