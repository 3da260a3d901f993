import copy
import pickle

import pytest
from d3rlpy_parts import episode

from pfrl_like.d3rlpy.dataset import FIFOBuffer, InfiniteBuffer


def filled(buffer, *sizes: int):
    for number, n in enumerate(sizes):
        added = episode(n, True, 10 * number)
        for index in range(n):
            buffer.append(added, index)
    return buffer


def entries(buffer) -> list[tuple[float, int]]:
    pairs = [buffer[i] for i in range(len(buffer))]
    return [(float(held.observations[0, 0]), index) for held, index in pairs]


def test_a_full_buffer_drops_transitions_and_keeps_episodes_that_have_one() -> None:
    buffer = filled(FIFOBuffer(limit=7), 3, 4, 2)
    assert [held.size() for held in buffer.episodes] == [3, 4, 2] and buffer.transition_count == 7
    assert entries(buffer) == [(0, 2), (10, 0), (10, 1), (10, 2), (10, 3), (20, 0), (20, 1)]
    assert [held.size() for held in filled(FIFOBuffer(limit=7), 3, 4, 2, 6).episodes] == [2, 6]


def test_the_order_survives_thousands_of_dropped_transitions() -> None:
    buffer = filled(FIFOBuffer(limit=3), *[50] * 60)
    assert entries(buffer) == [(590, 47), (590, 48), (590, 49)] and len(buffer.episodes) == 1


def test_an_episode_that_is_added_twice_is_one_episode() -> None:
    buffer, added = InfiniteBuffer(), episode(2, True)
    for index in (0, 1, 0, 1):
        buffer.append(added, index)
    assert (len(buffer.episodes), buffer.transition_count) == (1, 4)


def test_indices_count_from_the_end_and_end() -> None:
    buffer = filled(InfiniteBuffer(), 3)
    assert buffer[-1][1] == 2
    with pytest.raises(IndexError):
        buffer[3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_holds_copies_of_the_episodes(copied) -> None:
    buffer = copied(filled(FIFOBuffer(4), 3, 2))
    buffer.append(buffer.episodes[-1], 0)
    assert entries(buffer) == [(0, 2), (10, 0), (10, 1), (10, 0)] and len(buffer.episodes) == 2


def test_a_limit_below_one_is_rejected() -> None:
    with pytest.raises(ValueError, match="limit"):
        FIFOBuffer(0)
