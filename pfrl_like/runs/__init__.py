"""The training loop, run directories and their files, checksums, and the record of the program's environment."""

from pfrl_like.runs.loop import Clock, Episode, run

__all__ = ["Clock", "Episode", "run"]
