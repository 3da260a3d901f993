"""Two small datasets in the package, and public datasets. Each function also returns the environment.

Downloads are stored in `cache_dir`. If it is None, the environment variable `PFRL_LIKE_DATA` names the directory. If
the variable is not set, the directory is `pfrl_like/datasets` in the user's cache (`XDG_CACHE_HOME`, or `~/.cache`).
Each file is downloaded once, even if several processes need the file. Broken downloads are resumed. Nothing is
unpickled.
"""

from pfrl_like.dataset import MDPDataset
from pfrl_like.datasets.public_sets import (
    get_atari,
    get_cartpole,
    get_d4rl,
    get_dataset,
    get_minari,
    get_pendulum,
    get_pybullet,
)

__all__ = [
    "MDPDataset", "get_atari", "get_cartpole", "get_d4rl", "get_dataset", "get_minari", "get_pendulum", "get_pybullet",
]  # fmt: skip
