"""General containers: a queue with random access, a prioritised queue and a sum tree."""

from pfrl_like.collections.prioritized import PrioritizedBuffer, SumTree
from pfrl_like.collections.random_access_queue import RandomAccessQueue

__all__ = ["PrioritizedBuffer", "RandomAccessQueue", "SumTree"]
