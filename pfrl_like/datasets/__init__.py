"""Data to begin with: two small sets that come with the package, and the public ones, each with its environment.

What is downloaded is kept in `cache_dir`, else in the directory that the environment variable `PFRL_LIKE_DATA` names,
else in `pfrl_like/datasets` of the user's cache (`XDG_CACHE_HOME`, or `~/.cache`). It is fetched once, also if several
processes want it; a connection that broke is resumed; nothing is unpickled.
"""

from pfrl_like.datasets.public_sets import get_atari, get_cartpole, get_d4rl, get_minari, get_pendulum, get_pybullet

__all__ = [
    "get_atari",
    "get_cartpole",
    "get_d4rl",
    "get_minari",
    "get_pendulum",
    "get_pybullet",
]
