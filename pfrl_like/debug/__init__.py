"""Analysis of recorded runs: traces and their comparison, and replay of crashes."""

from pfrl_like.debug.crash_replay import replay_crash

__all__ = ["replay_crash"]
