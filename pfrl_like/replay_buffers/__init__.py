"""Replay buffers: uniform, prioritised, episodic, hindsight and persistent, on one columnar store."""

from pfrl_like.replay_buffers.episodic import EpisodicReplayBuffer
from pfrl_like.replay_buffers.hindsight import HindsightReplayBuffer
from pfrl_like.replay_buffers.persistent import PersistentEpisodicReplayBuffer, PersistentReplayBuffer
from pfrl_like.replay_buffers.prioritized import PrioritizedReplayBuffer, PriorityWeightError
from pfrl_like.replay_buffers.prioritized_episodic import PrioritizedEpisodicReplayBuffer
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.saved import prune

__all__ = [
    "EpisodicReplayBuffer", "HindsightReplayBuffer", "PersistentEpisodicReplayBuffer", "PersistentReplayBuffer",
    "PrioritizedEpisodicReplayBuffer", "PrioritizedReplayBuffer", "PriorityWeightError", "ReplayBuffer", "prune",
]  # fmt: skip
