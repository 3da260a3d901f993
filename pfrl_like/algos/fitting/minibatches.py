"""Minibatches of estimators: sampled from data or passed by users."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.agents.offline.combo import IMAGINED
from pfrl_like.algos.fitting.spaces import (
    actions_for,
    check_action_kind,
    check_built_for,
    map_shape,
    numbers_in,
    shape_of_several,
)
from pfrl_like.batch import Batch, concatenate_batches, map_nested
from pfrl_like.dataset import Episode, Transition, TransitionMiniBatch
from pfrl_like.dataset.selection import Selection, batch_of
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.distributed.learner_group import LearnerGroup, priorities, sample_share


class SampledMiniBatch(TransitionMiniBatch):
    """Transitions sampled from a replay buffer. A subclass's `update` receives this object.

    The attribute `reward` of a transition is the reward of the previous step. It is NaN, because it is unknown. Unknown
    next actions are NaN, or -1 if actions are discrete.

    Args:
        batch: The sampled batch.
        algo: Estimator that is trained on the batch.
    """

    def __init__(self, batch: Batch, algo: Any) -> None:
        self.batch = batch
        columns = (batch.obs, batch.action, batch.next_obs, batch.reward, batch.discount)
        obs, action, next_obs, reward, discount = (column.cpu().numpy() for column in columns)
        next_action = np.full_like(action, -1 if algo.discrete_action else np.nan)
        if batch.next_action is not None:
            next_action = batch.next_action.cpu().numpy()
        actions, next_actions = (each if each.ndim > 1 else each.tolist() for each in (action, next_action))
        transitions = [
            Transition(
                obs.shape[1:], algo.action_size, obs[i], actions[i], np.nan, next_obs[i], next_actions[i], reward[i],
                int(discount[i] == 0),
            )
            for i in range(len(batch))
        ]  # fmt: skip
        super().__init__(transitions)


class TrainingData:
    """Minibatches of recorded episodes. A pass contains each transition once. An incomplete last minibatch is skipped.

    Args:
        episodes: A dataset or a list of episodes.
        batch_size: Number of transitions per minibatch. If there are fewer transitions, a minibatch contains all of
            them.
        n_frames: Number of consecutive images that are stacked.
        needs_next_obs: True to exclude transitions to terminal states whose observation was not recorded.
    """

    def __init__(self, episodes: Any, batch_size: int, n_frames: int, needs_next_obs: bool = False) -> None:
        self.source = Selection(episodes, needs_next_obs)
        self.batch_size, self.n_frames = batch_size, n_frames
        self.n_processes = 1  # that learn together; each learns from `batch_size` transitions of a minibatch
        self._generated: Batch | None = None
        self._imagined: Sequence[Transition] = ()
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        self._remaining: NDArray[np.int64] = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of minibatches per pass."""
        return max(1, self._count // (self.batch_size * self.n_processes))

    @property
    def _count(self) -> int:
        return len(self.source) + (0 if self._generated is None else len(self._generated))

    def begin_epoch(self, algo: Any) -> None:
        """Begin a pass. If the estimator has a dynamics model, the model generates new transitions for the pass."""
        self._remaining = self._remaining[:0]
        if algo.dynamics is not None:
            self._imagined = algo.dynamics.generate(algo, self.source.transitions())
            self._generated = batch_for(algo.impl, TransitionMiniBatch(self._imagined), algo.discrete_action)

    def next_batch(self, agent: Any) -> Batch:
        """Return the next minibatch, on the agent's device. After the end of a pass, a new pass begins."""
        group = agent.learner_group
        n = self.n_processes * min(self.batch_size, self._count // self.n_processes)
        if len(self._remaining) < n:
            with contextlib.nullcontext() if group is None else group.draws():
                self._remaining = np.random.permutation(self._count)
        rows, self._remaining = self._remaining[:n], self._remaining[n:]
        self._rows = rows = rows if group is None else rows[group.rows(n)]
        recorded = rows[rows < len(self.source)]
        options = {"n_frames": self.n_frames, **getattr(agent, "sampling", {})}
        parts = [self.source.batch(recorded, agent.gamma, agent.device, **options)] if len(recorded) else []
        if self._generated is not None and len(recorded) < len(rows):
            parts.append(self._generated[rows[rows >= len(self.source)] - len(self.source)])
        batch = concatenate_batches(parts)
        return batch if self._generated is None else batch.replace(extra=self._marks(np.sort(rows), batch))

    def _marks(self, rows: NDArray[np.int64], batch: Batch) -> dict[str, Tensor]:
        """Return the column of `Batch.extra` that is True in rows that a dynamics model generated, on the device."""
        return {IMAGINED: torch.as_tensor(rows >= len(self.source), device=batch.reward.device)}

    def transitions_of(self, batch: Batch, algo: Any) -> TransitionMiniBatch:
        """Return the transitions of the last minibatch."""
        n, recorded = len(self.source), self.source.transitions()
        transitions = [recorded[row] if row < n else self._imagined[row - n] for row in self._rows.tolist()]
        convention = recorded[0].reward_convention
        made = TransitionMiniBatch([each.in_convention(convention) for each in transitions], self.n_frames)
        made.extra = None if batch.extra is None else self._marks(self._rows, batch)
        return made

    def set_td_errors(self, batch: Batch, td_error: Tensor | None) -> None:
        """Do nothing, because recorded data have no priorities."""


def batch_for(agent: Any, transitions: TransitionMiniBatch, discrete_action: bool) -> Batch:
    """Convert transitions to a batch for an agent.

    If the agent needs the steps or the actions after each transition, the batch contains them: the transitions that are
    linked by `next_transition`, or the next actions. If the agent learns from sequences, the transitions are the first
    steps of the sequences.

    Raises:
        ValueError: If the agent learns from sequences, and the rewards of several steps are summed.
    """
    lengths = None
    if getattr(agent, "learns_from_sequences", False):
        if (n := transitions.n_steps.max(initial=1)) > 1:
            raise ValueError(f"batch has n_steps {n:g}, but {type(agent).__name__} needs 1: it sums rewards itself")
        transitions, lengths = sequences_from(transitions, agent.sequence_length)
    batch = batch_of(transitions, agent.gamma, agent.device, discrete_action, **getattr(agent, "sampling", {}))
    return batch if lengths is None else batch.replace(lengths=lengths)


def sequences_from(transitions: TransitionMiniBatch, max_len: int) -> tuple[TransitionMiniBatch, Tensor]:
    """Return the steps of the sequences that begin with the transitions, packed, and the lengths of the sequences.

    Args:
        transitions: First steps. Later steps are linked by `next_transition`.
        max_len: Maximum number of steps of a sequence.
    """
    sequences: list[list[Transition]] = []
    for first in transitions:
        sequence = [first]
        while len(sequence) < max_len and (later := sequence[-1].next_transition) is not None:
            sequence.append(later)
        sequences.append(sequence)
    sequences.sort(key=len, reverse=True)
    steps = [sequence[time] for time in range(len(sequences[0])) for sequence in sequences if time < len(sequence)]
    return TransitionMiniBatch(steps, transitions.n_frames), torch.tensor([*map(len, sequences)])


class SampledData:
    """Minibatches sampled from a replay buffer or a dataset. TD errors update the priorities of a replay buffer.

    Args:
        source: Replay buffer or dataset of unstacked observations, with the method `sample_batch`.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that `sample_batch` stacks. Vectors are not stacked.
        shape: Shape of one unstacked observation; None if unknown.

    Attributes:
        options: Keyword arguments of `sample_batch`, in addition to the arguments that the agent needs.

    Raises:
        TypeError: If the source is a replay buffer that cannot stack images.
    """

    def __init__(self, source: Any, batch_size: int, n_frames: int = 1, shape: tuple[int, ...] | None = None) -> None:
        stacks = n_frames > 1 and (shape is None or stacked_shape(shape, n_frames) != shape)
        if stacks and not getattr(source, "stacks_frames", True):
            raise TypeError(
                f"buffer is {type(source).__name__}, which cannot stack frames in sample_batch, but n_frames is "
                f"{n_frames}: use another buffer, or n_frames=1 with an environment that stacks frames"
            )
        self.source, self.batch_size = source, batch_size
        self.n_processes = 1  # that learn together
        self._group: LearnerGroup | None = None
        self.options = {"n_frames": n_frames} if stacks else {}

    def begin_epoch(self, algo: Any) -> None:
        """Do nothing, because minibatches are sampled independently."""

    def next_batch(self, agent: Any) -> Batch:
        """Return a minibatch sampled from the source, on the agent's device."""
        options = {"gamma": agent.gamma, "device": agent.device, **agent.sampling, **self.options}
        self._group = agent.learner_group
        return sample_share(self._group, lambda n: self.source.sample_batch(n, **options), self.batch_size)

    def transitions_of(self, batch: Batch, algo: Any) -> TransitionMiniBatch:
        """Return the transitions of a minibatch."""
        return SampledMiniBatch(batch, algo)

    def set_td_errors(self, batch: Batch, td_error: Tensor | None) -> None:
        """Update the priorities, if the replay buffer has any. If `td_error` is None, all priorities stay unchanged."""
        if batch.weight is not None and td_error is not None:
            self.source.update_priorities(*priorities(self._group, batch, td_error))
        elif batch.weight is not None:
            self.source.update_priorities(batch.index[:0], [])


def fitting_batch(algo: Any, agent: Any, batch: Any) -> Batch:
    """Convert a minibatch of the user to the batch on which the agent is trained.

    Args:
        algo: The estimator.
        agent: Agent of the estimator.
        batch: A `TransitionMiniBatch` or a `Batch`.

    Raises:
        TypeError: If `batch` has another type, or another kind of actions (discrete, continuous) than the estimator.
        ValueError: If observations or actions have the wrong shape, if the number of actions differs from the number of
            rewards, or if a discrete action does not exist.
        NonFiniteError: If an action is NaN or infinite.
    """
    if isinstance(batch, TransitionMiniBatch):
        obs, next_obs, actions = batch.observations, batch.next_observations, batch.actions
        vectors = np.ndim(batch.transitions[0].action) > 0
    elif isinstance(batch, Batch):
        obs, next_obs, actions = batch.obs, batch.next_obs, numbers_in("action", batch.action)
        vectors = actions.ndim > 1
    else:
        raise TypeError(f"batch is {type(batch).__name__}, expected a TransitionMiniBatch or a Batch")
    shape = None if algo.observation_shape is None else algo._stacked_shape
    for name, values in (("observations", obs), ("next observations", next_obs)):
        got: Any = map_nested(lambda leaf: tuple(np.shape(leaf)), values)
        if shape is not None and got != map_shape(lambda one: (len(batch), *one), shape):
            expected = f"{shape_of_several(shape, algo.n_frames)} with n = {len(batch)}"
            raise ValueError(f"batch has {name} of shape {got}, expected {expected}")
    integers = actions.dtype.kind in "iu"
    check_action_kind(algo, integers and (algo.discrete_action or not vectors), "the batch has")
    actions = actions_for(actions, algo.action_size, algo.discrete_action)
    if len(actions) != len(batch):
        raise ValueError(f"batch has {len(actions)} actions, expected {len(batch)}")
    if isinstance(batch, TransitionMiniBatch):
        converted = batch_for(agent, batch, algo.discrete_action)
        if not isinstance(batch, SampledMiniBatch):
            return converted
        names = ("obs", "action", "reward", "next_obs")  # the user may have changed these columns and the discount
        discount = torch.where(converted.discount == 0, 0.0, batch.batch.discount)
        return batch.batch.replace(discount=discount, **{name: getattr(converted, name) for name in names})
    fitting: Batch = batch.replace(action=torch.as_tensor(actions, device=batch.reward.device))
    return fitting


def check_eval_episodes(algo: Any, episodes: Any) -> None:
    """Check that an estimator can act on evaluation episodes. Items that are not episodes are not checked.

    Args:
        algo: Estimator with a built agent.
        episodes: The argument `eval_episodes` of `fit`.

    Raises:
        TypeError: If the episodes have another kind of actions (discrete, continuous) than the estimator.
        ValueError: If observations or actions have the wrong shape.
    """
    items = getattr(episodes, "episodes", episodes)
    checked = [each for each in items if isinstance(each, Episode)] if isinstance(items, Sequence) else []
    for episode in {(id(each.table), each.get_action_size()): each for each in checked}.values():
        check_action_kind(algo, episode.table.action.ndim == 1, "eval_episodes have")
        shape, size = episode.get_observation_shape(), episode.get_action_size()
        check_built_for(algo, algo.observation_shape_, algo.action_size_, shape, size, "eval_episodes: ")
