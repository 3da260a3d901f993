"""Small datasets of d3rlpy 2 whose observation, action and reward of each row differ from those of all other rows."""

from typing import Any

import numpy as np

from pfrl_like.d3rlpy.dataset import Episode, MDPDataset


def rewards_of(n: int) -> np.ndarray:
    """0.5, 1.5, 3.5, 7.5, ...: no sum of some is a sum of others."""
    return 2.0 ** np.arange(n) - 0.5


def numbered(ends: str, **options: Any) -> MDPDataset:
    """A dataset of one row per letter: "t" ends an episode in a terminal state, "o" by a timeout, "-" does not."""
    n = len(ends)
    arrays = {
        "observations": np.arange(n, dtype=np.float32).reshape(n, 1),
        "actions": np.arange(n) % 3,
        "rewards": rewards_of(n),
        "terminals": np.array([end == "t" for end in ends]),
        "timeouts": np.array([end == "o" for end in ends]),
    }
    return MDPDataset(**arrays | options)


def episode(n: int, terminated: bool, start: int = 0) -> Episode:
    """An episode whose observations are start, start + 1, ..."""
    row = np.arange(start, start + n, dtype=np.float32).reshape(n, 1)
    return Episode(row, row.astype(np.int64) % 3, row + 0.5, terminated)


def observed(dataset: Any) -> list[float]:
    """The observation of each transition of a dataset, in the order of its buffer."""
    transitions = [dataset.transition_picker(*dataset.buffer[i]) for i in range(dataset.transition_count)]
    return [float(transition.observation[0]) for transition in transitions]
