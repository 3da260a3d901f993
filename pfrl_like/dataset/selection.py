"""Selections of episodes, from one dataset or several datasets, as minibatches for training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Batch, Continuation, map_nested
from pfrl_like.columns import Indices
from pfrl_like.dataset.episode import as_episodes, common_table
from pfrl_like.dataset.mdp_dataset import MDPDataset, sample_indices
from pfrl_like.dataset.transition import Transition, TransitionMiniBatch, Transitions
from pfrl_like.utils.random import RandomSource


class Selection:
    """Transitions of selected episodes, numbered from 0.

    Episodes of one dataset are not copied. Episodes of several datasets are copied into one dataset.

    Args:
        episodes: A dataset, or episodes.
        told_next: True to omit transitions whose next observation is a placeholder, because their terminal state was
            not recorded. This is necessary if next observations are training targets.

    Attributes:
        dataset: The dataset that contains the episodes.
        index: Numbers of the transitions in the dataset, shape [n].

    Raises:
        ValueError: If there are no transitions, or if the observations or actions of the episodes have different shapes
            or types.
        TypeError: If an item is not an episode.
    """

    def __init__(self, episodes: Any, told_next: bool = False) -> None:
        self.episodes = as_episodes(episodes)
        table, numbers = common_table(self.episodes)
        self.discrete_action = table.action.ndim == 1
        self.dataset = MDPDataset.of_table(table, self.discrete_action)
        self.observation_shape: tuple[int, ...] = table.obs_shape
        self.action_size = max(episode.get_action_size() for episode in self.episodes)
        begin = np.cumsum(table.lengths) - table.lengths
        self.index = np.concatenate([begin[number] + np.arange(table.lengths[number]) for number in numbers])
        if told_next:
            self.index = self.index[np.isin(table.steps[self.index], table.steps_with_next_obs)]
            if not len(self.index):
                raise ValueError("episodes: every transition ends in a terminal state whose observation is unknown")

    def __len__(self) -> int:
        return len(self.index)

    @property
    def rows(self) -> Indices:
        """Rows of the transitions in the table of `dataset`, [n]."""
        return np.asarray(self.dataset.table.steps[self.index])

    def transitions(self) -> Sequence[Transition]:
        """Return all transitions. A transition is created when it is accessed."""
        return Transitions(self.dataset.table, self.rows, self.action_size)

    def batch(self, index: Indices, *arguments: Any, **options: Any) -> Batch:
        """Return a batch of the transitions with the numbers `index`, like `MDPDataset.batch`."""
        return self.dataset.batch(self.index[index], *arguments, **options)

    def sample_batch(self, n: int, *arguments: Any, rng: RandomSource = None, **options: Any) -> Batch:
        """Sample distinct transitions like `MDPDataset.sample_batch`.

        Raises:
            ValueError: If there are fewer than `n` transitions.
            TypeError: If `rng` is not a NumPy generator.
        """
        return self.batch(sample_indices(n, len(self), rng), *arguments, **options)


class SelectedSequences(Selection):
    """Sequences of selected episodes, numbered like the transitions with which they begin.

    Args:
        episodes: A dataset, or episodes.
        max_len: Maximum number of steps of a sequence.
    """

    def __init__(self, episodes: Any, max_len: int) -> None:
        super().__init__(episodes)
        self.max_len = max_len

    def batch(self, index: Indices, *arguments: Any, n_frames: int = 1, **options: Any) -> Batch:
        """Return the sequences with the numbers `index`, like `MDPDataset.sequences`. Frames are not stacked."""
        return self.dataset.sequences(self.index[index], self.max_len, *arguments, **options)


def batch_of(
    minibatch: TransitionMiniBatch,
    gamma: float,
    device: torch.device | str,
    discrete_action: bool,
    *,
    continuation: float = 0,
    next_actions: bool = False,
) -> Batch:
    """Convert a minibatch of arrays to a batch for agents.

    Args:
        minibatch: The transitions.
        gamma: Discount factor per step.
        device: Device of the tensors.
        discrete_action: True if actions are indices.
        continuation: If 0, `Batch.continuation` is None. Otherwise it contains all steps after the transitions.
        next_actions: True to fill `Batch.next_action`. It is NaN if the episode ends with the steps of the
            transition.
    """

    def tensor(values: Any) -> torch.Tensor:
        array = np.asarray(values)
        return torch.as_tensor(array.astype(np.float32) if array.dtype == np.float64 else array, device=device)

    actions, next_action = minibatch.actions, None
    if next_actions:
        last = [each.next_transition is None for each in minibatch.last_transitions]
        next_action = tensor(minibatch.next_actions.astype(np.float32))
        next_action[last] = torch.nan
    action = tensor(actions.reshape(-1).astype(np.int64) if discrete_action else actions.astype(np.float32))
    discount = tensor((gamma ** minibatch.n_steps[:, 0] * (1 - minibatch.terminals[:, 0])).astype(np.float32))
    obs, next_obs = map_nested(tensor, minibatch.observations), map_nested(tensor, minibatch.next_observations)
    later = _continuation(minibatch, gamma, device) if continuation else None
    options: dict[str, Any] = {"next_action": next_action, "continuation": later, "extra": minibatch.extra}
    return Batch(obs, action, tensor(minibatch.action_rewards[:, 0]), next_obs, discount, **options)


def _continuation(minibatch: TransitionMiniBatch, gamma: float, device: torch.device | str) -> Continuation:
    """Return the steps after the transitions. They are found by the links `next_transition`."""
    index: dict[Any, int] = {}
    nexts: list[Transition | None] = []
    heads = [transition.next_transition for transition in minibatch.last_transitions]
    for following in heads:
        while following is not None and following not in index:
            index[following] = len(index)
            following = following.next_transition
            nexts.append(following)
    steps = [*index]
    first, after = ([index.get(each, -1) for each in transitions] for transitions in (heads, nexts))
    batch = batch_of(TransitionMiniBatch(steps or [minibatch[0]], minibatch.n_frames), gamma, device, False)
    cut = [i for i, step in enumerate(steps) if after[i] < 0 and not step.terminal]
    links = [torch.tensor(numbers, dtype=torch.int64, device=device) for numbers in (first, after, cut)]
    n = len(steps)
    next_obs = map_nested(lambda leaf: leaf[:n], batch.next_obs)
    return Continuation(links[0], batch.reward[:n], batch.discount[:n], next_obs, *links[1:])
