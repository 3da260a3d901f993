"""Random streams: which there are, how they are found, isolated, saved and restored."""

from pfrl_like.random_streams.streams import GlobalStreams, Streams

__all__ = ["GlobalStreams", "Streams"]
