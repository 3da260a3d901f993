"""Trajectory slicers: functions that make a `PartialTrajectory` of consecutive rows of an episode."""

from typing import Protocol

import numpy as np

from pfrl_like.d3rlpy.dataset.components import EpisodeBase, PartialTrajectory
from pfrl_like.d3rlpy.dataset.nested import (
    batch_pad_array,
    batch_pad_observations,
    map_parts,
    recent_frames,
    stack_parts,
)
from pfrl_like.utils.checks import check_counts


class TrajectorySlicerProtocol(Protocol):
    """Interface of trajectory slicers."""

    def __call__(self, episode: EpisodeBase, end_index: int, size: int) -> PartialTrajectory:
        """Return consecutive rows of an episode.

        Args:
            episode: The episode.
            end_index: Index of the last row.
            size: Number of rows; missing rows before the first one are zeros.
        """
        ...


class BasicTrajectorySlicer(TrajectorySlicerProtocol):
    """Slicer of rows as they are."""

    _n_frames = 1

    def __call__(self, episode: EpisodeBase, end_index: int, size: int) -> PartialTrajectory:
        """Return consecutive rows of an episode.

        Args:
            episode: The episode.
            end_index: Index of the last row.
            size: Number of rows; missing rows before the first one are zeros.

        Raises:
            IndexError: If the episode has no row `end_index`.
            ValueError: If `size` is less than 1.
            TypeError: If `size` is not an integer.
        """
        check_counts(size=size)
        if not 0 <= end_index < episode.size():
            raise IndexError(f"end_index: got {end_index}, expected 0 to {episode.size() - 1} in this episode")
        end, start = end_index + 1, max(0, end_index + 1 - size)
        missing = size - (end - start)
        observations = episode.observations
        if self._n_frames == 1:
            rows = map_parts(lambda array: array[start:end], observations)
        else:
            rows = stack_parts([recent_frames(observations, i, self._n_frames) for i in range(start, end)], np.float64)
        rewards = episode.rewards
        to_go = np.cumsum(rewards[start:][::-1], axis=0)[::-1][: end - start]
        terminals = np.zeros((size, 1), np.float32)
        terminals[-1] = episode.terminated and end == episode.size()
        return PartialTrajectory(
            observations=batch_pad_observations(rows, missing),
            actions=batch_pad_array(episode.actions[start:end], missing),
            rewards=batch_pad_array(rewards[start:end], missing),
            returns_to_go=batch_pad_array(to_go.astype(rewards.dtype), missing),
            terminals=terminals,
            timesteps=batch_pad_array(np.arange(start + 1, end + 1), missing),
            masks=batch_pad_array(np.ones(end - start, np.float32), missing),
            length=size,
        )


class FrameStackTrajectorySlicer(BasicTrajectorySlicer):
    """Slicer that stacks images [C, H, W] to [n_frames * C, H, W], oldest first.

    Images before the first one are zeros. Other arrays are stacked along their first axis, too. The stacks are float64.

    Args:
        n_frames: Number of images that are stacked.

    Raises:
        ValueError: If `n_frames` is less than 1.
        TypeError: If `n_frames` is not an integer.
    """

    def __init__(self, n_frames: int) -> None:
        check_counts(n_frames=n_frames)
        self._n_frames = n_frames
