"""The interface of replay buffers: what an agent may ask of one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from pfrl_like.batch import Batch


class AbstractReplayBuffer(ABC):
    """Experience that an agent stores step by step and samples from.

    `append`, `sample`, `save`, `load`, `stop_current_episode` have PFRL's form; `append_batch` and `sample_batch`
    do the same for whole columns and are what the agents call.
    """

    #: Whether sampled batches carry importance weights and wait for `update_priorities`.
    prioritized: bool = False

    @property
    @abstractmethod
    def capacity(self) -> int | None:
        """Largest number of samplable items, None if unbounded."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of samplable items."""

    @abstractmethod
    def append(
        self,
        state: Any,
        action: Any,
        reward: float,
        next_state: Any = None,
        next_action: Any = None,
        is_state_terminal: bool = False,
        env_id: Any = 0,
        **kwargs: Any,
    ) -> None:
        """Store one transition.

        Args:
            state: Observation s_t, an array or nested dicts and tuples of arrays; it is copied.
            action: Action a_t.
            reward: Reward of a_t.
            next_state: Observation s_{t+1}; may be None after a terminal step.
            next_action: Action a_{t+1}, if known.
            is_state_terminal: Whether s_{t+1} is terminal, so that nothing may be bootstrapped from it.
            env_id: Which environment the step comes from; any hashable object.
            **kwargs: Further columns; every later step has to bring the same ones.
        """

    @abstractmethod
    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Sequence[Any] | None = None,
        **extra: Any,
    ) -> None:
        """Store one transition of each of several environments; ends the episodes that are terminated or truncated.

        Args:
            obs: Observations, a sequence or stacked array of length k (nested: of each leaf's own stack or a list).
            action: Actions, length k.
            reward: Rewards, length k.
            next_obs: Observations after the step (at an episode's end: its true last observation), length k.
            terminated: Whether next_obs is terminal, length k.
            truncated: Whether the episode was cut off there, length k.
            env_ids: Which environments; None is range(k).
            **extra: Further columns, each of length k.
        """

    @abstractmethod
    def stop_current_episode(self, env_id: Any = 0) -> None:
        """Say that the running episode of `env_id` was cut off, so that the next step starts a new one."""

    @abstractmethod
    def sample(self, num_experiences: int) -> Any:
        """Draw distinct items, each a list of one to n transition dicts.

        Raises:
            ValueError: If more are asked for than the buffer holds.
        """

    @abstractmethod
    def sample_batch(self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu") -> Batch:
        """Make the same draw as `sample` and gather it as tensors.

        Args:
            n: Number of distinct items.
            gamma: Discount factor per step, used for n-step sums and for `Batch.discount`.
            device: Where the tensors go.

        Raises:
            ValueError: If `n` is larger than the buffer.
        """

    @abstractmethod
    def save(self, filename: str) -> None:
        """Write the content to one file, atomically."""

    @abstractmethod
    def load(self, filename: str) -> None:
        """Replace the content by that of a file.

        Raises:
            CheckpointError: If the file is damaged or is not a saved buffer; the old content stays.
        """

    def update_priorities(self, index: Any, td_error: Any) -> None:
        """Write back the errors of sampled items; items overwritten meanwhile are skipped.

        Args:
            index: `Batch.index` of the batch that was learnt from.
            td_error: The errors, tensor or array of the same length.

        Raises:
            TypeError: If this buffer keeps no priorities.
        """
        raise TypeError(f"{type(self).__name__} keeps no priorities")


class AbstractEpisodicReplayBuffer(AbstractReplayBuffer):
    """A replay buffer that can also give whole episodes and parts of them."""

    @property
    @abstractmethod
    def n_episodes(self) -> int:
        """Number of finished episodes that can be sampled."""

    @abstractmethod
    def sample_episodes(self, n_episodes: int, max_len: int | None = None) -> Any:
        """Draw distinct episodes as lists of transition dicts, each cut at random to at most `max_len` steps."""

    @abstractmethod
    def sample_sequences(
        self, n: int, max_len: int | None = None, gamma: float = 1.0, device: torch.device | str = "cpu"
    ) -> Batch:
        """Make the same draw as `sample_episodes` and gather it as a `Batch` of sequences (`Batch.lengths`)."""
