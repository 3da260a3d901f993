"""`MDPDataset`: recorded episodes as a list, as arrays, and as minibatches for training."""

import math
import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import Batch, map_nested
from pfrl_like.columns import Indices, packed, stacks
from pfrl_like.columns.structure import map_structure
from pfrl_like.dataset.check import Finding, findings, statistics
from pfrl_like.dataset.conventions import (
    in_convention_or_default,
    kind_of_actions,
    table_from_arrays,
    truncations,
    warn_of_integer_vectors,
)
from pfrl_like.dataset.episode import Episode
from pfrl_like.dataset.sources import DatasetSources
from pfrl_like.dataset.table import NEXT_ROW, Table, part
from pfrl_like.dataset.transition import TransitionMiniBatch, Transitions
from pfrl_like.utils.checks import check_counts, check_numbers, names_unknown_keywords
from pfrl_like.utils.random import RandomSource, check_held, check_rng, sample_n_k
from pfrl_like.utils.reprs import dtype_and_shape, never_raising


class MDPDataset(DatasetSources, Sequence[Episode]):
    """A dataset of recorded episodes.

    The reward convention defines which reward belongs to which action. All arrays, episodes and transitions of a
    dataset, `append`, `dump`, and objects that are created from the dataset use its reward convention. The convention
    has no influence on the steps from which agents learn.

    - "next_row": the reward of the action in row t is in row t + 1, in the same row as the observation after the action
      (d3rlpy before 1.1). An episode of T steps has T + 1 rows. The last row contains the last observation, and the
      action in the last row is ignored. The reward in the first row of an episode does not belong to an action.
    - "same_row": the reward of the action in row t is in row t (gymnasium, D4RL, d3rlpy from 1.1 on). The last row of a
      terminated episode, whose `terminals` is set, is a step: T rows are T steps. The last row of a truncated episode
      contains the last observation. The action in this row is ignored and its reward is replaced by 0, because the
      observation after this action is unknown. `from_arrays(next_observations=...)` keeps these steps.

    An episode ends in each row in which `terminals` or `timeouts` is True, and in the last row of the arrays. An
    episode that does not end in a terminal state is truncated: targets bootstrap from its last state.

    Args:
        observations: Array [n, ...], which is not copied. Or a dict or tuple of arrays.
        actions: Actions, shape [n, A], or [n] if discrete.
        rewards: Rewards, shape [n].
        terminals: Flags, shape [n]: True if the state of the row is terminal. With "same_row", True if the state after
            the row's step is terminal.
        discrete_action: True if actions are indices. If False, integers [n, 1] are treated as continuous, with a
            warning. None, also False with `episode_terminals` and actions [n]: True if all actions are integers of any
            dtype, one in each row.
        timeouts: Flags, shape [n]: True if the episode was truncated in the state of the row. None if no episode was
            truncated.
        log_probs: Log-probabilities (densities, if continuous) of the actions under the behaviour policy, shape [n].
            Values in last rows are ignored, but must be valid log-probabilities. None if they were not recorded.
        reward_convention: "next_row" or "same_row". If None, "next_row" is used, and a warning is issued once per
            process.
        episode_terminals: Flags, shape [n], as in d3rlpy 0.60 to 1.1: True in the last row of each episode, terminal or
            truncated. Rows after the last of these rows are dropped, as in d3rlpy. With this argument, a missing
            `reward_convention` is an error, unless both conventions give the same steps: d3rlpy before 1.1 has
            "next_row", 1.1 has "same_row". None if `timeouts` are given.
        action_space: Box or Discrete, or a member of `ActionSpace`: the kind of the actions, and the number of discrete
            actions. The bounds of a Box are not checked; `check` does this. None if `discrete_action` says it.

    Raises:
        ValueError: If lengths, shapes or values are invalid (the message contains the row), or if the convention is
            unknown, or missing with `episode_terminals`.
        NonFiniteError: If a value is NaN or infinite.
        TypeError: If `discrete_action` is an array, or `action_space` is not a space.
    """

    @names_unknown_keywords
    def __init__(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        discrete_action: bool | None = False,
        *,
        timeouts: Any = None,
        log_probs: Any = None,
        reward_convention: str | None = None,
        episode_terminals: Any = None,
        action_space: Any = None,
    ) -> None:
        if discrete_action is not None and np.ndim(discrete_action):
            advice = "pass ends of episodes as timeouts= or episode_terminals="
            raise TypeError(f"discrete_action is an array, expected True, False or None: {advice}")
        has_ends = episode_terminals is not None
        if has_ends:
            timeouts = truncations(episode_terminals, terminals, rewards, timeouts, reward_convention)
        discrete, size = kind_of_actions(action_space, actions, discrete_action, has_ends)
        table = table_from_arrays(
            observations, actions, rewards, terminals, timeouts, discrete_action=discrete,
            reward_convention=NEXT_ROW if reward_convention is None else reward_convention, log_probs=log_probs,
        )  # fmt: skip
        if has_ends and not np.ravel(episode_terminals)[-1]:
            table = table.of_episodes(np.arange(len(table.lengths) - 1))
        table = in_convention_or_default(table, reward_convention)
        if not discrete:
            warn_of_integer_vectors(actions)
        self._set_table(table, discrete, size)

    @property
    def reward_convention(self) -> str:
        """Reward convention of the arrays: "next_row" or "same_row"."""
        return self._tables[0].convention

    # A list of episodes

    @never_raising
    def __repr__(self) -> str:
        kind, table = "discrete" if self.discrete_action else "continuous", self._tables[0]
        leaves = table.obs.leaves
        observed = map_structure(lambda i: dtype_and_shape(leaves[i]), table.obs.structure)
        is_mapped = any(_is_mapped(leaf.data) for each in self._tables for leaf in each.obs.leaves)
        counts = f"{len(self):,} episodes, {self.n_steps:,} transitions"
        actions = f"{kind} {table.action.dtype} actions of size {self.get_action_size()}"
        place = "on disk" if is_mapped else "in memory"
        return f"{type(self).__name__}({counts}, observations {observed} {place}, {actions})"

    def __len__(self) -> int:
        return sum(len(table.lengths) for table in self._tables)

    def __getitem__(self, index: Any) -> Any:
        return self.episodes[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    def size(self) -> int:
        """Return the number of episodes."""
        return len(self)

    @property
    def n_steps(self) -> int:
        """Number of transitions."""
        return sum(int(table.lengths.sum()) for table in self._tables)

    @property
    def episodes(self) -> list[Episode]:
        """The episodes. They are views of the arrays."""
        if self._episodes is None:
            size = self.get_action_size()
            self._episodes = [Episode.of_table(self.table, i, size) for i in range(len(self))]
        return self._episodes

    def build_episodes(self) -> None:
        """Create the episodes immediately. Otherwise they are created on the first access to `episodes`."""
        _ = self.episodes

    # Arrays

    @property
    def observations(self) -> Any:
        """Observations, [n, ...]."""
        return self.table.observations(self.table.view.rows)

    @property
    def actions(self) -> NDArray[Any]:
        """Actions, [n, A], or [n] if discrete. Unknown actions in the last rows of episodes are 0."""
        return part(self.table.action, self.table.view.rows)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards, [n]. The reward of the action in row t is in row t + 1, or in row t with "same_row"."""
        return self.table.view.reward

    @property
    def terminals(self) -> NDArray[np.bool_]:
        """True if the state of the row is terminal, [n]. With "same_row", if the state after its step is terminal."""
        return self.table.view.terminal.copy()

    @property
    def timeouts(self) -> NDArray[np.bool_]:
        """Flags, [n]: True if the episode was truncated in the state of the row."""
        return self.table.view.timeout.copy()

    @property
    def log_probs(self) -> NDArray[np.float64] | None:
        """Recorded log-probabilities (densities) of the actions, [n]. None if they were not recorded."""
        recorded = self.table.log_prob
        return None if recorded is None else part(recorded, self.table.view.rows)

    def to_arrays(self) -> dict[str, Any]:
        """Return arrays with one row per transition, in which the reward of an action is in the row of the action.

        The keys are the argument names of `from_arrays`: observations, actions, rewards, terminals, timeouts,
        next_observations, and, if recorded, log_probs. If a terminal state is unknown, next_observations repeats the
        observation before it.
        """
        table, steps = self.table, self.table.steps
        last = table.columns.successor[steps] == 0
        recorded = {} if table.log_prob is None else {"log_probs": table.log_prob[steps - 1]}
        return recorded | {
            "observations": table.observations(steps), "actions": table.action[steps - 1],
            "rewards": table.reward[steps - 1], "terminals": table.terminal[steps],
            "timeouts": last & ~table.terminal[steps], "next_observations": table.next_observations(steps),
        }  # fmt: skip

    def get_observation_shape(self) -> Any:
        """Return the shape of an observation, or of each leaf of a nested observation."""
        return self._tables[0].obs_shape

    def is_action_discrete(self) -> bool:
        """True if actions are indices."""
        return self.discrete_action

    # Changes, which do not affect episodes that were returned earlier

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

        If the constructor's `reward_convention` was None, the constructor's warning is issued again. To add arrays in
        the other convention, call `dataset.extend(MDPDataset(..., reward_convention=...))`.

        Raises:
            ValueError: If the arrays do not match this dataset or each other. Nothing is added.
        """
        table = table_from_arrays(
            observations, actions, rewards, terminals, timeouts, discrete_action=self.discrete_action,
            reward_convention=self.reward_convention, log_probs=log_probs,
        )  # fmt: skip
        self._extend(in_convention_or_default(table, self.reward_convention if self._tables[0].declared else None))

    def extend(self, dataset: "MDPDataset | Sequence[Episode]") -> None:
        """Add the episodes of another dataset, or a list of episodes, in this dataset's reward convention.

        Raises:
            ValueError: If observations or actions have a different shape or type, or if only one dataset has
                `log_probs`.
            TypeError: If `dataset` is not a dataset, or an item is not an episode.
        """
        dataset = dataset if isinstance(dataset, MDPDataset) else self.from_episodes(dataset)
        if dataset.discrete_action != self.discrete_action:
            got, expected = (("continuous", "discrete")[each.discrete_action] for each in (dataset, self))
            raise ValueError(f"dataset: has {got} actions, expected {expected} actions")
        self._extend(dataset.table)
        self._known_actions = max(self._known_actions, dataset._known_actions)

    def _extend(self, table: Table) -> None:
        self._tables = [*self._tables, table.like(self._tables[0])]
        self._episodes = None

    def clip_reward(self, low: float | None = None, high: float | None = None) -> None:
        """Clip the rewards.

        Args:
            low: Minimum reward. If None or -infinity, there is no minimum.
            high: Maximum reward. If None or infinity, there is no maximum.

        Raises:
            ValueError: If `low` is above `high`, if a bound is NaN, if `low` is infinity, or if `high` is -infinity.
            TypeError: If a bound is not a number.
        """
        bounds: dict[str, Any] = {"low": (low, -math.inf), "high": (high, math.inf)}
        for name, (bound, none) in bounds.items():
            if bound is not None and not (isinstance(bound, float) and bound == none):
                check_numbers(**{name: bound})
        if low is not None and high is not None and low > high:
            raise ValueError(f"low: got {low}, expected at most high={high}")
        self._tables = [self.table.with_rewards_clipped(low, high)]
        self._episodes = None

    # Statistics and checks

    def compute_stats(self) -> dict[str, dict[str, Any]]:
        """Return the mean, std, min and max of returns, rewards, continuous actions and array observations.

        The keys are "return", "reward", "action" and "observation". The statistics of actions and observations are per
        dimension. Unknown values, for example the action in the last row of an episode, are ignored.
        """
        return statistics(self.table, self.discrete_action)

    def check(self, observation_space: Any = None, action_space: Any = None) -> list[Finding]:
        """Find NaN, constant columns, duplicate or empty episodes, and values outside the given spaces.

        A missing reward convention is also reported. All data are read, including memory-mapped files. Each leaf of
        nested observations is checked separately. Reported rows are rows of this dataset's `observations` and
        `actions`. The episode and the step are also reported, as in `self[9].actions[5]`. Rows of the arrays that were
        passed to `from_arrays` may have other numbers, because these arrays may have no rows for last observations.

        Args:
            observation_space: Box or Discrete, or a Dict or Tuple of these. None if unknown.
            action_space: Box or Discrete. None if unknown.

        Raises:
            ValueError: If a space is neither Box nor Discrete, or has a different shape than the values.
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
        """Sample distinct transitions for `agent.update`. Double precision is converted to single precision.

        Args:
            n: Number of transitions.
            gamma: Discount factor per step.
            device: Device of the tensors.
            num_steps: Number of steps of n-step returns. At the end of an episode, fewer steps are used.
            n_frames: Number of images to stack, as in `TransitionMiniBatch`.
            next_actions: True to fill `Batch.next_action`.
            continuation: Number of steps after each transition that `Batch.continuation` contains. If infinity, all
                later steps of the episode. If 0, `Batch.continuation` is None.
            rng: NumPy generator. If None, the global NumPy stream is used.

        Raises:
            ValueError: If there are fewer than `n` transitions, or if an argument is out of range.
            TypeError: If `num_steps` or `n_frames` is not an integer, or `rng` is not a NumPy generator.
        """
        return self.batch(
            sample_indices(n, self.n_steps, rng), gamma, device, num_steps=num_steps, n_frames=n_frames,
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
        """Return a batch like `sample_batch`, of the transitions with the numbers `index`, from 0 to `n_steps` - 1.

        Raises:
            ValueError: If an argument is out of range.
            TypeError: If `num_steps` or `n_frames` is not an integer.
        """
        check_counts(num_steps=num_steps, n_frames=n_frames)
        table, columns = self.table, self.table.columns
        if num_steps not in (1, columns.window_steps):  # several views of the table share its columns
            columns.find_windows(table.steps, num_steps)
        rows = table.steps[index]
        stacked = stacks(columns, n_frames) if n_frames > 1 else None
        batch = columns.batch(
            rows, index, None, num_steps, gamma, device,
            next_actions=next_actions, continuation=continuation, stacked=stacked,
        )  # fmt: skip
        return _to_single_precision(batch)

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
        """Sample distinct transitions as first steps of sequences. Return packed sequences of these and later steps.

        The sequences are sorted by descending length. The rows are ordered by time step.

        Args:
            n: Number of sequences.
            max_len: Maximum number of steps of a sequence. If None, sequences continue to the end of their episodes.
            gamma: Discount factor per step.
            device: Device of the tensors.
            next_actions: True to fill `Batch.next_action`.
            continuation: Number of steps after each transition that `Batch.continuation` contains. If infinity, all
                later steps of the episode. If 0, `Batch.continuation` is None.
            rng: NumPy generator. If None, the global NumPy stream is used.

        Raises:
            ValueError: If there are fewer than `n` transitions, or `max_len` is less than 1.
            TypeError: If `max_len` is not an integer, or `rng` is not a NumPy generator.
        """
        check_counts(optional=True, max_len=max_len)
        index = sample_indices(n, self.n_steps, rng)
        return self.sequences(index, max_len, gamma, device, next_actions=next_actions, continuation=continuation)

    def sequences(
        self,
        index: Indices,
        max_len: int | None = None,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        next_actions: bool = False,
        continuation: float = 0,
    ) -> Batch:
        """Return packed sequences that begin with the transitions of the numbers `index`, like `sample_sequences`.

        Args:
            index: Numbers of the first transitions of the sequences, [n].
            max_len: Maximum number of steps of a sequence. If None, sequences continue to the end of their episodes.
            gamma: Discount factor per step.
            device: Device of the tensors.
            next_actions: True to fill `Batch.next_action`.
            continuation: Number of steps after each transition that `Batch.continuation` contains. If infinity, all
                later steps of the episode. If 0, `Batch.continuation` is None.
        """
        table = self.table
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
        return _to_single_precision(batch)

    def sample(self, n: int, n_frames: int = 1, *, rng: RandomSource = None) -> TransitionMiniBatch:
        """Sample distinct transitions as a minibatch of arrays.

        Raises:
            ValueError: If there are fewer than `n` transitions, or `n_frames` is less than 1.
            TypeError: If `n_frames` is not an integer, or `rng` is not a NumPy generator.
        """
        check_counts(n_frames=n_frames)
        rows = self.table.steps[sample_indices(n, self.n_steps, rng)]
        lazily = Transitions(self.table, rows, self.get_action_size())
        return TransitionMiniBatch.of_rows(lazily, self.table, rows, n_frames)


def sample_indices(n: int, held: int, rng: RandomSource = None) -> Indices:
    """Sample distinct indices of transitions, [n]. The cost does not depend on the size of the dataset.

    Args:
        n: Number of indices to sample.
        held: Number of transitions to sample from.
        rng: NumPy generator. If None, the global NumPy stream is used.

    Raises:
        ValueError: If `held` is less than `n`, or `n` is less than 1.
        TypeError: If `rng` is not a NumPy generator.
    """
    check_rng(rng)
    check_held("n", n, held, "transitions", least=1)
    return sample_n_k(held, n, rng)


def _to_single_precision(batch: Batch) -> Batch:
    def single(values: Any) -> Any:
        return map_nested(lambda tensor: tensor.float() if tensor.dtype == torch.float64 else tensor, values)

    changes = {name: single(getattr(batch, name)) for name in ("obs", "next_obs", "action", "next_action")}
    return batch.replace(**changes, continuation=batch.continuation and batch.continuation.map(single))


def _is_mapped(array: Any) -> bool:
    """True if an array's values are in a memory-mapped file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)
