"""Priorities and importance weights by hand (Schaul et al. 2016, arXiv:1511.05952, eq. 1 and section 3.4).

The four errors 0.06, 0.25, 0.49, 1.2 with eps = 0, alpha = 0.5 and error_min = 0.16, error_max = 1 give the priorities
sqrt(0.16, 0.25, 0.49, 1) = 0.4, 0.5, 0.7, 1, of sum 2.6.
"""

import numpy as np
import pytest

from pfrl_like.replay_buffers import PrioritizedEpisodicReplayBuffer, PrioritizedReplayBuffer

ERRORS = [0.06, 0.25, 0.49, -1.2]
PRIORITIES = [0.4, 0.5, 0.7, 1.0]
SUM = 2.6
SETTINGS = {"alpha": 0.5, "eps": 0.0, "error_min": 0.16, "error_max": 1.0, "betasteps": None}


def transitions(**kwargs):
    """A buffer of the observations 0, 1, 2, 3 with the errors above."""
    buffer = PrioritizedReplayBuffer(**SETTINGS, **kwargs)
    for i in range(4):
        buffer.append([float(i)], 0, 0.0, [i + 1.0])
    batch = buffer.sample_batch(4)
    buffer.update_priorities(batch.index, np.array(ERRORS)[batch.index])
    return buffer


def episodes(**kwargs):
    """A buffer of four episodes of one to four steps with the observations 0, 1, 2, 3 and the errors above."""
    buffer = PrioritizedEpisodicReplayBuffer(**SETTINGS, **kwargs)
    for i in range(4):
        for _ in range(i + 1):
            buffer.append([float(i)], 0, 0.0, [float(i)])
        buffer.stop_current_episode()
    batch = buffer.sample_sequences(4)
    buffer.update_priorities(batch.index, np.array(ERRORS)[batch.index])
    return buffer


def weights_by_observation(buffer, n=4):
    return {item[0]["state"][0]: item[0]["weight"] for item in buffer.sample(n)}


def test_priorities_are_powers_of_clipped_absolute_errors():
    assert transitions().priority_from_errors(ERRORS) == pytest.approx(PRIORITIES)


def test_eps_is_added_after_clipping():
    """(min(|-3|, 1) + 0.21)**0.5 = 1.1"""
    buffer = PrioritizedReplayBuffer(alpha=0.5, eps=0.21)
    assert buffer.priority_from_errors([-3.0]) == pytest.approx([1.1])


def test_weights_without_normalization():
    """(4 * p / 2.6)**-1"""
    weights = weights_by_observation(transitions(beta0=1.0, normalize_by_max=False))
    assert weights == pytest.approx({i: 0.65 / p for i, p in enumerate(PRIORITIES)})


@pytest.mark.parametrize("normalize_by_max", [True, "batch", "memory"])
def test_weights_of_the_whole_buffer_are_divided_by_that_of_the_smallest_priority(normalize_by_max):
    """(p / 0.4)**-0.5; batch and memory have the same smallest priority."""
    weights = weights_by_observation(transitions(beta0=0.5, normalize_by_max=normalize_by_max))
    assert weights == pytest.approx({i: (p / 0.4) ** -0.5 for i, p in enumerate(PRIORITIES)})


def test_batch_normalization_gives_the_lightest_item_of_the_batch_the_weight_one():
    buffer = transitions(beta0=1.0, normalize_by_max="batch")
    for _ in range(10):
        weights = weights_by_observation(buffer, n=2)
        lightest = min(PRIORITIES[int(i)] for i in weights)
        assert weights == pytest.approx({i: lightest / PRIORITIES[int(i)] for i in weights})


def test_memory_normalization_refers_to_the_lightest_item_of_the_buffer():
    buffer = transitions(beta0=1.0, normalize_by_max="memory")
    for _ in range(10):
        weights = weights_by_observation(buffer, n=2)
        assert weights == pytest.approx({i: 0.4 / PRIORITIES[int(i)] for i in weights})


def test_beta_grows_to_one_with_every_draw():
    """From 0.4 in 3 steps: 0.4, 0.6, 0.8, 1, 1; the weight of priority 4 beside 1 is 4**-beta."""
    buffer = PrioritizedReplayBuffer(alpha=1.0, eps=0.0, error_max=None, beta0=0.4, betasteps=3)
    for i in range(2):
        buffer.append([float(i)], 0, 0.0, [0.0])
    buffer.update_priorities([0, 1], [1.0, 4.0])
    heavy = [weights_by_observation(buffer, n=2)[1.0] for _ in range(5)]
    assert heavy == pytest.approx([4**-0.4, 4**-0.6, 4**-0.8, 0.25, 0.25])


def test_weights_of_episodes_count_episodes_and_are_repeated_for_each_step():
    """(4 * p / 2.6)**-1, and rows of length 4, 3, 2, 1 time first: observations 3 2 1 0, 3 2 1, 3 2, 3."""
    batch = episodes(beta0=1.0, normalize_by_max=False).sample_sequences(4)
    assert batch.obs[:, 0].tolist() == [3, 2, 1, 0, 3, 2, 1, 3, 2, 3]
    assert batch.weight.tolist() == pytest.approx([0.65 / PRIORITIES[int(i)] for i in batch.obs[:, 0]])


def test_uniform_ratio_enters_the_weights():
    """P = 0.5 / 4 + 0.5 * p / 2.6; weight P_min / P."""
    buffer = episodes(beta0=1.0, normalize_by_max="memory", uniform_ratio=0.5)
    chance = {float(i): 0.125 + 0.5 * p / SUM for i, p in enumerate(PRIORITIES)}
    sampled, weights = buffer.sample_episodes(4)
    by_observation = {episode[0]["state"][0]: w for episode, w in zip(sampled, weights, strict=True)}
    assert by_observation == pytest.approx({i: chance[0.0] / p for i, p in chance.items()})
