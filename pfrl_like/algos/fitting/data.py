"""The minibatches of an estimator's training: passes over transitions in random order, or draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.dataset import Transition, TransitionMiniBatch
from pfrl_like.dataset.selection import Selection, batch_of
from pfrl_like.dataset.transition import stacked_shape


class DrawnMiniBatch(TransitionMiniBatch):
    """Transitions of a replay buffer, as users see them, with the batch that they were drawn as.

    Rewards that came with the observations are not known, NaN; nor are most next actions, NaN, or -1 if discrete.

    Args:
        batch: The batch.
        algo: The estimator that learns from it.
    """

    def __init__(self, batch: Batch, algo: Any) -> None:
        self.drawn = batch
        columns = (batch.obs, batch.action, batch.next_obs, batch.reward, batch.discount)
        obs, action, next_obs, reward, discount = (column.cpu().numpy() for column in columns)
        following = np.full_like(action, -1 if algo.discrete_action else np.nan)
        if batch.next_action is not None:
            following = batch.next_action.cpu().numpy()
        transitions = [
            Transition(
                obs.shape[1:], algo.action_size, obs[i], _plain(action[i]), np.nan, next_obs[i], _plain(following[i]),
                reward[i], int(discount[i] == 0),
            )
            for i in range(len(batch))
        ]  # fmt: skip
        super().__init__(transitions)


def _plain(action: Any) -> Any:
    return int(action) if np.ndim(action) == 0 else action


class TrainingData:
    """Minibatches of episodes; in a pass over them each transition comes once, save for the rest of the last one.

    Args:
        episodes: A dataset or a list of episodes.
        batch_size: Transitions of a minibatch; fewer if there are not as many.
        n_frames: Images that are stacked.
        told_next: As of `Selection`.
    """

    def __init__(self, episodes: Any, batch_size: int, n_frames: int, told_next: bool = False) -> None:
        self.selection = Selection(episodes, told_next)
        self.batch_size, self.n_frames = batch_size, n_frames
        self._generated: Batch | None = None
        self._imagined: Sequence[Transition] = ()
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        self._left: NDArray[np.int64] = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Minibatches of a pass."""
        return max(1, self._count // self.batch_size)

    @property
    def _count(self) -> int:
        return len(self.selection) + (0 if self._generated is None else len(self._generated))

    def begin_epoch(self, algo: Any) -> None:
        """Begin a pass, with what the estimator's dynamics model generates now."""
        self._left = self._left[:0]
        if algo.dynamics is not None:
            self._imagined = algo.dynamics.generate(algo, self.selection.transitions())
            self._generated = batch_for(algo.impl, TransitionMiniBatch(self._imagined), algo.discrete_action)

    def next_batch(self, agent: Any) -> Batch:
        """The next minibatch, on the agent's device; after a pass the next one begins."""
        if len(self._left) < min(self.batch_size, self._count):
            self._left = np.random.permutation(self._count)
        self._rows = rows = self._left[: self.batch_size]
        self._left = self._left[self.batch_size :]
        recorded = rows[rows < len(self.selection)]
        options = {"n_frames": self.n_frames, **getattr(agent, "sampling", {})}
        parts = [self.selection.batch(recorded, agent.gamma, agent.device, **options)] if len(recorded) else []
        if self._generated is not None and len(recorded) < len(rows):
            parts.append(self._generated[rows[rows >= len(self.selection)] - len(self.selection)])
        return concatenate_batches(parts)

    def shown(self, batch: Batch, algo: Any) -> TransitionMiniBatch:
        """The transitions of the last batch."""
        n, recorded = len(self.selection), self.selection.transitions()
        chosen = [recorded[row] if row < n else self._imagined[row - n] for row in self._rows.tolist()]
        convention = recorded[0].reward_convention
        return TransitionMiniBatch([each.in_convention(convention) for each in chosen], self.n_frames)

    def learnt(self, batch: Batch, td_error: Tensor | None) -> None:
        """Nothing is made of it."""


def batch_for(agent: Any, transitions: TransitionMiniBatch, discrete_action: bool) -> Batch:
    """Transitions as an agent learns from them, with what comes after them, by their links, if it looks at that."""
    future = getattr(agent, "sampling", {}).get("future", 0)
    return batch_of(transitions, agent.gamma, agent.device, discrete_action, future=future)


def drawn_data(source: Any, batch_size: int, n_frames: int, shape: tuple[int, ...] | None) -> "DrawnData":
    """Minibatches of single observations that are stacked when they are drawn, if they are images.

    Args:
        source: Has `sample_batch`.
        batch_size: Transitions of a minibatch.
        n_frames: Images that are stacked.
        shape: Shape of a single observation; None if it is not known.

    Raises:
        TypeError: If the source is a replay buffer that cannot stack them.
    """
    if n_frames == 1 or (shape is not None and stacked_shape(shape, n_frames) == shape):
        return DrawnData(source, batch_size)
    if not getattr(source, "stacks_frames", True):
        raise TypeError(
            f"buffer is a {type(source).__name__}, whose sample_batch does not stack frames, but n_frames is "
            f"{n_frames}: use another one of pfrl_like.replay_buffers, or n_frames=1 where the environment stacks"
        )
    return DrawnData(source, batch_size, n_frames=n_frames)


class DrawnData:
    """Minibatches that are drawn at random, of a replay buffer, whose priorities it learns, or of recorded data.

    Args:
        source: Has `sample_batch`.
        batch_size: Transitions of a minibatch.
        options: Further arguments of `sample_batch`, beside those that the agent needs.
    """

    def __init__(self, source: Any, batch_size: int, **options: Any) -> None:
        self.source, self.batch_size, self.options = source, batch_size, options

    def next_batch(self, agent: Any) -> Batch:
        """A minibatch, drawn as the source draws."""
        options = agent.sampling | self.options
        batch: Batch = self.source.sample_batch(self.batch_size, agent.gamma, agent.device, **options)
        return batch

    def shown(self, batch: Batch, algo: Any) -> TransitionMiniBatch:
        """The transitions of a batch."""
        return DrawnMiniBatch(batch, algo)

    def learnt(self, batch: Batch, td_error: Tensor | None) -> None:
        """Write the priorities back; without TD errors they stay."""
        if batch.weight is not None and td_error is not None:
            self.source.update_priorities(batch.index, td_error)
        elif batch.weight is not None:
            self.source.update_priorities(batch.index[:0], [])
