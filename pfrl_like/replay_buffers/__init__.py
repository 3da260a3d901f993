"""Replay buffers over one columnar store."""

from pfrl_like.replay_buffers.episodic import EpisodicReplayBuffer
from pfrl_like.replay_buffers.hindsight import HindsightReplayBuffer
from pfrl_like.replay_buffers.increments import prune
from pfrl_like.replay_buffers.persistent import PersistentEpisodicReplayBuffer, PersistentReplayBuffer
from pfrl_like.replay_buffers.prioritized import PrioritizedReplayBuffer, PriorityWeightError
from pfrl_like.replay_buffers.prioritized_episodic import PrioritizedEpisodicReplayBuffer
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer

__all__ = [
    "EpisodicReplayBuffer",
    "HindsightReplayBuffer",
    "PersistentEpisodicReplayBuffer",
    "PersistentReplayBuffer",
    "PrioritizedEpisodicReplayBuffer",
    "PrioritizedReplayBuffer",
    "PriorityWeightError",
    "ReplayBuffer",
    "prune",
]
