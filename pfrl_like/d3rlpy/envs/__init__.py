"""Environments of d3rlpy 2: wrappers of images, Atari games and goals, and seeds."""

from pfrl_like.d3rlpy.envs.wrappers import (
    Atari,
    AtariPreprocessing,
    ChannelFirst,
    FrameStack,
    GoalConcatWrapper,
    seed_env,
)

__all__ = ["Atari", "AtariPreprocessing", "ChannelFirst", "FrameStack", "GoalConcatWrapper", "seed_env"]
