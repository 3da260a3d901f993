"""Some episodes as minibatches."""

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.replay_buffers import ReplayBuffer


def numbered(first: int) -> MDPDataset:
    """Two episodes of two transitions, whose observations are consecutive numbers."""
    observations = np.arange(first, first + 6, dtype=np.float32)[:, None]
    return next_row(observations, np.zeros((6, 1)), np.arange(6.0), np.array([0, 0, 1, 0, 0, 1]))


def test_transitions_are_those_of_the_batches_in_the_same_order() -> None:
    one, other = numbered(0), numbered(10)
    selection = Selection([one[1], other[0]])
    transitions = selection.transitions()
    assert [transition.observation.item() for transition in transitions] == [3, 4, 10, 11]
    assert selection.batch(np.arange(4)).obs.flatten().tolist() == [3, 4, 10, 11]
    assert transitions[1].prev_transition == transitions[0]
    assert transitions[1].next_transition is None


def test_transitions_are_made_when_they_are_looked_at() -> None:
    transitions = Selection(numbered(0)).transitions()
    assert len(transitions) == 4 and transitions[2] is not transitions[2]


def test_of_all_episodes_it_draws_what_the_dataset_draws() -> None:
    dataset = numbered(0)
    ours, theirs = (
        source.sample_batch(3, 0.9, rng=np.random.default_rng(0)) for source in (Selection(dataset.episodes), dataset)
    )
    assert ours.obs.tolist() == theirs.obs.tolist() and len(set(ours.obs.flatten().tolist())) == 3
    assert ours.discount.tolist() == theirs.discount.tolist()


def test_it_draws_from_its_own_episodes_alone() -> None:
    batch = Selection([numbered(0)[1], numbered(10)[0]]).sample_batch(4)
    assert sorted(batch.obs.flatten().tolist()) == [3, 4, 10, 11]
    with pytest.raises(ValueError, match="n: got 5, expected 1 to 4, the number of stored transitions"):
        Selection(numbered(0)).sample_batch(5)


def test_episodes_make_a_dataset_again() -> None:
    one, other = numbered(0), numbered(10)
    chosen = [other[1], one[1], one[0]]
    dataset = MDPDataset.from_episodes(chosen)
    for made, given in zip(dataset, chosen, strict=True):
        for name in ("observations", "actions", "rewards", "terminals"):
            assert np.array_equal(getattr(made, name), getattr(given, name)), name
    assert sorted(dataset.sample_batch(6).obs.flatten().tolist()) == [0, 1, 3, 4, 13, 14]
    assert len(ReplayBuffer.from_dataset(dataset)) == dataset.n_steps == 6


def test_a_dataset_of_episodes_of_one_shares_their_observations() -> None:
    whole = numbered(0)
    part = MDPDataset.from_episodes(whole[1:])
    assert np.shares_memory(part.observations, whole.observations) and part.observations.ravel().tolist() == [3, 4, 5]
    assert part.timeouts.tolist() == [False] * 3 and part.terminals.tolist() == [False, False, True]
    part.append(np.ones((2, 1)), np.zeros((2, 1)), np.ones(2), np.array([0, 1]))
    assert (len(part), len(whole)) == (2, 2)


def test_a_dataset_of_episodes_knows_the_actions_that_these_did_not_take() -> None:
    whole = next_row(np.zeros((6, 1)), [0, 1, 0, 0, 4, 0], np.zeros(6), [0, 0, 1, 0, 0, 1], discrete_action=True)
    part = MDPDataset.from_episodes(whole[:1])
    assert part.get_action_size() == part[0].get_action_size() == 5
    other = next_row(np.zeros((3, 1)), [0, 1, 0], np.zeros(3), [0, 0, 1], discrete_action=True)
    other.extend(part)
    assert other.get_action_size() == MDPDataset.from_episodes(part[:]).get_action_size() == 5


@pytest.mark.parametrize(
    "episodes, error, message",
    [
        ([], ValueError, "episodes: got no transitions"),
        (np.zeros((2, 3)), TypeError, r"episodes\[0\] is ndarray, expected an Episode"),
        ("data.h5", TypeError, "episodes is str, expected a dataset or a list of episodes"),
    ],
)
def test_what_is_no_episode_makes_no_dataset(episodes, error, message) -> None:
    with pytest.raises(error, match=message):
        MDPDataset.from_episodes(episodes)


def test_n_step_batches_of_one_view_leave_the_others_alone() -> None:
    n = 6
    obs, ended = np.arange(n, dtype=np.float32)[:, None], np.arange(n) == n - 1
    dataset = MDPDataset.from_arrays(obs, np.zeros((n, 1), np.float32), np.arange(n, dtype=float), ended)
    before, rows = Selection(dataset), np.arange(n)
    windows = dataset.batch(rows, 0.5, num_steps=3)
    assert windows.discount.tolist() == [0.125, 0.125, 0.125, 0.0, 0.0, 0.0]
    for view in (before, Selection(dataset.episodes), dataset):
        batch = view.batch(rows, 0.5)
        assert batch.discount.tolist() == [0.5] * 5 + [0.0] and batch.reward.tolist() == [*range(n)]
    assert before.batch(rows, 0.5, num_steps=2).discount.tolist() == [0.25] * 4 + [0.0] * 2
    assert dataset.batch(rows, 0.5, num_steps=3).discount.tolist() == windows.discount.tolist()
    assert set(dataset.sample_sequences(3, gamma=0.5).discount.tolist()) <= {0.5, 0.0}
