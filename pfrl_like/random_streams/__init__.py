"""Random streams of programs, environments and agents: search, isolation, saving and restoring."""

from pfrl_like.random_streams.streams import GlobalStreams, Streams

__all__ = ["GlobalStreams", "Streams"]
