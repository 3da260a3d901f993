"""`MixedReplayBuffer`, two datasets that are sampled in a fixed ratio."""

from collections.abc import Sequence
from typing import Any

from pfrl_like.d3rlpy.dataset.components import EpisodeBase, PartialTrajectory, Transition
from pfrl_like.d3rlpy.dataset.io import PathOrFile
from pfrl_like.d3rlpy.dataset.replay_buffer import ReplayBuffer
from pfrl_like.utils.checks import check_numbers


class MixedReplayBuffer(ReplayBuffer):
    """Two datasets from which minibatches are sampled in a fixed ratio.

    New rows, `buffer`, `transition_picker`, `trajectory_slicer` and `dataset_info` are those of the first dataset.

    Args:
        primary_replay_buffer: First dataset.
        secondary_replay_buffer: Second dataset, of the same kind of values.
        secondary_mix_ratio: Share of the second dataset in a minibatch. The share of the first is rounded down.

    Attributes:
        primary_replay_buffer: First dataset.
        secondary_replay_buffer: Second dataset.

    Raises:
        ValueError: If the ratio is not from 0 to 1.
        TypeError: If the ratio is not a number.
    """

    primary_replay_buffer: ReplayBuffer
    secondary_replay_buffer: ReplayBuffer

    def __init__(
        self, primary_replay_buffer: ReplayBuffer, secondary_replay_buffer: ReplayBuffer, secondary_mix_ratio: float
    ) -> None:
        check_numbers(0, 1, secondary_mix_ratio=secondary_mix_ratio)
        self.primary_replay_buffer = primary_replay_buffer
        self.secondary_replay_buffer = secondary_replay_buffer
        self._ratio = secondary_mix_ratio
        for name in ("buffer", "transition_picker", "trajectory_slicer", "dataset_info"):
            setattr(self, name, getattr(primary_replay_buffer, name))

    def shares(self, n: int) -> list[tuple[ReplayBuffer, int]]:
        """Return the datasets from which n transitions are sampled, with the number of transitions of each."""
        primary = int((1 - self._ratio) * n)
        both = (self.primary_replay_buffer, primary), (self.secondary_replay_buffer, n - primary)
        return [share for dataset, count in both if count for share in dataset.shares(count)]

    def append(self, observation: Any, action: Any, reward: Any) -> None:
        """Append a row to the running episode of the first dataset."""
        self.primary_replay_buffer.append(observation, action, reward)

    def append_episode(self, episode: EpisodeBase) -> None:
        """Add the transitions of an episode to the first dataset."""
        self.primary_replay_buffer.append_episode(episode)

    def clip_episode(self, terminated: bool) -> None:
        """End the running episode of the first dataset."""
        self.primary_replay_buffer.clip_episode(terminated)

    def sample_transition(self) -> Transition:
        """Raise an error, because a single transition cannot be mixed.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("MixedReplayBuffer mixes whole minibatches: call sample_transition_batch")

    def sample_trajectory(self, length: int) -> PartialTrajectory:
        """Raise an error, because a single trajectory cannot be mixed.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("MixedReplayBuffer mixes whole minibatches: call sample_trajectory_batch")

    def dump(self, f: PathOrFile) -> None:
        """Raise an error, because a file contains one dataset.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("MixedReplayBuffer: call dump of primary_replay_buffer and secondary_replay_buffer")

    @property
    def episodes(self) -> Sequence[EpisodeBase]:
        """Episodes of both datasets."""
        return [*self.primary_replay_buffer.episodes, *self.secondary_replay_buffer.episodes]

    def size(self) -> int:
        """Return the number of episodes of both datasets."""
        return self.primary_replay_buffer.size() + self.secondary_replay_buffer.size()

    @property
    def transition_count(self) -> int:
        """Number of transitions of both datasets."""
        return self.primary_replay_buffer.transition_count + self.secondary_replay_buffer.transition_count
