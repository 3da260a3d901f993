import numpy as np
import pytest
from d3rlpy_parts import numbered, observed

from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset import EpisodeEndError, MDPDataset, ReplayBuffer

DISCRETE, CONTINUOUS = ActionSpace.DISCRETE, ActionSpace.CONTINUOUS


@pytest.mark.parametrize(
    ("ends", "rows", "transitions"),
    [
        ("---t", [4], [0, 1, 2, 3]),
        ("---o", [4], [0, 1, 2]),
        ("--t---", [3], [0, 1, 2]),  # rows after the last end are dropped
        ("t--o", [1, 3], [0, 1, 2]),  # a terminal row is a transition
        ("--toot", [3, 1], [0, 1, 2, 5]),  # a truncated row is none, and no episode
    ],
)
def test_ends_of_episodes(ends: str, rows: list[int], transitions: list[int]) -> None:
    dataset = numbered(ends)
    assert [episode.size() for episode in dataset.episodes] == rows and dataset.size() == len(rows)
    assert observed(dataset) == transitions


def test_the_return_counts_the_last_row_of_a_truncated_episode() -> None:
    assert [episode.compute_return() for episode in numbered("-t-o").episodes] == [0.5 + 1.5, 3.5 + 7.5]


def test_episodes_are_views_with_columns_of_rewards_and_actions() -> None:
    observations = np.zeros((4, 2), np.float32)
    (episode,) = numbered("---t", observations=observations).episodes
    assert np.shares_memory(episode.observations, observations)
    assert episode.actions.shape == episode.rewards.shape == (4, 1)
    assert (episode.actions.dtype, episode.rewards.dtype) == (np.int64, np.float64)


@pytest.mark.parametrize(
    ("actions", "space", "size"),
    [
        ([0, 1, 2, 3], DISCRETE, 4),
        ([0.0, 1.0, 0.5, 3.7], DISCRETE, 4),  # by the values of the first episode, of two rows
        ([0.0, 0.5, 1.0, 2.0], CONTINUOUS, 1),
        ([True, False, True, True], DISCRETE, 2),
        ([[0, 1], [1, 0], [2, 0], [0, 0]], DISCRETE, 3),
        ([[0, 0.5], [1, 0], [2, 0], [0, 0]], CONTINUOUS, 2),
    ],
)
def test_actions_are_discrete_by_the_values_of_the_first_episode(actions: list, space: ActionSpace, size: int) -> None:
    info = numbered("-t-t", actions=np.array(actions)).dataset_info
    assert (info.action_space, info.action_size) == (space, size)


def test_the_kind_and_the_number_of_actions_can_be_given() -> None:
    info = numbered("---t", action_space=CONTINUOUS, action_size=9).dataset_info
    assert (info.action_space, info.action_size) == (CONTINUOUS, 9)


def test_the_first_episode_decides_even_if_it_has_no_transition() -> None:
    assert numbered("o-t", actions=np.array([0.5, 1, 2])).dataset_info.action_space == CONTINUOUS


def test_signatures_name_dtypes_and_shapes_of_all_arrays() -> None:
    arrays = np.zeros((2, 3), np.float32), np.zeros((2, 4))
    signature = numbered("-t", observations=arrays).dataset_info.observation_signature
    assert signature.dtype == [np.float32, np.float64] and signature.shape == [(3,), (4,)]
    assert [part.shape for part in signature.sample()] == [(3,), (4,)]


@pytest.mark.parametrize("flags", [{"terminals": np.zeros(2)}, {"timeouts": np.array([0, 1])}])
def test_no_end_and_two_ends_in_a_row_are_rejected(flags: dict) -> None:
    with pytest.raises(AssertionError, match="terminals and timeouts"):
        numbered("-t", **flags)
    assert issubclass(EpisodeEndError, ValueError)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"actions": [0, 1]}, TypeError, "actions: got list"),
        ({"rewards": np.zeros(3)}, ValueError, r"observations\[0\]: got 2 rows, expected 3"),
        ({"terminals": np.zeros(5)}, ValueError, "terminals: got 5 rows"),
    ],
)
def test_lists_and_arrays_of_other_lengths_are_rejected(changes: dict, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        numbered("-t", **changes)


def test_flags_may_be_columns_and_a_dataset_is_a_replay_buffer() -> None:
    dataset = numbered("-t", terminals=np.array([[0], [1]]))
    assert isinstance(dataset, MDPDataset | ReplayBuffer) and dataset.transition_count == 2
