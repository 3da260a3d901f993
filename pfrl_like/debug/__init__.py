"""What is asked after the fact: traces of runs, crashes made again, programs started again."""

from pfrl_like.debug.crash_replay import replay_crash

__all__ = ["replay_crash"]
