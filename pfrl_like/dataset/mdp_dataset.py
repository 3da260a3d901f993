"""`MDPDataset`: recorded episodes as a list, as arrays, and as minibatches to learn from."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import Batch, map_nested
from pfrl_like.columns import Indices, packed, stacks
from pfrl_like.dataset.check import Finding, findings, statistics
from pfrl_like.dataset.conventions import in_named_convention, table_from_arrays, warn_of_integer_vectors
from pfrl_like.dataset.episode import Episode
from pfrl_like.dataset.sources import DatasetSources
from pfrl_like.dataset.table import NEXT_ROW, Table, part
from pfrl_like.dataset.transition import TransitionMiniBatch, Transitions
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.random import RandomSource, check_rng, not_held, sample_n_k


class MDPDataset(DatasetSources, Sequence[Episode]):
    """Recorded episodes.

    The reward convention says which reward is for which action. It belongs to the dataset: attributes, episodes,
    transitions, `append` and `dump` follow it, and what is made of the dataset keeps it. Agents learn the same steps
    in either.

    - "next_row" pays the action of row t with the reward of row t + 1, which came with the observation that the action
      led to (d3rlpy before 1.0). An episode of T steps has T + 1 rows: the last one holds the last observation, its
      action is not learnt. The reward of an episode's first row precedes any action.
    - "same_row" pays the action of row t with the reward of row t (gymnasium, D4RL, d3rlpy from 1.0 on). A row whose
      `terminals` is set is a step like the others, the last one of its episode: T rows are T steps. The last row of an
      episode that was cut off holds the last observation, since nobody tells what its action led to: its action is
      not learnt, its reward is left out and shown as 0. `from_arrays(next_observations=...)` keeps such steps.

    An episode ends with each row whose `terminals` or `timeouts` is set, and with the last row. What ends otherwise
    than in a terminal state was cut off, and is bootstrapped from.

    Args:
        observations: Array [n, ...], which is not copied, or a dict or tuple of such.
        actions: Shape [n, A], or [n] if discrete.
        rewards: Shape [n].
        terminals: Flags, shape [n]: the state of the row, with "same_row" that after its step, is terminal.
        discrete_action: Whether actions are indices. Integers [n, 1] without it are continuous; that is warned of.
        timeouts: Flags, shape [n]: the episode was cut off in the state of the row. None for none.
        log_probs: Log-probabilities (densities, if continuous) of the actions under the policy that took them, shape
            [n], possible ones in last rows, too, where they do not count. None if they were not recorded.
        reward_convention: "next_row" or "same_row". None is "next_row", and warns once a process.

    Raises:
        ValueError: If lengths, shapes or values cannot be right; the text names the row. On another convention.
        NonFiniteError: On NaN or infinity.
    """

    def __init__(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        discrete_action: bool = False,
        *,
        timeouts: Any = None,
        log_probs: Any = None,
        reward_convention: str | None = None,
    ) -> None:
        table = table_from_arrays(
            observations, actions, rewards, terminals, timeouts, discrete_action=bool(discrete_action),
            reward_convention=NEXT_ROW if reward_convention is None else reward_convention, log_probs=log_probs,
        )  # fmt: skip
        table = in_named_convention(table, reward_convention)
        if not discrete_action:
            warn_of_integer_vectors(actions)
        self._use(table, discrete_action)

    @property
    def reward_convention(self) -> str:
        """The convention of the arrays shown: "next_row" or "same_row"."""
        return self._tables[0].convention

    # A list of episodes

    def __repr__(self) -> str:
        kind = "discrete" if self.discrete_action else "continuous"
        return (
            f"{type(self).__name__}({len(self)} episodes, {self.n_steps} transitions, observations "
            f"{self.get_observation_shape()}, {kind} actions of size {self.get_action_size()})"
        )

    def __len__(self) -> int:
        return sum(len(table.lengths) for table in self._tables)

    def __getitem__(self, index: Any) -> Any:
        return self.episodes[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    def size(self) -> int:
        """Number of episodes."""
        return len(self)

    @property
    def n_steps(self) -> int:
        """Number of transitions."""
        return sum(int(table.lengths.sum()) for table in self._tables)

    @property
    def episodes(self) -> list[Episode]:
        """The episodes, which are views of the arrays."""
        if self._episodes is None:
            size = self.get_action_size()
            self._episodes = [Episode.of_table(self.table, i, size) for i in range(len(self))]
        return self._episodes

    def build_episodes(self) -> None:
        """Make the episodes, as `episodes` does when it is first looked at."""
        _ = self.episodes

    # Arrays

    @property
    def observations(self) -> Any:
        """Observations, [n, ...]."""
        return self.table.observations(self.table.shown.rows)

    @property
    def actions(self) -> NDArray[Any]:
        """Actions, [n, A], or [n] if discrete; zero in last rows of episodes where none was told."""
        return part(self.table.action, self.table.shown.rows)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards, [n]; that for the action of row t stands in row t + 1, or with "same_row" in row t."""
        return self.table.shown.reward

    @property
    def terminals(self) -> NDArray[np.bool_]:
        """Flags, [n]: the state of the row, with "same_row" that after its step, is terminal."""
        return self.table.shown.terminal.copy()

    @property
    def timeouts(self) -> NDArray[np.bool_]:
        """Flags, [n]: the episode was cut off in the state of the row."""
        return self.table.shown.timeout.copy()

    @property
    def log_probs(self) -> NDArray[np.float64] | None:
        """Recorded log-probabilities (densities) of the actions, [n]; None if there are none."""
        recorded = self.table.log_prob
        return None if recorded is None else part(recorded, self.table.shown.rows)

    def to_arrays(self) -> dict[str, Any]:
        """Arrays of one row for each transition, whose reward is for the action of the same row.

        They are what `from_arrays` takes, by name: observations, actions, rewards, terminals, timeouts,
        next_observations (which repeats the observation where a terminal state was not told); log_probs, if recorded.
        """
        table, steps = self.table, self.table.steps
        last = table.columns.successor[steps] == 0
        recorded = {} if table.log_prob is None else {"log_probs": table.log_prob[steps - 1]}
        return recorded | {
            "observations": table.observations(steps),
            "actions": table.action[steps - 1],
            "rewards": table.reward[steps - 1],
            "terminals": table.terminal[steps],
            "timeouts": last & ~table.terminal[steps],
            "next_observations": table.next_observations(steps),
        }

    def get_observation_shape(self) -> Any:
        """Shape of an observation; of each part, if they are nested."""
        return self._tables[0].obs_shape

    def is_action_discrete(self) -> bool:
        """Whether actions are indices."""
        return self.discrete_action

    # Changes; episodes handed out before keep what they show

    def append(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        timeouts: Any = None,
        *,
        log_probs: Any = None,
    ) -> None:
        """Add episodes from arrays like those of the constructor, in the reward convention of this dataset.

        If nobody has named that, it is "next_row", and the warning of the constructor comes. Arrays in another one are
        added by `dataset.extend(MDPDataset(..., reward_convention=...))`.

        Raises:
            ValueError: If they do not fit those that are there, or each other; nothing is added.
        """
        table = table_from_arrays(
            observations, actions, rewards, terminals, timeouts, discrete_action=self.discrete_action,
            reward_convention=self.reward_convention, log_probs=log_probs,
        )  # fmt: skip
        self._extend(in_named_convention(table, self.reward_convention if self._tables[0].declared else None))

    def extend(self, dataset: "MDPDataset | Sequence[Episode]") -> None:
        """Add the episodes of another dataset, or a list of episodes; they are shown in this one's reward convention.

        Raises:
            ValueError: If observations or actions are of another kind, or one of them alone has `log_probs`.
            TypeError: If it is no dataset, or something is no episode.
        """
        dataset = dataset if isinstance(dataset, MDPDataset) else self.from_episodes(dataset)
        if dataset.discrete_action != self.discrete_action:
            came, expected = (("continuous", "discrete")[each.discrete_action] for each in (dataset, self))
            raise ValueError(f"dataset: has {came} actions, expected {expected} ones")
        self._extend(dataset.table)
        self._known_actions = max(self._known_actions, dataset._known_actions)

    def _extend(self, table: Table) -> None:
        self._tables = [*self._tables, table.like(self._tables[0])]
        self._episodes = None

    def clip_reward(self, low: float | None = None, high: float | None = None) -> None:
        """Clip the rewards.

        Args:
            low: Least reward; None or -infinity for no bound.
            high: Largest reward; None or infinity for no bound.

        Raises:
            ValueError: If `low` is above `high`, or one of them is NaN or the other infinity.
            TypeError: If one of them is no number.
        """
        bounds: dict[str, Any] = {"low": (low, -math.inf), "high": (high, math.inf)}
        for name, (bound, none) in bounds.items():
            if bound is not None and not (isinstance(bound, float) and bound == none):
                check_numbers(**{name: bound})
        if low is not None and high is not None and low > high:
            raise ValueError(f"low: got {low}, expected at most high={high}")
        self._tables = [self.table.with_rewards_clipped(low, high)]
        self._episodes = None

    # What is known of it

    def compute_stats(self) -> dict[str, dict[str, Any]]:
        """Mean, std, min and max of "return", "reward", continuous "action" and array "observation".

        The latter two are per dimension. What was not told (the last action of an episode, say) does not count.
        """
        return statistics(self.table, self.discrete_action)

    def check(self, observation_space: Any = None, action_space: Any = None) -> list[Finding]:
        """What looks wrong: NaN, constant columns, duplicate or empty episodes, values outside the spaces if given.

        A reward convention that nobody named is told, too. Reads everything once, files that are mapped included. Of
        nested observations each part is looked at by itself.
        Rows are those of `observations` and `actions` here, told with episode and step, as in `self[9].actions[5]`;
        arrays given to `from_arrays` have other ones, since these lack the rows of what episodes ended with.

        Args:
            observation_space: Box or Discrete, or a Dict or Tuple of such; None if not known.
            action_space: Box or Discrete; None if not known.

        Raises:
            ValueError: If a space is of another kind, or of another shape than the values.
        """
        return findings(self.table, observation_space, action_space)

    # Minibatches

    def sample_batch(
        self,
        n: int,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        num_steps: int = 1,
        n_frames: int = 1,
        next_actions: bool = False,
        continuation: float = 0,
        rng: RandomSource = None,
    ) -> Batch:
        """Draw distinct transitions, for `agent.update`. Double precision becomes single.

        Args:
            n: How many.
            gamma: Discount factor per step.
            device: Where the tensors go.
            num_steps: Steps per item, for n-step returns; fewer at the end of an episode.
            n_frames: How many images to stack, as in `TransitionMiniBatch`.
            next_actions: Whether to fill `Batch.next_action`.
            continuation: How many steps after each item `Batch.continuation` is to hold, infinity for all; 0 for none.
            rng: Source of randomness; None is the global NumPy stream.

        Raises:
            ValueError: If there are less than `n` transitions, or on another number out of range.
            TypeError: If `num_steps` or `n_frames` is no integer, or `rng` no generator of NumPy.
        """
        return self.batch(
            drawn(n, self.n_steps, rng), gamma, device, num_steps=num_steps, n_frames=n_frames,
            next_actions=next_actions, continuation=continuation,
        )  # fmt: skip

    def batch(
        self,
        index: Indices,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        num_steps: int = 1,
        n_frames: int = 1,
        next_actions: bool = False,
        continuation: float = 0,
    ) -> Batch:
        """The transitions of these numbers, 0 to `n_steps` - 1, as `sample_batch` gives them.

        Raises:
            ValueError: On a number out of range.
            TypeError: If `num_steps` or `n_frames` is no integer.
        """
        check_counts(num_steps=num_steps, n_frames=n_frames)
        table, columns = self.table, self.table.columns
        if num_steps not in (1, columns.window_steps):  # several views of the table share its store
            columns.find_windows(table.steps, num_steps)
        rows = table.steps[index]
        stacked = stacks(columns, n_frames) if n_frames > 1 else None
        batch = columns.batch(
            rows, index, None, num_steps, gamma, device,
            next_actions=next_actions, continuation=continuation, stacked=stacked,
        )  # fmt: skip
        return _all_single(batch)

    def sample_sequences(
        self,
        n: int,
        max_len: int | None = None,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        next_actions: bool = False,
        continuation: float = 0,
        rng: RandomSource = None,
    ) -> Batch:
        """Draw distinct steps, each with those that come after it, as sequences, the longest first, packed time first.

        Args:
            n: How many.
            max_len: Steps of the longest; None for as many as the episodes have.
            gamma: Discount factor per step.
            device: Where the tensors go.
            next_actions: As of `sample_batch`.
            continuation: As of `sample_batch`.
            rng: As of `sample_batch`.

        Raises:
            ValueError: If there are less than `n` transitions, or `max_len` is less than 1.
            TypeError: If `max_len` is no integer, or `rng` no generator of NumPy.
        """
        check_counts(optional=True, max_len=max_len)
        table, index = self.table, drawn(n, self.n_steps, rng)
        first = table.steps[index]
        lengths = table.ends[table.episode[first]] - first
        lengths = lengths if max_len is None else np.minimum(lengths, max_len)
        order = np.argsort(-lengths, kind="stable")
        time, sequence = packed(lengths[order])
        rows = first[order][sequence] + time
        batch = table.columns.batch(
            rows, index[order], None, 1, gamma, device, lengths[order],
            next_actions=next_actions, continuation=continuation,
        )  # fmt: skip
        return _all_single(batch)

    def sample(self, n: int, n_frames: int = 1, *, rng: RandomSource = None) -> TransitionMiniBatch:
        """Draw distinct transitions as a minibatch of arrays.

        Raises:
            ValueError: If there are less than `n` transitions, or `n_frames` is less than 1.
            TypeError: If `n_frames` is no integer, or `rng` no generator of NumPy.
        """
        check_counts(n_frames=n_frames)
        rows = self.table.steps[drawn(n, self.n_steps, rng)]
        lazily = Transitions(self.table, rows, self.get_action_size())
        return TransitionMiniBatch.of_rows(lazily, self.table, rows, n_frames)


def drawn(n: int, held: int, rng: RandomSource = None) -> Indices:
    """Distinct numbers of transitions, [n], at a cost that does not grow with how many are held.

    Args:
        n: How many.
        held: Out of how many.
        rng: Source of randomness; None is the global NumPy stream.

    Raises:
        ValueError: If there are less than `n`.
        TypeError: If `rng` is no generator of NumPy.
    """
    check_rng(rng)
    if not 0 < n <= held:
        raise not_held("n", n, held, "transitions", least=1)
    return sample_n_k(held, n, rng)


def _all_single(batch: Batch) -> Batch:
    def single(values: Any) -> Any:
        return map_nested(lambda tensor: tensor.float() if tensor.dtype == torch.float64 else tensor, values)

    changes = {name: single(getattr(batch, name)) for name in ("obs", "next_obs", "action", "next_action")}
    return batch.replace(**changes, continuation=batch.continuation and batch.continuation.map(single))
