"""Example data: two small datasets in the package, and public datasets, each with its environment.

Downloads are stored in `cache_dir`. If it is None, they are stored in the directory that the environment variable
`PFRL_LIKE_DATA` names, or in `pfrl_like/datasets` of the user's cache (`XDG_CACHE_HOME`, or `~/.cache`). Each file is
downloaded once, even if several processes need it. A broken connection is resumed. Nothing is unpickled.
"""

from pfrl_like.datasets.public_sets import get_atari, get_cartpole, get_d4rl, get_minari, get_pendulum, get_pybullet

__all__ = ["get_atari", "get_cartpole", "get_d4rl", "get_minari", "get_pendulum", "get_pybullet"]
