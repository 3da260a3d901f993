"""Containers that know nothing of reinforcement learning."""

from pfrl_like.collections.prioritized import PrioritizedBuffer
from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.collections.sum_tree import SumTree

__all__ = ["PrioritizedBuffer", "RandomAccessQueue", "SumTree"]
