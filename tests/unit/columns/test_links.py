"""What comes after steps of a store."""

import math

import numpy as np
import pytest
import torch

from pfrl_like.dataset import MDPDataset
from pfrl_like.replay_buffers import ReplayBuffer


def more(buffer: ReplayBuffer, first: int, count: int) -> None:
    """Append steps of episodes of five, whose rewards are consecutive numbers."""
    for i in range(first, first + count):
        obs = np.float32([i]), np.float32([i + 1])
        buffer.append(obs[0], 0, float(i), obs[1], is_state_terminal=i % 5 == 4)


def rewards_after(buffer: ReplayBuffer, n: int, horizon: float) -> dict[float, list[float]]:
    """For the reward of each item of a draw those of the steps after it, found by their links."""
    batch = buffer.sample_batch(n, continuation=horizon)
    continuation, found = batch.continuation, {}
    assert continuation is not None
    assert len({*continuation.reward.tolist()}) == len(continuation.reward)  # each step once
    assert torch.equal(continuation.cut, ((continuation.after < 0) & (continuation.discount > 0)).nonzero().flatten())
    for own, place in zip(batch.reward.tolist(), continuation.first.tolist(), strict=True):
        found[own] = []
        while place >= 0:
            found[own].append(continuation.reward[place].item())
            place = int(continuation.after[place])
    return found


@pytest.mark.parametrize("horizon", [1, 2, math.inf])
def test_steps_after_an_item_are_those_of_its_episode_in_every_draw(horizon: float) -> None:
    buffer = ReplayBuffer(rng=np.random.default_rng(0))
    for first in range(0, 60, 12):  # the store grows between draws, and an episode runs
        more(buffer, first, 12)
        for _ in range(3):
            for own, found in rewards_after(buffer, 6, horizon).items():
                last = min(own // 5 * 5 + 4, first + 11)
                whole = np.arange(own + 1, last + 1).tolist()
                least = int(min(horizon, len(whole)))
                assert found == whole[: len(found)] and len(found) >= least  # steps have those of others, too


def test_a_draw_does_not_look_at_the_whole_store() -> None:
    buffer = ReplayBuffer(rng=np.random.default_rng(0))
    more(buffer, 0, 50)
    rewards_after(buffer, 4, math.inf)
    (places,) = buffer._columns.spare_places
    for _ in range(3):
        rewards_after(buffer, 4, math.inf)
    assert len(buffer._columns.spare_places) == 1 and buffer._columns.spare_places[0] is places
    assert (places == -1).all()


@pytest.mark.parametrize("continuation", [-1, math.nan])
def test_a_number_of_steps_that_cannot_be_is_refused(continuation: float) -> None:
    buffer = ReplayBuffer()
    more(buffer, 0, 10)
    column = np.zeros((10, 1), np.float32)
    dataset = MDPDataset.from_arrays(column, column, np.arange(10.0), np.arange(10) % 5 == 4)
    for source in (buffer, dataset):
        with pytest.raises(ValueError, match="continuation: got .*, expected a number of steps"):
            source.sample_batch(2, continuation=continuation)
    with pytest.raises(ValueError, match="continuation: got"):
        dataset.sample_sequences(2, continuation=continuation)
