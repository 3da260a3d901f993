"""Episodes that were chosen from one dataset or from several, side by side."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pfrl_like.columns import Indices
from pfrl_like.dataset.episode import Episode
from pfrl_like.dataset.table import Table, joined


def listed(episodes: Any) -> list[Episode]:
    """The episodes of a dataset, or those given.

    Raises:
        ValueError: If there is no transition.
        TypeError: If something is no episode.
    """
    found = getattr(episodes, "episodes", episodes)
    if isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise TypeError(f"episodes is a {type(found).__name__}, expected a dataset or a list of episodes")
    chosen = list(found)
    for i, episode in enumerate(chosen):
        if not isinstance(episode, Episode):
            raise TypeError(f"episodes[{i}] is a {type(episode).__name__}, expected an Episode")
    if not sum(map(len, chosen)):
        raise ValueError("episodes hold no transition, expected at least one")
    return chosen


def in_one_table(episodes: Sequence[Episode]) -> tuple[Table, Indices]:
    """A table that has these episodes, and their numbers in it; that of a single dataset is not copied.

    Raises:
        ValueError: If their observations or actions are of different kinds.
    """
    tables = {id(episode.table): episode.table for episode in episodes}
    _check_alike([*tables.values()])
    first = dict(zip(tables, np.cumsum([0, *(len(table.lengths) for table in tables.values())]), strict=False))
    table = joined([*tables.values()]) if len(tables) > 1 else episodes[0].table
    return table, np.array([first[id(episode.table)] + episode.number for episode in episodes])


def _check_alike(tables: list[Table]) -> None:
    kinds = {
        f"observations {table.obs_shape} and {'discrete' if table.action.ndim == 1 else table.action.shape[1:]} actions"
        for table in tables
    }
    if len(kinds) > 1:
        raise ValueError(f"episodes have {'; '.join(sorted(kinds))}, expected the same of all")
