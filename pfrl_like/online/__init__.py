"""Adapters for the online training of d3rlpy's scripts: replay buffer, explorers and training loop."""

from pfrl_like.online import buffers, explorers, iterators

__all__ = ["buffers", "explorers", "iterators"]
