"""Shapes of actions in minibatches."""

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset, Transition, TransitionMiniBatch


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
