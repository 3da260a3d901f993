"""Adapter for Weights & Biases, at the path that d3rlpy's scripts import."""

from pfrl_like.d3rlpy.logging.adapters import WanDBAdapter, WanDBAdapterFactory

__all__ = ["WanDBAdapter", "WanDBAdapterFactory"]
