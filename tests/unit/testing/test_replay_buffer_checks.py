"""`check_replay_buffer` finds buffers that break a contract, and says which."""

import functools
import random
from typing import Any

import numpy as np
import pytest

from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.testing import check_replay_buffer


class TakesAnything(ReplayBuffer):
    def __init__(self, capacity: Any = None, **anything: Any) -> None:
        super().__init__(capacity)


class JoinsEpisodes(ReplayBuffer):
    def __init__(self, capacity: Any = None) -> None:
        super().__init__(capacity, num_steps=3)

    def stop_current_episode(self, env_id: Any = 0) -> None:
        pass


class JoinsEnvironments(ReplayBuffer):
    def __init__(self, capacity: Any = None) -> None:
        super().__init__(capacity, num_steps=3)

    def append(self, *arguments: Any, env_id: Any = 0, **keywords: Any) -> None:
        super().append(*arguments, **keywords)


class DrawsTwice(ReplayBuffer):
    def _draw(self, n: int) -> Any:
        return np.random.randint(len(self), size=n) + self._first, None


class DrawsByRandom(ReplayBuffer):
    def sample(self, num_experiences: int) -> Any:
        return self._items(np.array(random.sample(range(self._first, self._next), num_experiences), np.int64))


class DrawsOtherwise(ReplayBuffer):
    def _draw(self, n: int) -> Any:
        index, weight = super()._draw(n)
        return index[::-1], weight


class GivesFewer(ReplayBuffer):
    def sample(self, num_experiences: int) -> Any:
        return super().sample(min(num_experiences, len(self)))


class NeverFull(ReplayBuffer):
    def _evict(self) -> None:
        pass

    def append(self, *arguments: Any, **keywords: Any) -> None:
        capacity, self._capacity = self._capacity, None
        super().append(*arguments, **keywords)
        self._capacity = capacity


class ForgetsTheCutOff(ReplayBuffer):
    def append_batch(
        self, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, truncated: Any, *a: Any, **k: Any
    ) -> None:
        super().append_batch(
            obs, action, reward, next_obs, np.asarray(terminated) | np.asarray(truncated), truncated, *a, **k
        )


class LoadsNothing(ReplayBuffer):
    def load(self, filename: Any) -> None:
        pass


class KeepsPrioritiesOfNothing(ReplayBuffer):
    def update_priorities(self, index: Any, td_error: Any) -> None:
        pass


class Indifferent(PrioritizedReplayBuffer):
    def __init__(self, capacity: Any = None) -> None:
        super().__init__(capacity, alpha=0.0)


class WeighsWrongly(PrioritizedReplayBuffer):
    def _draw(self, n: int) -> Any:
        index, weight = super()._draw(n)
        return index, 1 / weight  # type: ignore[operator]


class LongSequences(EpisodicReplayBuffer):
    def sample_episodes(self, n_episodes: int, max_len: int | None = None) -> Any:
        return super().sample_episodes(n_episodes)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (TakesAnything, "the constructor accepted the unknown keyword not_an_argument"),
        (JoinsEpisodes, "len is .* after 20 steps of ended episodes|gave items with the steps"),
        (JoinsEnvironments, "sampling everything gave items with the steps"),
        (DrawsTwice, "sampling everything gave items with the steps"),
        (DrawsOtherwise, "sample_batch and sample differ: obs"),
        (GivesFewer, "sample returned 1 of 0 items, expected a ValueError"),
        (NeverFull, r"len is \d+ of a buffer made with capacity=10"),
        (ForgetsTheCutOff, "discount"),
        (LoadsNothing, "len is 20 before saving and 0 after loading"),
        (KeepsPrioritiesOfNothing, "update_priorities did nothing in a buffer without priorities"),
        (Indifferent, "the only item of 20 with a large error was sampled .* times in 200 samples"),
        (WeighsWrongly, "the item with the largest error has the weight"),
        (LongSequences, r"\d steps were sampled with max_len=3"),
    ],
)
def test_a_broken_contract_is_named(make: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_replay_buffer(make)


def test_n_step_sums_are_computed_once_more() -> None:
    class UsesGammaOnce(ReplayBuffer):
        def sample_batch(self, n: int, gamma: float = 1.0, device: Any = "cpu") -> Any:
            batch = super().sample_batch(n, gamma, device)
            return batch.replace(discount=(batch.discount > 0) * gamma)

    with pytest.raises(AssertionError, match="sample_batch and sample differ: discount"):
        check_replay_buffer(functools.partial(UsesGammaOnce, num_steps=3))


def test_random_streams_are_left_as_they_were() -> None:
    np.random.seed(5)
    check_replay_buffer(DrawsByRandom)
    drawn = np.random.rand()
    np.random.seed(5)
    assert drawn == np.random.rand()
