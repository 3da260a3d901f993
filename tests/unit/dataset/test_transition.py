"""Shapes of actions in minibatches."""

import copy

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import Episode, MDPDataset, Transition, TransitionMiniBatch, compute_lambda_return
from pfrl_like.dataset.selection import batch_of


def dataset(discrete: bool) -> MDPDataset:
    actions = np.array([0, 2, 1, 0]) if discrete else np.float32([[0], [2], [1], [0]])
    rows = np.arange(4.0)[:, None], actions, np.arange(4.0), [0, 0, 0, 1]
    return next_row(*rows, discrete)


def own(stored: Transition) -> Transition:
    values = (stored.observation, stored.action, stored.reward, stored.next_observation, stored.next_action)
    return Transition((1,), 3, *values, stored.next_reward, stored.terminal)


@pytest.mark.parametrize("make", [lambda each: each, own], ids=["stored", "own"])
def test_discrete_actions_of_a_minibatch_are_numbers(make) -> None:
    batch = TransitionMiniBatch([make(step) for step in dataset(True)[0]])
    assert batch.actions.tolist() == [0, 2, 1] and batch.next_actions.tolist() == [2, 1, 0]
    assert batch.actions.dtype.kind == "i"
    assert batch.rewards.shape == batch.next_rewards.shape == batch.terminals.shape == (3, 1)
    batch = TransitionMiniBatch([make(step) for step in dataset(False)[0]])
    assert batch.actions.tolist() == [[0], [2], [1]] and batch.next_actions.tolist() == [[2], [1], [0]]


def test_sampled_minibatches_and_single_steps_have_the_documented_actions() -> None:
    assert dataset(True).sample(2).actions.shape == (2,) and dataset(False).sample(2).actions.shape == (2, 1)
    (episode,) = dataset(True)
    assert episode[1].action == 2 and episode.actions.shape == dataset(True).actions.shape == (4,)


def test_a_number_that_is_continuous_stays_a_vector() -> None:
    step = Transition((1,), 1, np.zeros(1), 0.5, 0.0, np.ones(1), 0.25, 1.0, 0)
    batch = TransitionMiniBatch([step, step])
    assert batch.actions.tolist() == [[0.5], [0.5]] and batch.next_actions.tolist() == [[0.25], [0.25]]


def with_two_ends(convention: str) -> list[Transition]:
    """The transitions of nine rows whose observation is their index, and whose reward is 10 more."""
    rows = np.arange(9.0)[:, None], np.array([0, 1, 2] * 3), np.arange(9) + 10.0, np.eye(9)[3]
    data = MDPDataset(*rows, episode_terminals=np.eye(9)[3] + np.eye(9)[6], reward_convention=convention)
    return [step for episode in data for step in episode]


def linked(steps: list[Transition]) -> list[Transition]:
    """Transitions of the user's own, linked by hand as `steps` are."""
    made = [own(step) for step in steps]
    for one, later in zip(made, made[1:], strict=False):
        if one.next_observation == later.observation:
            one.next_transition, later.prev_transition = later, one
    return made


@pytest.mark.parametrize("make", [list, linked], ids=["stored", "own"])
def test_rewards_of_several_steps_are_summed_as_d3rlpy_0_90_sums_them(make) -> None:
    batch = TransitionMiniBatch(make(with_two_ends("next_row")), n_steps=2, gamma=0.5)
    assert batch.rewards.ravel().tolist() == [10, 11, 12, 14, 15]
    assert batch.next_rewards.ravel().tolist() == [17, 18.5, 13, 23, 16]
    assert batch.next_observations.ravel().tolist() == [2, 3, 3, 6, 6]
    assert batch.next_actions.tolist() == [2, 0, 0, 0, 0]
    assert batch.terminals.ravel().tolist() == [0, 1, 1, 0, 0]
    assert batch.n_steps.tolist() == [[2], [2], [1], [2], [1]]


def test_rewards_of_several_steps_are_summed_as_d3rlpy_1_1_sums_them() -> None:
    batch = TransitionMiniBatch(with_two_ends("same_row"), n_steps=2, gamma=0.5)
    assert batch.rewards.ravel().tolist() == [15.5, 17, 18.5, 13, 21.5, 15]
    assert batch.terminals.ravel().tolist() == [0, 0, 1, 1, 0, 0]
    assert batch.n_steps.ravel().tolist() == [2, 2, 2, 1, 2, 1]
    ended = batch.terminals.ravel() == 1  # d3rlpy has zeros there, this library the last observation
    assert batch.next_observations[~ended].ravel().tolist() == [2, 3, 6, 6]


def test_targets_discount_the_steps_that_were_summed() -> None:
    steps = with_two_ends("next_row")
    batch = batch_of(TransitionMiniBatch(steps, n_steps=2, gamma=0.5), 0.5, "cpu", True, continuation=1)
    assert batch.discount.tolist() == [0.25, 0, 0, 0.25, 0.5] and batch.reward.tolist() == [17, 18.5, 13, 23, 16]
    assert batch.continuation.first.tolist() == [0, -1, -1, -1, -1]  # the third step follows the first two
    with pytest.raises(ValueError, match="n_steps is 0"):
        TransitionMiniBatch(steps, n_steps=0)


def test_links_of_stored_transitions_can_be_set() -> None:
    first, second, *_ = with_two_ends("next_row")
    assert first.next_transition == second and second.prev_transition == first
    first.next_transition = second.prev_transition = None
    assert first.next_transition is None and copy.deepcopy(second).prev_transition is None
    assert copy.deepcopy(with_two_ends("next_row")[0]).next_transition.observation == [1]


def test_lambda_returns_are_those_of_d3rlpy_0_90() -> None:
    class Values:
        def predict_value(self, x: np.ndarray) -> np.ndarray:
            return x[:, 0] * 0.1

    steps = with_two_ends("next_row")
    expected = [26.423118743896488, 21.39600067138672, 13.0, 26.998799705505373, 16.540000915527344]
    assert [compute_lambda_return(step, Values(), 0.9, 0.8) for step in steps] == pytest.approx(expected)
    table = steps[0].table
    of_episodes = [compute_lambda_return(Episode.of_table(table, i, 3), Values(), 0.9, 0.8, 1) for i in range(2)]
    assert np.concatenate(of_episodes) == pytest.approx(expected)
