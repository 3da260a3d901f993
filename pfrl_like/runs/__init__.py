"""A run: the loop, its directory and files, checksums, and the record of what it ran on."""

from pfrl_like.runs.loop import Clock, Episode, run

__all__ = ["Clock", "Episode", "run"]
