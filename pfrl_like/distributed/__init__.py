"""Agents split over several processes: actors that act, and a learner that updates the parameters."""

from pfrl_like.distributed.actor import Actor, SharedWeights
from pfrl_like.distributed.chunk import Chunk
from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.distributed.learner import AgentProxy

__all__ = ["Actor", "AgentProxy", "Chunk", "ChunkSender", "SharedWeights"]
