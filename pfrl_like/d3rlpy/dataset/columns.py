"""The library's columns of the episodes in a dataset, from which agents learn."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Columns, Indices
from pfrl_like.d3rlpy.dataset.components import EpisodeBase
from pfrl_like.d3rlpy.dataset.nested import map_parts, parts_of
from pfrl_like.dataset.conventions import actions_of, field_of, numbers_of, table_from_rows
from pfrl_like.dataset.table import Table


def table_of_episodes(episodes: Sequence[EpisodeBase], discrete: bool) -> Table:
    """Convert episodes to a table of `pfrl_like.dataset`. If their observations are views of one array, it is shared.

    The last row of a truncated episode becomes its last observation; the reward in this row is dropped.

    Args:
        episodes: The episodes, at least one.
        discrete: True if actions are indices.

    Raises:
        ValueError: If columns have different lengths, or if discrete actions are not single numbers >= 0.
        NonFiniteError: If a value is NaN or infinite.
    """
    for i, episode in enumerate(episodes):
        lengths = {len(column) for column in (*parts_of(episode.observations), episode.actions, episode.rewards)}
        if len(lengths) > 1:
            raise ValueError(f"episodes[{i}] has columns of lengths {sorted(lengths)}, expected equal lengths")
    sizes = np.array([episode.size() for episode in episodes])
    ends, n = np.cumsum(sizes) - 1, int(sizes.sum())
    observations = [episode.observations for episode in episodes]
    obs_row = None
    if isinstance(observations[0], list | tuple):
        field, _ = field_of(tuple(np.concatenate(parts) for parts in zip(*observations, strict=True)))
    else:
        shared = _common_array(observations)
        if shared is not None:
            obs_row = np.concatenate([start + np.arange(size) for start, size in zip(shared[1], sizes, strict=True)])
        field, _ = field_of(np.concatenate(observations) if shared is None else shared[0])
    terminated = np.array([bool(episode.terminated) for episode in episodes])
    action = actions_of(np.concatenate([episode.actions for episode in episodes]), n, discrete)
    reward = numbers_of("rewards", np.concatenate([episode.rewards for episode in episodes]), n)
    return table_from_rows(field, action, reward, terminated, ends, terminated, obs_row=obs_row)


def _common_array(views: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], list[int]] | None:
    """Return an array that contains all arrays, in ascending order, and the first row of each. None if there is none.

    The arrays must be views of one array, so that the memory between them belongs to it.
    """
    first = views[0]
    form = first.shape[1:], first.strides, first.dtype
    if first.base is None or not first[0].nbytes or not first.flags.c_contiguous:
        return None
    if any(view.base is not first.base or (view.shape[1:], view.strides, view.dtype) != form for view in views):
        return None
    begins = np.array([view.__array_interface__["data"][0] for view in views])
    starts, remainders = np.divmod(begins - begins[0], first[0].nbytes)
    if remainders.any() or (np.diff(starts) < 0).any():
        return None
    n = int(starts[-1]) + len(views[-1])
    return np.lib.stride_tricks.as_strided(first, (n, *first.shape[1:]), writeable=False), starts.tolist()


def column_action(action: Any, discrete: bool) -> Any:
    """Convert an action of an episode, [A], to the action that columns store: an int, or an array of float32, [A].

    Raises:
        ValueError: If a discrete action is not a single number >= 0.
    """
    if not discrete:
        return np.asarray(action, np.float32)
    return int(actions_of(np.reshape(action, (1, -1)), 1, True)[0])


def column_observation(observation: Any) -> Any:
    """Convert an observation of an episode, an array or a list of arrays, to the form of columns."""
    return tuple(observation) if isinstance(observation, list) else observation


class EpisodeColumns:
    """Columns of episodes, with the rows of each episode.

    Rows of episodes that nobody refers to any more are used again.

    Args:
        episodes: The first episodes. Their observations are shared if they are views of one array.
        discrete: True if actions are indices.

    Attributes:
        columns: The columns.
        discrete: True if actions are indices.
    """

    def __init__(self, episodes: Sequence[EpisodeBase], discrete: bool) -> None:
        self.discrete = discrete
        self._rows: dict[int, Sequence[int]] = {}  # by identity of the episode
        self._unused: list[Sequence[int]] = []
        if not episodes:
            self.columns = Columns()
            return
        table = table_of_episodes(episodes, discrete)
        self.columns = table.to_columns()
        for episode, start, length in zip(episodes, table.starts.tolist(), table.lengths.tolist(), strict=True):
            self.register(episode, range(start, start + length))

    def register(self, episode: EpisodeBase, rows: Sequence[int]) -> None:
        """Set the rows of an episode's steps. The caller may extend the sequence later."""
        self._rows[id(episode)] = rows
        weakref.finalize(episode, self._forget, id(episode)).atexit = False

    def _forget(self, key: int) -> None:
        # The rows are released by the next `append`, because the last reference may vanish in another thread.
        self._unused.append(self._rows.pop(key))

    def add(self, episode: EpisodeBase) -> None:
        """Copy an episode to the columns.

        Raises:
            ValueError: If its values have other shapes or dtypes than the values in the columns.
        """
        rows: list[int] = []
        observations = [column_observation(map_parts(lambda array, t=t: array[t], episode.observations))
                        for t in range(episode.size())]  # fmt: skip
        for t in range(episode.transition_count):
            terminal = t == episode.size() - 1
            following = None if terminal else observations[t + 1]
            rows.append(self.append(observations[t], episode.actions[t], episode.rewards[t, 0], following, "added"))
        self.columns.end("added")
        self.register(episode, rows)

    def append(self, observation: Any, action: Any, reward: Any, next_observation: Any, key: str) -> int:
        """Add a step and return its row.

        Args:
            observation: Observation, in the form of columns.
            action: Action, [A], or [1] if actions are indices.
            reward: Reward of the action, a number.
            next_observation: Observation after the step. None if the state after the step is terminal.
            key: Name of the running episode. `columns.end` ends it.
        """
        while self._unused:
            for row in self._unused.pop():
                self.columns.release(row)
        terminal = next_observation is None
        action = column_action(action, self.discrete)
        return self.columns.append(observation, action, float(reward), next_observation, terminal, key, {})

    def rows_of(self, pairs: Sequence[tuple[EpisodeBase, int]]) -> Indices:
        """Return the rows of the steps (episode, index), [n]. Unknown episodes are added."""
        for episode in {id(episode): episode for episode, _ in pairs if id(episode) not in self._rows}.values():
            self.add(episode)
        return np.array([self._rows[id(episode)][index] for episode, index in pairs], np.int64)
