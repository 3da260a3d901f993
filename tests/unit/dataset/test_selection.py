"""Some episodes as minibatches."""

import numpy as np
import pytest

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection


def numbered(first: int) -> MDPDataset:
    """Two episodes of two transitions, whose observations are consecutive numbers."""
    observations = np.arange(first, first + 6, dtype=np.float32)[:, None]
    return MDPDataset(observations, np.zeros((6, 1)), np.arange(6.0), np.array([0, 0, 1, 0, 0, 1]))


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
    with pytest.raises(ValueError, match="n: got 5, expected 1 to 4, the transitions held"):
        Selection(numbered(0)).sample_batch(5)
