"""The border between datasets of d3rlpy 2 and this library: batches for agents, and conversion of datasets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.algos.fitting.epochs import is_overridden
from pfrl_like.batch import Batch, concatenate_batches, map_nested
from pfrl_like.columns import ENDED, Columns, Indices, stacks
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset.buffers import InfiniteBuffer
from pfrl_like.d3rlpy.dataset.columns import EpisodeColumns, column_action, column_observation
from pfrl_like.d3rlpy.dataset.components import Episode, EpisodeBase
from pfrl_like.d3rlpy.dataset.mini_batch import TransitionMiniBatch
from pfrl_like.d3rlpy.dataset.nested import map_parts
from pfrl_like.d3rlpy.dataset.replay_buffer import ReplayBuffer
from pfrl_like.d3rlpy.dataset.trajectory_slicers import TrajectorySlicerProtocol
from pfrl_like.d3rlpy.dataset.transition_pickers import KNOWN_PICKERS, StepPicker, TransitionPickerProtocol
from pfrl_like.d3rlpy.preprocessing import RewardScaler
from pfrl_like.dataset import MDPDataset as LibraryDataset

Pairs = Sequence[tuple[EpisodeBase, int]]


def sample_batch(
    dataset: ReplayBuffer, n: int, gamma: float, device: torch.device | str = "cpu", *, returns: bool = False
) -> Batch:
    """Sample transitions with replacement for `agent.update`, with NumPy's global stream, like d3rlpy.

    If a subclass of `ReplayBuffer` defines `sample_transition_batch` or `sample_transition`, that method samples.

    Args:
        dataset: The dataset.
        n: Number of transitions.
        gamma: Discount factor per step.
        device: Device of the tensors.
        returns: True to fill `Batch.returns`, see `batch_of`.

    Raises:
        ValueError: If there are no transitions.
    """
    own_batches = is_overridden(dataset, "sample_transition_batch")
    shares = [] if own_batches else dataset.shares(n)
    if own_batches or any(is_overridden(each, "sample_transition") for each, _ in shares):
        discrete = dataset.dataset_info.action_space == ActionSpace.DISCRETE
        return batch_of_minibatch(dataset.sample_transition_batch(n), gamma, discrete, device, returns=returns)
    parts = [batch_of(each, each.sample_indices(k), gamma, device, returns=returns) for each, k in shares]
    return parts[0] if len(parts) == 1 else concatenate_batches(parts)


def batch_of(
    dataset: ReplayBuffer, index: Indices, gamma: float, device: torch.device | str = "cpu", *, returns: bool = False
) -> Batch:
    """Return transitions of a dataset as a batch for `agent.update`.

    The picker of the dataset decides about steps and stacked images: `Batch.discount` is gamma**interval, or 0 after a
    terminal state, and next observations and next actions after a terminal state are zeros. Transitions of the
    pickers of this package are read from columns. Other pickers are called for each transition. Double precision is
    converted to single precision; images keep their dtype.

    Args:
        dataset: The dataset.
        index: Numbers of the transitions in `dataset.buffer`, [n].
        gamma: Discount factor per step.
        device: Device of the tensors.
        returns: True to fill `Batch.returns` with the discounted sum of `Transition.rewards_to_go`.

    Raises:
        ValueError: If discrete actions are not single numbers >= 0, or if columns have different lengths.
        NonFiniteError: If a value of the dataset is NaN or infinite.
    """
    pairs: Pairs = [dataset.buffer[i] for i in index.tolist()]
    picker = dataset.transition_picker
    n_frames = getattr(picker, "n_frames", 1)
    in_tuples = len(dataset.dataset_info.observation_signature.shape) > 1
    if type(picker) not in KNOWN_PICKERS or (in_tuples and n_frames > 1):
        return _picked_batch(dataset, pairs, index, gamma, device, returns)
    assert isinstance(picker, StepPicker)
    stored, columns = dataset.columns, dataset.columns.columns
    rows = stored.rows_of(pairs)
    columns.find_windows(rows, picker.n_steps)
    stacked = stacks(columns, n_frames, vectors=True) if n_frames > 1 else None
    # With several steps, the rewards have the picker's discount factor, and targets have the agent's.
    batch = columns.batch(rows, index, None, picker.n_steps, picker.gamma, device, stacked=stacked)
    steps, last = columns.lookahead[rows], columns.window_end[rows]

    def tensor(values: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(values, device=device)

    next_obs = batch.next_obs
    terminal = steps == 0
    if terminal.any():
        ended = tensor(terminal)
        next_obs = map_nested(lambda t: t.masked_fill(ended.view(-1, *[1] * (t.ndim - 1)), 0), next_obs)
    to_go = [picker.rewards_to_go(*pair) for pair in pairs] if returns else []
    return batch.replace(
        obs=_single(batch.obs), next_obs=_single(next_obs), action=_single(batch.action),
        next_action=tensor(_next_actions(stored, columns, last, terminal, pairs)),
        discount=tensor(np.where(terminal, 0, gamma**steps).astype(np.float32)),
        returns=tensor(_discounted(to_go, gamma).astype(np.float32)) if returns else None,
    )  # fmt: skip


def _next_actions(
    stored: EpisodeColumns, columns: Columns, last: Indices, terminal: NDArray[np.bool_], pairs: Pairs
) -> NDArray[Any]:
    """Return the actions after the steps `last`, [n] or [n, A]. After a terminal state they are zeros."""
    assert columns.plain_action is not None
    following = columns.successor[last]
    actions = columns.plain_action[np.maximum(following, ENDED)]
    actions[terminal] = 0
    for i in np.flatnonzero((following <= ENDED) & ~terminal).tolist():  # the last row of an episode is not in columns
        actions[i] = column_action(pairs[i][0].actions[-1], stored.discrete)
    return actions


def _single(values: Any) -> Any:
    return map_nested(lambda tensor: tensor.float() if tensor.dtype == torch.float64 else tensor, values)


def _discounted(rewards_to_go: Sequence[NDArray[Any]], gamma: float) -> NDArray[Any]:
    powers = gamma ** np.arange(max(map(len, rewards_to_go)))
    return np.array([powers[: len(rewards)] @ rewards[:, 0] for rewards in rewards_to_go])


def _picked_batch(
    dataset: ReplayBuffer, pairs: Pairs, index: Indices, gamma: float, device: torch.device | str, returns: bool
) -> Batch:
    """Return the transitions that a user's picker makes as a batch."""
    transitions = [dataset.transition_picker(*pair) for pair in pairs]
    discrete = dataset.dataset_info.action_space == ActionSpace.DISCRETE
    minibatch = TransitionMiniBatch.from_transitions(transitions)
    return batch_of_minibatch(minibatch, gamma, discrete, device, returns=returns).replace(index=index)


def batch_of_minibatch(
    minibatch: TransitionMiniBatch, gamma: float, discrete: bool, device: torch.device | str = "cpu", *,
    returns: bool = False, reward_scaler: RewardScaler | None = None,
) -> Batch:  # fmt: skip
    """Return a minibatch as a batch for `agent.update`. Numbers have PyTorch's default dtype.

    Args:
        minibatch: The minibatch.
        gamma: Discount factor per step.
        discrete: True if actions are indices.
        device: Device of the tensors.
        returns: True to fill `Batch.returns` with the discounted sum of `Transition.rewards_to_go`.
        reward_scaler: Scaler of `Transition.rewards_to_go`. If None, they are not scaled.
    """

    def tensor(values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.get_default_dtype(), device=device)

    def actions(values: NDArray[np.float32]) -> torch.Tensor:
        return tensor(values[:, 0]).long() if discrete else tensor(values)

    to_go = [transition.rewards_to_go for transition in minibatch.transitions] if returns else []
    if reward_scaler is not None:
        to_go = [reward_scaler.transform_numpy(rewards) for rewards in to_go]
    return Batch(
        obs=map_nested(tensor, column_observation(minibatch.observations)), action=actions(minibatch.actions),
        reward=tensor(minibatch.rewards[:, 0]), next_action=actions(minibatch.next_actions),
        next_obs=map_nested(tensor, column_observation(minibatch.next_observations)),
        discount=tensor(gamma ** minibatch.intervals[:, 0].astype(float) * (1 - minibatch.terminals[:, 0])),
        returns=tensor(_discounted(to_go, gamma)) if returns else None,
    )  # fmt: skip


def from_library_dataset(
    dataset: LibraryDataset,
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
) -> ReplayBuffer:
    """Convert a dataset of `pfrl_like.dataset`, in either reward convention, to a dataset of d3rlpy 2.

    Terminal states and log-probabilities are dropped, because d3rlpy does not store them. Episodes without a step are
    dropped. The last row of a truncated episode has the reward 0 and, if the action is unknown, the action 0.

    Args:
        dataset: The dataset.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.

    Raises:
        TypeError: If `dataset` is not a dataset of `pfrl_like.dataset`, or if observations are dicts.
        ValueError: If there are no transitions.
    """
    if not isinstance(dataset, LibraryDataset):
        advice = "for episodes, call create_infinite_replay_buffer(episodes)"
        raise TypeError(f"dataset is {type(dataset).__name__}, expected a ReplayBuffer or an MDPDataset: {advice}")
    table, discrete = dataset.table, dataset.discrete_action
    structure = table.obs.structure
    if isinstance(structure, dict) or (isinstance(structure, tuple) and not all(isinstance(i, int) for i in structure)):
        raise TypeError("dataset: observations are dicts, expected an array or a tuple of arrays in each step")
    kept = np.flatnonzero(table.lengths > 0)
    if not len(kept):
        raise ValueError("dataset: has no transitions, expected at least one")
    episodes = []
    for number in kept.tolist():
        terminated = bool(table.terminated[number])
        rows = np.arange(table.starts[number], table.ends[number] + (not terminated))
        observations = map_parts(lambda array: array, table.observations(rows))
        rewards = table.reward[rows - 1].reshape(-1, 1)
        episodes.append(Episode(observations, table.action[rows - 1].reshape(len(rows), -1), rewards, terminated))
    return ReplayBuffer(
        InfiniteBuffer(), transition_picker, trajectory_slicer, episodes=episodes,
        action_space=ActionSpace.DISCRETE if discrete else ActionSpace.CONTINUOUS,
        action_size=dataset.get_action_size(),
    )  # fmt: skip


def as_replay_buffer(dataset: Any) -> ReplayBuffer:
    """Return a dataset of d3rlpy 2 unchanged, and convert a dataset of `pfrl_like.dataset`.

    Raises:
        TypeError: If `dataset` is no dataset, or if observations are dicts.
        ValueError: If there are no transitions.
    """
    return dataset if isinstance(dataset, ReplayBuffer) else from_library_dataset(dataset)
