"""d3rlpy 2's path of `MDPDataset`."""

from pfrl_like.d3rlpy.dataset.replay_buffer import MDPDataset

__all__ = ["MDPDataset"]
