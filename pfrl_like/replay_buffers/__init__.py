"""Replay buffers over one columnar store."""

from pfrl_like.replay_buffers.episodic import EpisodicReplayBuffer as EpisodicReplayBuffer
from pfrl_like.replay_buffers.hindsight import HindsightReplayBuffer as HindsightReplayBuffer
from pfrl_like.replay_buffers.persistent import PersistentEpisodicReplayBuffer as PersistentEpisodicReplayBuffer
from pfrl_like.replay_buffers.persistent import PersistentReplayBuffer as PersistentReplayBuffer
from pfrl_like.replay_buffers.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
from pfrl_like.replay_buffers.prioritized import PriorityWeightError as PriorityWeightError
from pfrl_like.replay_buffers.prioritized_episodic import (
    PrioritizedEpisodicReplayBuffer as PrioritizedEpisodicReplayBuffer,
)
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer as ReplayBuffer
