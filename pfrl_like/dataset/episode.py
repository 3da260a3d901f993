"""`Episode`, a list of transitions, and functions for lists of episodes."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.columns import Indices
from pfrl_like.dataset.conventions import table_from_arrays
from pfrl_like.dataset.table import NEXT_ROW, NO_ACTION, NO_OBS, NO_REWARD, SAME_ROW, Table, concatenate_tables
from pfrl_like.dataset.transition import Transition, TransitionMiniBatch, Transitions, linked_steps
from pfrl_like.functions.returns import lambda_returns
from pfrl_like.utils.reprs import never_raising

_NO_LAST = {"observations": NO_OBS, "actions": NO_ACTION}


class Episode(Sequence[Transition]):
    """An episode of n - 1 transitions.

    The constructor takes arrays with n rows. The reward of an action is in the next row. In contrast, the episodes of a
    dataset use the `reward_convention` of the dataset.

    Args:
        observation_shape: Shape of an observation.
        action_size: Length of an action vector or, if actions are discrete, the number of actions.
        observations: Observations, shape [n, ...].
        actions: Actions, shape [n, A], or [n] if discrete.
        rewards: Rewards, shape [n]. The first reward is in the row of the first observation, before any action.
        terminals: Flags, shape [n]. Only the last flag may be True, for an episode that ended in a terminal state. If
            None, the last flag is True.
        log_probs: Log-probabilities (densities, if continuous) of the actions under the behaviour policy, shape [n].
            Values in last rows are ignored, but must be valid log-probabilities. None if they were not recorded.

    Attributes:
        table: The table that contains the episode.
        number: Number of the episode in the table.

    Raises:
        ValueError: If the arrays do not match each other, `observation_shape` or `action_size`.
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
            raise ValueError(f"terminals: row {table.lengths[0]} is set, expected only the last row to be set")
        if table.obs_shape != tuple(observation_shape):
            raise ValueError(f"observations: got shape {table.obs_shape} each, expected {tuple(observation_shape)}")
        largest = int(table.action.max()) + 1 if discrete else table.action.shape[1]
        if largest > action_size or (largest < action_size and not discrete):
            raise ValueError(f"actions: need action_size={largest}, got {action_size}")
        self.table, self.number, self._action_size = table, 0, action_size

    @classmethod
    def of_table(cls, table: Table, number: int, action_size: int) -> Self:
        """Return episode `number` of a table."""
        episode = cls.__new__(cls)
        episode.table, episode.number, episode._action_size = table, number, action_size
        return episode

    @never_raising
    def __repr__(self) -> str:
        ended = "terminated" if self.terminated else "truncated"
        return f"{type(self).__name__}({len(self)} transitions, return {self.compute_return():g}, {ended})"

    @property
    def steps(self) -> Indices:
        """Rows of the episode's transitions in the table."""
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
        """Return the number of transitions."""
        return len(self)

    def get_observation_shape(self) -> Any:
        """Return the shape of an observation."""
        return self.table.obs_shape

    def get_action_size(self) -> int:
        """Return the length of an action vector or, if actions are discrete, the number of actions."""
        return self._action_size

    @property
    def observations(self) -> Any:
        """Observations, [n, ...]."""
        return self.table.observations(np.arange(self._rows.start, self._rows.stop) + 1)

    @property
    def actions(self) -> NDArray[Any]:
        """Actions, [n, A], or [n] if discrete."""
        return self.table.action[self._rows]

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards, [n]. The reward of the action in row t is in row t + 1, or in row t with "same_row"."""
        rewards = self.table.current_reward[self._rows]
        rewards.setflags(write=False)
        return rewards

    def known_values(self, column: str) -> Any:
        """Return the "observations", "actions" or "rewards" of the episode, without placeholders for unknown values."""
        table, made_up = self.table, int(self.table.made_up[self.number])
        rows = self.steps if made_up & _NO_LAST.get(column, 0) else np.append(self.steps, table.ends[self.number])
        if column == "observations":
            return table.observations(rows)
        if column == "actions":
            return table.action[rows - 1]
        return table.previous_reward[rows[1 if made_up & NO_REWARD else 0 :] - 1]

    @property
    def log_probs(self) -> NDArray[np.float64] | None:
        """Recorded log-probabilities (densities) of the actions, [n]. None if they were not recorded."""
        recorded = self.table.log_prob
        return None if recorded is None else recorded[self._rows]

    @property
    def terminals(self) -> NDArray[np.bool_]:
        """True if the state of the row is terminal, [n]. With "same_row", if the state after its step is terminal."""
        flags = np.zeros(self._rows.stop - self._rows.start, np.bool_)
        flags[-1:] = self.terminated
        return flags

    @property
    def terminated(self) -> bool:
        """True if the last state is terminal, False if the episode was truncated."""
        return bool(self.table.terminated[self.number])

    @cached_property
    def transitions(self) -> list[Transition]:
        """The transitions. They are views of the arrays and are created on first access."""
        return [*Transitions(self.table, self.steps, self._action_size)]

    def build_transitions(self) -> None:
        """Create the transitions immediately. Otherwise they are created on the first access to `transitions`."""
        _ = self.transitions

    def compute_return(self) -> float:
        """Return the sum of the rewards of the episode's actions, without the reward before the first action."""
        return float(self.table.reward[self._rows].sum())

    @property
    def _rows(self) -> slice:
        """Rows of the table's arrays that belong to this episode."""
        start = int(self.table.starts[self.number]) - 1
        lacks_last = self.table.convention == SAME_ROW and self.terminated
        return slice(start, start + len(self) + (not lacks_last))


def compute_lambda_return(
    steps: Transition | Episode, algo: Any, gamma: float, lam: float, n_frames: int = 1
) -> float | NDArray[np.float32]:
    """Return the TD(lambda) return of a transition, or of each transition of an episode (Sutton and Barto 2018, 12.18).

    The rewards until the end of the episode are used, whose last value is bootstrapped unless it ended in a terminal
    state.

    Args:
        steps: A transition, or an episode.
        algo: Object whose method `predict_value(observations)` returns state values, [n], such as the estimator `AWR`.
        gamma: Discount factor per step.
        lam: lambda, in [0, 1].
        n_frames: Number of images to stack, as in `TransitionMiniBatch`.

    Returns:
        The return, or the returns of the episode's transitions, [n].

    Raises:
        ValueError: If the episode has no transitions, or `n_frames` is less than 1.
    """
    batch = TransitionMiniBatch([*steps] if isinstance(steps, Episode) else [*linked_steps(steps)], n_frames)
    value = np.asarray(algo.predict_value(batch.next_observations), np.float64).reshape(-1)
    reward, terminal = (torch.as_tensor(each[:, 0]).double() for each in (batch.action_rewards, batch.terminals))
    continues = torch.arange(len(reward)) < len(reward) - 1
    returns = lambda_returns(reward, gamma * (1 - terminal), torch.as_tensor(value), continues, lam).numpy()
    return returns.astype(np.float32) if isinstance(steps, Episode) else float(returns[0])


def as_episodes(episodes: Any) -> list[Episode]:
    """Return a list of the episodes of a dataset, or of some episodes.

    A dataset of another form is converted by its method `to_library_dataset`.

    Raises:
        ValueError: If there are no transitions.
        TypeError: If an item is not an episode.
    """
    episodes = getattr(episodes, "to_library_dataset", lambda: episodes)()
    items = getattr(episodes, "episodes", episodes)
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise TypeError(f"episodes is {type(items).__name__}, expected a dataset or a list of episodes")
    items = list(items)
    for i, episode in enumerate(items):
        if not isinstance(episode, Episode):
            raise TypeError(f"episodes[{i}] is {type(episode).__name__}, expected an Episode of pfrl_like.dataset")
    if not sum(map(len, items)):
        raise ValueError("episodes: got no transitions, expected at least one")
    return items


def common_table(episodes: Sequence[Episode]) -> tuple[Table, Indices]:
    """Return a table that contains some episodes, and the numbers of the episodes in this table.

    If all episodes belong to one dataset, the table is not copied.

    Raises:
        ValueError: If the observations or actions of the episodes have different shapes or types.
    """
    tables = {id(episode.table): episode.table for episode in episodes}
    kinds = {
        f"observations {table.obs_shape} and {'discrete' if table.action.ndim == 1 else table.action.shape[1:]} actions"
        for table in tables.values()
    }
    if len(kinds) > 1:
        raise ValueError(f"episodes have {'; '.join(sorted(kinds))}, expected the same kinds in all episodes")
    first = dict(zip(tables, np.cumsum([0, *(len(table.lengths) for table in tables.values())]), strict=False))
    table = concatenate_tables([*tables.values()]) if len(tables) > 1 else episodes[0].table
    return table, np.array([first[id(episode.table)] + episode.number for episode in episodes])
