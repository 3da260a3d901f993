"""Buffer, explorers and training loop with which d3rlpy's scripts train algorithms online: adapters."""

from pfrl_like.online import buffers, explorers, iterators

__all__ = [
    "buffers",
    "explorers",
    "iterators",
]
