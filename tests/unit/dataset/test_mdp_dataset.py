from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from dataset_parts import next_row
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from pfrl_like.dataset import Episode, MDPDataset, Transition, TransitionMiniBatch
from pfrl_like.errors import NonFiniteError


def numbered(lengths: list[int], terminated: list[bool] | None = None, **options) -> MDPDataset:
    """Episodes of so many rows; the observation is the row's number, the action its negative, the reward its double."""
    n = sum(lengths)
    ends = np.cumsum(lengths) - 1
    terminals, timeouts = np.zeros(n), np.zeros(n)
    for end, terminal in zip(ends, terminated or [True] * len(lengths), strict=True):
        (terminals if terminal else timeouts)[end] = 1
    row = np.arange(n, dtype=np.float32)
    return next_row(row[:, None], -row[:, None], 2.0 * row, terminals, timeouts=timeouts, **options)


def test_episodes_are_a_list() -> None:
    dataset = numbered([3, 1, 2])
    assert len(dataset) == dataset.size() == len(list(dataset)) == 3
    assert [len(episode) for episode in dataset] == [2, 0, 1]
    assert dataset[-1] is dataset.episodes[2] and len(dataset[:2]) == 2
    assert dataset.get_observation_shape() == (1,) and dataset.get_action_size() == 1
    assert dataset[0].observations.ravel().tolist() == [0, 1, 2] and dataset[0].rewards.tolist() == [0, 2, 4]
    assert dataset[2].actions.ravel().tolist() == [-4, -5] and dataset[2].terminals.tolist() == [False, True]
    with pytest.raises(IndexError):
        dataset[3]


def test_transitions_are_linked_within_their_episode() -> None:
    first, last = numbered([3, 2])[0]
    assert first.prev_transition is None and first.next_transition == last
    assert last.prev_transition == first and last.next_transition is None
    assert (first.terminal, last.terminal) == (0, 1)
    assert first.next_action.tolist() == [-1] and last.next_observation.tolist() == [2]
    assert last.get_observation_shape() == (1,) and last.get_action_size() == 1


def test_transitions_show_what_they_hold() -> None:
    assert repr(numbered([3])[0][1]) == (
        "Transition(observation [1.], action [-1.], next_reward 4., next_observation [2.], terminal 1)"
    )
    observations = {"at": (np.arange(2), np.arange(4).reshape(2, 2)), "image": np.zeros((2, 3, 8, 8), np.uint8)}
    dataset = next_row(observations, np.arange(2), np.array([0, 0.5]), np.zeros(2), discrete_action=True)
    image = "'image': ndarray of shape (3, 8, 8), uint8"
    assert repr(dataset[0][0]) == (
        f"Transition(observation {{'at': (0, [0, 1]), {image}}}, action 0, next_reward 0.5, "
        f"next_observation {{'at': (1, [2, 3]), {image}}}, terminal 0)"
    )
    own = Transition((1,), 1, np.array([0.25]), np.array([1]), 0, np.array([0.5]), np.array([2]), -1, 0)
    assert "observation [0.25], action [1], next_reward -1.," in repr(own)
    own = Transition((1, 2), 1, np.array([[1, 2]]), np.array([1]), 0, np.array([[1, 2]]), np.array([2]), -1, 0)
    assert "observation ndarray of shape (1, 2), int64," in repr(own)


def test_arrays_are_not_copied() -> None:
    observations = np.zeros((4, 2), np.float32)
    dataset = next_row(observations, np.zeros((4, 1)), np.zeros(4), np.array([0, 1, 0, 1]))
    assert np.shares_memory(dataset.observations, observations)
    assert np.shares_memory(dataset[1].observations, observations)
    assert np.shares_memory(dataset[1][0].observation, observations)


def test_discrete_actions_are_counted_from_0() -> None:
    dataset = next_row(np.zeros((3, 1)), np.array([0, 3, 1]), np.zeros(3), np.array([0, 0, 1]), discrete_action=True)
    assert dataset.is_action_discrete() and dataset.get_action_size() == 4
    assert dataset[0][0].action == 0 and isinstance(dataset[0][1].action, int)
    assert dataset.sample_batch(2).action.dtype == torch.int64
    assert "action" not in dataset.compute_stats()


def test_transitions_of_ones_own_make_the_same_minibatch() -> None:
    images = np.random.default_rng(0).integers(0, 255, (4, 3, 8, 8), np.uint8)
    dataset = next_row(images, np.arange(4.0)[:, None], np.arange(4.0), np.array([0, 0, 0, 1]))
    own: list[Transition] = []
    for t in dataset[0]:
        values = (t.observation, t.action, t.reward, t.next_observation, t.next_action, t.next_reward, t.terminal)
        own.append(Transition((3, 8, 8), 1, *values, prev_transition=own[-1] if own else None))
    assert own[0].next_transition is own[1] and own[2].prev_transition is own[1]
    one, other = TransitionMiniBatch(dataset[0].transitions, 2), TransitionMiniBatch(own, n_frames=2)
    names = "observations next_observations actions next_actions rewards next_rewards terminals"
    for name in names.split():
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert other.size() == len(other) == 3 and other.rewards.shape == (3, 1) and other.transitions is own


def test_an_episode_can_be_made_of_arrays() -> None:
    episode = Episode((2,), 3, np.zeros((4, 2)), np.array([0, 1, 2, 0]), np.array([5.0, 1, 1, 1]))
    assert len(episode) == episode.size() == 3 and episode.compute_return() == 3
    assert episode[2].terminal == 1 and episode.get_action_size() == 3 and episode.get_observation_shape() == (2,)
    assert Episode((2,), 3, np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(2), np.zeros(2))[0].terminal == 0
    with pytest.raises(ValueError, match="terminals"):
        Episode((2,), 3, np.zeros((4, 2)), np.zeros((4, 3)), np.zeros(4), np.array([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="observations"):
        Episode((3,), 3, np.zeros((4, 2)), np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(ValueError, match="action_size"):
        Episode((2,), 2, np.zeros((4, 2)), np.zeros((4, 3)), np.zeros(4))


def test_append_adds_episodes_and_leaves_views_alone() -> None:
    dataset = numbered([2, 3])
    before = dataset[0]
    dataset.append(np.full((2, 1), 9.0), np.zeros((2, 1)), np.array([0.0, 5.0]), np.array([0, 1]))
    assert len(dataset) == 3 and dataset.observations.ravel().tolist() == [0, 1, 2, 3, 4, 9, 9]
    assert dataset.observations.dtype == np.float32 and dataset[2].compute_return() == 5
    assert before.observations.ravel().tolist() == [0, 1]
    dataset.extend(numbered([4]))
    dataset.extend(dataset)
    assert [len(episode) for episode in dataset] == [1, 2, 1, 3] * 2
    assert dataset.rewards.tolist() == [0, 2, 4, 6, 8, 0, 5, 0, 2, 4, 6] * 2


def test_what_does_not_fit_is_not_appended() -> None:
    dataset = numbered([2])
    with pytest.raises(ValueError, match=r"observations: got shape \(2,\)"):
        dataset.append(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="actions: got shape"):
        dataset.append(np.zeros((2, 1)), np.zeros((2, 2)), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="discrete"):
        dataset.extend(next_row(np.zeros((2, 1)), np.zeros(2), np.zeros(2), np.zeros(2), discrete_action=True))
    assert len(dataset) == 1


def test_a_list_of_episodes_extends_a_dataset() -> None:
    dataset = numbered([2, 3, 4])
    dataset.extend(dataset[1:])
    assert [len(episode) for episode in dataset] == [1, 2, 3, 2, 3]
    assert dataset[4].observations.ravel().tolist() == [5, 6, 7, 8]
    with pytest.raises(TypeError, match=r"episodes\[0\] is int, expected an Episode"):
        dataset.extend([1])
    assert len(dataset) == 5


@pytest.mark.parametrize("low, high, expected", [(None, 3, [0, 2, 3]), (1, None, [1, 2, 4]), (1, 3, [1, 2, 3])])
def test_rewards_are_clipped_with_open_ends(low, high, expected) -> None:
    dataset = numbered([3])
    dataset.clip_reward(low, high)
    assert dataset.rewards.tolist() == expected
    assert dataset[0].compute_return() == sum(expected[1:])


@pytest.mark.parametrize(
    "low, high, error, message",
    [
        (float("nan"), 1, ValueError, "low is nan"),
        (None, float("nan"), ValueError, "high is nan"),
        (float("inf"), None, ValueError, "low is inf"),
        (3, 1, ValueError, "low: got 3, expected at most high=1"),
        ("a", None, TypeError, r"low is 'a' \(str\), expected a finite number"),
        (0, [1], TypeError, r"high is \[1\]"),
        (np.zeros(2), None, TypeError, r"low is array\(\[0., 0.\]\)"),
    ],
)
def test_bounds_that_leave_no_reward_are_refused(low, high, error, message) -> None:
    dataset = numbered([3])
    with pytest.raises(error, match=message):
        dataset.clip_reward(low, high)
    dataset.clip_reward(-float("inf"), float("inf"))
    assert dataset.rewards.tolist() == [0, 2, 4]


def test_statistics_are_those_of_the_arrays() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(50, 3)), rng.normal(size=(50, 2)), rng.normal(size=50), rng.random(50) < 0.1]
    dataset = next_row(*arrays)
    stats = dataset.compute_stats()
    returns = np.array([episode.compute_return() for episode in dataset])
    for name, values in {"observation": arrays[0], "action": arrays[1], "reward": arrays[2], "return": returns}.items():
        for function in ("mean", "std", "min", "max"):
            assert stats[name][function] == pytest.approx(getattr(values, function)(0)), (name, function)


ROWS = [np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(3), np.array([0, 0, 1])]
BAD = [
    (0, np.array([[0], [np.nan], [0]]), NonFiniteError, "observations: got .* in row 1"),
    (0, np.zeros((0, 1)), ValueError, "observations: got an empty array"),
    (0, "text", ValueError, "observations"),
    (0, np.array([[0], [None], [0]]), ValueError, "observations: got ndarray of object, expected arrays of real"),
    (0, np.zeros((3, 1), complex), ValueError, r"observations: got .* complex128, expected arrays of real numbers"),
    (0, {"a": np.zeros((3, 1), complex)}, ValueError, "observations: .* expected arrays of real numbers"),
    (1, np.zeros((2, 1)), ValueError, "actions: got 2 rows, expected 3"),
    (1, np.zeros(3), ValueError, "discrete_action=True"),
    (1, np.zeros((3, 1), complex), ValueError, "actions: got .* complex128, expected an array of real numbers"),
    (2, np.zeros(3, complex), ValueError, "rewards: got .* complex128, expected an array of real numbers"),
    (2, np.array([0, 0, np.inf]), NonFiniteError, "rewards: got inf in row 2"),
    (2, np.zeros(4), ValueError, "rewards: got shape"),
    (3, np.array([0, 2, 1]), ValueError, "terminals: got 2 in row 1"),
    (3, np.zeros((3, 2)), ValueError, "terminals: got shape"),
    (3, np.array(["n", "n", "y"]), ValueError, "terminals: got ndarray of <U1, expected an array of real numbers"),
]


@pytest.mark.parametrize("place, value, error, message", BAD)
def test_bad_arrays_are_refused_with_their_row(place, value, error, message) -> None:
    arrays = [*ROWS[:place], value, *ROWS[place + 1 :]]
    with pytest.raises(error, match=message):
        next_row(*arrays)


@pytest.mark.parametrize("actions", [np.array([0, 1.5, 0]), np.array([0, -1, 0]), np.zeros((3, 2))])
def test_actions_that_are_no_indices_are_refused(actions) -> None:
    with pytest.raises(ValueError, match="actions"):
        next_row(ROWS[0], actions, ROWS[2], ROWS[3], discrete_action=True)


def test_a_row_ends_an_episode_in_one_way() -> None:
    with pytest.raises(ValueError, match="both are set in row 2: pass `timeouts & ~terminals`"):
        next_row(*ROWS, timeouts=np.array([0, 0, 1]))


def test_ends_of_episodes_in_the_place_of_a_flag_are_told_the_argument() -> None:
    with pytest.raises(TypeError, match="discrete_action is an array, expected True.* timeouts= or episode_terminals="):
        next_row(*ROWS, np.array([0, 0, 1]))


def test_next_observations_are_real_numbers() -> None:
    with pytest.raises(ValueError, match="next_observations: got .* complex128, expected arrays of real numbers"):
        MDPDataset.from_arrays(*ROWS, None, np.zeros((3, 1), complex))


def test_nested_observations_are_gathered() -> None:
    observations = {"a": np.arange(4.0), "b": (np.arange(8).reshape(4, 2),)}
    dataset = next_row(observations, np.zeros((4, 1)), np.arange(4.0), np.array([0, 1, 0, 1]))
    assert dataset.get_observation_shape() == {"a": (), "b": ((2,),)}
    assert dataset[1][0].next_observation["b"][0].tolist() == [6, 7]
    batch = dataset.batch(np.array([1]))
    assert batch.obs["a"].tolist() == [2] and batch.next_obs["b"][0].tolist() == [[6, 7]]
    dataset.extend(dataset)
    assert dataset[3][0].observation["a"] == 2


def test_check_names_what_looks_wrong() -> None:
    observations = np.array([[0.0, 7], [1, 7], [0, 7], [1, 7], [5, 7]])
    dataset = next_row(observations, np.array([[0.0], [2], [0], [2], [1]]), np.ones(5), np.array([0, 1, 0, 1, 1]))
    box = gymnasium.spaces.Box(-1, 1, (1,))
    found = {(finding.kind, finding.where): finding.places.tolist() for finding in dataset.check(action_space=box)}
    assert found == {
        ("constant", "observations"): [1],
        ("outside", "actions"): [1, 3],
        ("duplicate", "episodes"): [1],
        ("empty", "episodes"): [2],
    }
    observations[3, 0] = np.nan
    assert ("nan", [3]) in [(finding.kind, finding.places.tolist()) for finding in dataset.check()]
    assert "observations contain NaN or infinity in these rows of dataset.observations: 3 (episode 1, step 1)" in [
        finding.message for finding in dataset.check()
    ]
    with pytest.raises(ValueError, match=r"action_space: got Discrete\(2\), which is discrete"):
        dataset.check(action_space=gymnasium.spaces.Discrete(2))
    with pytest.raises(ValueError, match=r"observation_space: got Box.*, expected a Box of shape \(2,\), or Discrete"):
        dataset.check(observation_space=box)


def test_nested_observations_are_checked_part_by_part() -> None:
    observations = {"a": np.array([0.0, 1, 0, 1, 7]), "b": (np.eye(5)[:, :1], np.array([0, 1, 0, 1, 2]))}
    observations["b"][0][2] = 1.0
    dataset = next_row(observations, np.array([[0.0], [2], [0], [2], [1]]), np.ones(5), np.array([0, 1, 0, 1, 1]))
    space = Dict({"a": Box(0, 1, ()), "b": Tuple([Box(0, 1, (1,)), Discrete(2)])})
    found = {(finding.kind, finding.where): finding.places.tolist() for finding in dataset.check(space)}
    assert found == {
        ("outside", "observations['a']"): [4],
        ("outside", "observations['b'][1]"): [4],
        ("duplicate", "episodes"): [1],
        ("empty", "episodes"): [2],
    }
    dataset.table.obs.leaves[0].data[3] = np.nan
    assert ("observations['a']", [3]) in [(finding.where, finding.places.tolist()) for finding in dataset.check()]
    for wrong, message in (
        (Dict({"a": Box(0, 1, ())}), r"observation_space: got Dict.*, expected a Dict of \['a', 'b'\]"),
        (Dict({"a": Box(0, 1, ()), "b": Box(0, 1, ())}), r"observation_space\['b'\]: got .*a Tuple of \[0, 1\]"),
        (Box(0, 1, ()), "observation_space: got Box.*, expected a Dict"),
        (Dict({"a": Box(0, 1, (3,)), "b": space["b"]}), r"observation_space\['a'\]: got .*a Box of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            dataset.check(wrong)


def test_rows_outside_a_space_are_told_from_actions() -> None:
    dataset = next_row(np.arange(4.0)[:, None], [0, 1, 5, 0], np.ones(4), [0, 0, 0, 1], discrete_action=True)
    (finding,) = dataset.check(action_space=gymnasium.spaces.Discrete(2))
    assert finding.message == "actions lie outside the space in these rows of dataset.actions: 2 (episode 0, step 2)"


def test_rows_that_look_wrong_are_found_by_episode_and_step() -> None:
    actions = np.zeros((100, 1))
    # of ten episodes of ten steps, whose last observations make rows of their own
    actions[[20, 95, 96, 97, 98, 99]] = 9
    dataset = MDPDataset.from_arrays(np.arange(100.0)[:, None], actions, np.ones(100), np.arange(100) % 10 == 9)
    (finding,) = dataset.check(action_space=gymnasium.spaces.Box(-1, 1, (1,)))
    assert finding.steps is not None and finding.steps.tolist() == [[2, 0], *([9, t] for t in range(5, 10))]
    assert [dataset[i].actions[t].item() for i, t in finding.steps] == [9] * 6
    assert dataset.actions[finding.places].tolist() == [[9]] * 6
    assert "dataset.actions: 22 (episode 2, step 0), 104 (episode 9, step 5), 105" in finding.message
    assert finding.message.endswith("107 (episode 9, step 8) and 1 more")


def test_a_dataset_and_its_episodes_tell_what_they_are() -> None:
    dataset = numbered([3, 2], [True, False])
    assert repr(dataset) == (
        "MDPDataset(2 episodes, 3 transitions, observations float32[1] in memory, continuous float32 actions of size 1)"
    )
    assert repr(dataset.episodes) == (
        "[Episode(2 transitions, return 6, terminated), Episode(1 transitions, return 8, truncated)]"
    )


def test_sampling_is_repeatable_and_without_repetition() -> None:
    dataset = numbered([30, 30])
    draws = [dataset.sample_batch(20, rng=np.random.default_rng(3)).index.tolist() for _ in range(2)]
    assert draws[0] == draws[1] and len(set(draws[0])) == 20
    assert sorted(dataset.sample_batch(58).obs.ravel().tolist()) == [*range(29), *range(30, 59)]
    minibatch = dataset.sample(4, rng=np.random.default_rng(3))
    assert minibatch.observations.ravel().tolist() == [t.observation[0] for t in minibatch.transitions]
    with pytest.raises(ValueError, match="expected 1 to 58"):
        dataset.sample_batch(59)


def test_double_precision_becomes_single_in_a_batch() -> None:
    batch = next_row(*ROWS).sample_batch(2, continuation=np.inf)
    assert {batch.obs.dtype, batch.action.dtype, batch.next_obs.dtype, batch.reward.dtype} == {torch.float32}
    assert batch.continuation.next_obs.dtype == torch.float32


@pytest.mark.parametrize(
    ("error", "options"),
    [
        *((ValueError, {"num_steps": 0}), (ValueError, {"n_frames": 0})),
        *((TypeError, {"num_steps": 1.5}), (TypeError, {"n_frames": 2.0}), (TypeError, {"n_frames": True})),
    ],
    ids=str,
)
def test_what_is_no_count_is_refused_by_name(error: type[Exception], options: dict[str, Any]) -> None:
    (name,) = options
    dataset = numbered([5])
    with pytest.raises(error, match=f"{name} is .*, expected an integer from 1 on"):
        dataset.sample_batch(2, **options)
    if name == "n_frames":
        with pytest.raises(error, match="n_frames is "):
            dataset.sample(2, **options)
        with pytest.raises(error, match="n_frames is "):
            TransitionMiniBatch(dataset[0].transitions, **options)


@pytest.mark.parametrize(("error", "max_len"), [(ValueError, 0), (TypeError, 2.5)])
def test_sequences_have_a_whole_number_of_steps(error: type[Exception], max_len: Any) -> None:
    with pytest.raises(error, match="max_len is .*, expected an integer from 1 on, or None"):
        numbered([5]).sample_sequences(2, max_len)
