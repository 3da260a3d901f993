"""Generators of episodes: functions without arguments that return a list of episodes."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.dataset.components import Episode, EpisodeBase
from pfrl_like.d3rlpy.dataset.nested import map_parts, parts_of


class EpisodeEndError(ValueError, AssertionError):
    """No row ends an episode, or a row is both terminal and truncated."""


class EpisodeGeneratorProtocol(Protocol):
    """Interface of generators of episodes."""

    def __call__(self) -> Sequence[EpisodeBase]:
        """Return the episodes."""
        ...


class EpisodeGenerator:
    """Generator that divides arrays into episodes. The reward of an action is in the row of the action.

    An episode ends in each row in which `terminals` or `timeouts` is not 0. Rows after the last end are dropped.

    Args:
        observations: Observations, an array [n, ...] or a list or tuple of such arrays. They are not copied.
        actions: Actions, [n] or [n, A].
        rewards: Rewards, [n] or [n, 1].
        terminals: Not 0 where the state after the row is terminal, [n] or [n, 1].
        timeouts: Not 0 where the episode was truncated, [n] or [n, 1]. The last row of a truncated episode is no
            transition. If None, no episode was truncated.

    Raises:
        TypeError: If an argument is not an array.
        ValueError: If the arrays have different lengths.
        EpisodeEndError: If no row ends an episode, or if a row has both flags.
    """

    def __init__(self, observations: Any, actions: Any, rewards: Any, terminals: Any, timeouts: Any = None) -> None:
        arrays = {f"observations[{i}]": part for i, part in enumerate(parts_of(observations))}
        arrays |= {"actions": actions, "rewards": rewards, "terminals": terminals}
        for name, values in (arrays if timeouts is None else arrays | {"timeouts": timeouts}).items():
            if not isinstance(values, np.ndarray):
                raise TypeError(f"{name}: got {type(values).__name__}, expected an array: pass numpy.asarray(...)")
            if len(values) != len(rewards):
                raise ValueError(f"{name}: got {len(values)} rows, expected {len(rewards)} like rewards")
        self._terminated = terminals.reshape(-1) != 0
        truncated = np.zeros_like(self._terminated) if timeouts is None else timeouts.reshape(-1) != 0
        if (self._terminated & truncated).any():
            row = int(np.argmax(self._terminated & truncated))
            raise EpisodeEndError(f"terminals and timeouts are both set in row {row}, expected at most one of them")
        self._ends = np.flatnonzero(self._terminated | truncated)
        if not len(self._ends):
            raise EpisodeEndError("terminals and timeouts are 0 in all rows: set one of them in the last row")
        self._observations = observations
        self._actions, self._rewards = _columns(actions), _columns(rewards)

    def __call__(self) -> Sequence[Episode]:
        """Return the episodes, views of the arrays."""
        starts = [0, *(self._ends[:-1] + 1).tolist()]
        return [
            Episode(
                map_parts(lambda array, rows=slice(start, end + 1): array[rows], self._observations),
                self._actions[start : end + 1], self._rewards[start : end + 1], bool(self._terminated[end]),
            )
            for start, end in zip(starts, self._ends.tolist(), strict=True)
        ]  # fmt: skip


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers [n] as [n, 1]."""
    return values.reshape(-1, 1) if values.ndim == 1 else values
