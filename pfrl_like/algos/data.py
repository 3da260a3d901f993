"""The minibatches of an estimator's training: passes over transitions in random order, or draws."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.dataset.selection import Selection, batch_of
from pfrl_like.dataset.transition import stacked_shape


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
            generated = TransitionMiniBatch(algo.dynamics.generate(algo, self.selection.transitions()))
            self._generated = batch_for(algo.impl, generated, algo.discrete_action)

    def next_batch(self, agent: Any) -> Batch:
        """The next minibatch, on the agent's device; after a pass the next one begins."""
        if len(self._left) < min(self.batch_size, self._count):
            self._left = np.random.permutation(self._count)
        rows, self._left = self._left[: self.batch_size], self._left[self.batch_size :]
        recorded = rows[rows < len(self.selection)]
        options = {"n_frames": self.n_frames, **getattr(agent, "sampling", {})}
        parts = [self.selection.batch(recorded, agent.gamma, agent.device, **options)] if len(recorded) else []
        if self._generated is not None and len(recorded) < len(rows):
            parts.append(self._generated[rows[rows >= len(self.selection)] - len(self.selection)])
        return concatenate_batches(parts)

    def learnt(self, batch: Batch, td_error: Tensor) -> None:
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

    def learnt(self, batch: Batch, td_error: Tensor) -> None:
        """Write the priorities back."""
        if batch.weight is not None:
            self.source.update_priorities(batch.index, td_error)
