"""Replay buffer, explorers and training loop with the interfaces of d3rlpy's online training."""

from pfrl_like.online import buffers, explorers, iterators

__all__ = ["buffers", "explorers", "iterators"]
