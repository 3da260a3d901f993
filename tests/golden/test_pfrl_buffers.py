"""Replay files that PFRL 0.4.0 wrote: transitions i = 0..7, capacity 6; step 5 was terminal."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like.storage import read_pickle
from pfrl_like.storage.pickles import PfrlPrioritized, PfrlQueue

DATA = Path(__file__).parents[1] / "data"


def read(kind: str) -> Any:
    return read_pickle(str(DATA / f"pfrl_0_4_{kind}_buffer.pkl"), allow_pickle=True)


def test_a_queue_gives_its_items_oldest_first() -> None:
    queue = read("replay")
    assert isinstance(queue, PfrlQueue)
    assert queue.maxlen == 6
    steps = [step for (step,) in queue.items()]
    assert [step["reward"] for step in steps] == [2, 3, 4, 5, 6, 7]
    assert [step["is_state_terminal"] for step in steps] == [False, False, False, True, False, False]
    np.testing.assert_array_equal(steps[0]["state"], np.array([2, 2], np.float32))


def test_a_prioritised_buffer_gives_items_and_priorities() -> None:
    expected = json.loads((DATA / "pfrl_0_4_prioritized_buffer.json").read_text())
    buffer = read("prioritized")
    assert isinstance(buffer, PfrlPrioritized)
    assert [item[0]["reward"] for item in buffer.data] == expected["rewards"]
    assert buffer.priority_sums.values() == pytest.approx(expected["priorities"])
    assert (buffer.capacity, buffer.max_priority) == (6, 1.0)


def test_an_episodic_buffer_gives_steps_and_episodes() -> None:
    steps, episodes = read("episodic")
    assert [step["reward"] for (step,) in steps.items()] == [6, 7]
    assert [[step["reward"] for step in episode] for episode in episodes.items()] == [[6, 7]]
