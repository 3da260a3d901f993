"""Episodes, which are lists of transitions, and functions that bring several episodes into one table."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Indices
from pfrl_like.dataset.conventions import table_from_arrays
from pfrl_like.dataset.table import NEXT_ROW, NO_ACTION, NO_OBS, NO_REWARD, SAME_ROW, Table, joined
from pfrl_like.dataset.transition import Transition, Transitions
from pfrl_like.utils.reprs import never_raising

_NO_LAST = {"observations": NO_OBS, "actions": NO_ACTION}


class Episode(Sequence[Transition]):
    """One episode of n rows, which are n - 1 transitions; the reward of an action is in the next row.

    This holds for the arrays given to the constructor. Episodes of a dataset use its `reward_convention`.

    Args:
        observation_shape: Shape of an observation.
        action_size: Length of an action vector or, if actions are discrete, their number.
        observations: Shape [n, ...].
        actions: Shape [n, A], or [n] if discrete.
        rewards: Shape [n]; the first one belongs to the first observation, before any action.
        terminals: Flags [n]. Only the last may be set: the episode ended in a terminal state. None means that it did.
        log_probs: Log-probabilities (densities, if continuous) of the actions under the policy that took them, shape
            [n]. Values in last rows do not count, but must be possible ones. None if they were not recorded.

    Attributes:
        table: The table that holds the episode.
        number: Number of the episode in the table.

    Raises:
        ValueError: If the arrays do not fit each other or the shapes.
    """

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        action_size: int,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any = None,
        *,
        log_probs: Any = None,
    ) -> None:
        n = len(observations)
        flags = np.arange(n) == n - 1 if terminals is None else terminals
        discrete = np.ndim(actions) == 1
        table = table_from_arrays(
            observations, actions, rewards, flags, discrete_action=discrete, reward_convention=NEXT_ROW,
            log_probs=log_probs,
        )  # fmt: skip
        if len(table.lengths) != 1:
            raise ValueError(f"terminals: flag {table.lengths[0]} is set, expected none before the last")
        if table.obs_shape != tuple(observation_shape):
            raise ValueError(f"observations: got shape {table.obs_shape} each, expected {tuple(observation_shape)}")
        largest = int(table.action.max()) + 1 if discrete else table.action.shape[1]
        if largest > action_size or (largest < action_size and not discrete):
            raise ValueError(f"actions: need an action_size of {largest}, got {action_size}")
        self.table, self.number, self._action_size = table, 0, action_size

    @classmethod
    def of_table(cls, table: Table, number: int, action_size: int) -> Self:
        """Episode `number` of a table."""
        episode = cls.__new__(cls)
        episode.table, episode.number, episode._action_size = table, number, action_size
        return episode

    @never_raising
    def __repr__(self) -> str:
        ended = "terminated" if self.terminated else "cut off"
        return f"{type(self).__name__}({len(self)} transitions, return {self.compute_return():g}, {ended})"

    @property
    def steps(self) -> Indices:
        """Rows of its transitions in the table."""
        start = int(self.table.starts[self.number])
        return np.arange(start, start + len(self))

    def __len__(self) -> int:
        return int(self.table.lengths[self.number])

    def __getitem__(self, index: Any) -> Any:
        return self.transitions[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Episode) and self.table is other.table and self.number == other.number

    def __hash__(self) -> int:
        return hash((id(self.table), self.number))

    def size(self) -> int:
        """Number of transitions."""
        return len(self)

    def get_observation_shape(self) -> Any:
        """Shape of an observation."""
        return self.table.obs_shape

    def get_action_size(self) -> int:
        """Length of an action vector or, if actions are discrete, their number."""
        return self._action_size

    @property
    def observations(self) -> Any:
        """Observations, [n, ...]."""
        return self.table.observations(np.arange(self._own.start, self._own.stop) + 1)

    @property
    def actions(self) -> NDArray[Any]:
        """Actions, [n, A], or [n] if discrete."""
        return self.table.action[self._own]

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards, [n]; the reward for the action of row t is in row t + 1, or with "same_row" in row t."""
        rewards = self.table.current_reward[self._own]
        rewards.setflags(write=False)
        return rewards

    def told(self, column: str) -> Any:
        """All known "observations", "actions" or "rewards", in either convention; placeholders are left out."""
        table, made_up = self.table, int(self.table.made_up[self.number])
        rows = self.steps if made_up & _NO_LAST.get(column, 0) else np.append(self.steps, table.ends[self.number])
        if column == "observations":
            return table.observations(rows)
        if column == "actions":
            return table.action[rows - 1]
        return table.previous_reward[rows[1 if made_up & NO_REWARD else 0 :] - 1]

    @property
    def log_probs(self) -> NDArray[np.float64] | None:
        """Recorded log-probabilities (densities) of the actions, [n]; None if there are none."""
        recorded = self.table.log_prob
        return None if recorded is None else recorded[self._own]

    @property
    def terminals(self) -> NDArray[np.bool_]:
        """Flags, [n]: the state of the row, with "same_row" the state after its step, is terminal."""
        flags = np.zeros(self._own.stop - self._own.start, np.bool_)
        flags[-1:] = self.terminated
        return flags

    @property
    def terminated(self) -> bool:
        """True if the last state is terminal; otherwise the episode was cut off."""
        return bool(self.table.terminated[self.number])

    @cached_property
    def transitions(self) -> list[Transition]:
        """The transitions, created on first access; they are views of the arrays."""
        return [*Transitions(self.table, self.steps, self._action_size)]

    def build_transitions(self) -> None:
        """Create the transitions now, which otherwise happens on the first access to `transitions`."""
        _ = self.transitions

    def compute_return(self) -> float:
        """Sum of the rewards for its actions; a first row's reward that precedes any action is left out."""
        return float(self.table.reward[self._own].sum())

    @property
    def _own(self) -> slice:
        """Part of the table's arrays that shows this episode."""
        start = int(self.table.starts[self.number]) - 1
        lacks_last = self.table.convention == SAME_ROW and self.terminated
        return slice(start, start + len(self) + (not lacks_last))


def listed(episodes: Any) -> list[Episode]:
    """List of the given episodes, or of the episodes of a dataset.

    Raises:
        ValueError: If there is no transition.
        TypeError: If an item is no episode.
    """
    found = getattr(episodes, "episodes", episodes)
    if isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise TypeError(f"episodes is {type(found).__name__}, expected a dataset or a list of episodes")
    chosen = list(found)
    for i, episode in enumerate(chosen):
        if not isinstance(episode, Episode):
            raise TypeError(f"episodes[{i}] is {type(episode).__name__}, expected an Episode")
    if not sum(map(len, chosen)):
        raise ValueError("episodes hold no transition, expected at least one")
    return chosen


def in_one_table(episodes: Sequence[Episode]) -> tuple[Table, Indices]:
    """Table that holds these episodes, and their numbers in it; the table of a single dataset is not copied.

    Raises:
        ValueError: If their observations or actions are of different kinds.
    """
    tables = {id(episode.table): episode.table for episode in episodes}
    kinds = {
        f"observations {table.obs_shape} and {'discrete' if table.action.ndim == 1 else table.action.shape[1:]} actions"
        for table in tables.values()
    }
    if len(kinds) > 1:
        raise ValueError(f"episodes have {'; '.join(sorted(kinds))}, expected the same of all")
    first = dict(zip(tables, np.cumsum([0, *(len(table.lengths) for table in tables.values())]), strict=False))
    table = joined([*tables.values()]) if len(tables) > 1 else episodes[0].table
    return table, np.array([first[id(episode.table)] + episode.number for episode in episodes])
