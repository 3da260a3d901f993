"""D4RL's sets of MuJoCo tasks (Fu et al. 2020, arXiv:2004.07219)."""

import os
import re
from typing import Any

from pfrl_like.dataset import MDPDataset
from pfrl_like.datasets.download import cache_directory, downloaded
from pfrl_like.datasets.environments import make_env
from pfrl_like.datasets.hdf5 import dataset_of_file

#: Where the files are; another copy of them has the same names below it.
MIRROR = "http://rail.eecs.berkeley.edu/datasets/offline_rl"
_ENVS = {"halfcheetah": "HalfCheetah-v4", "hopper": "Hopper-v4", "walker2d": "Walker2d-v4"}
_KINDS = ("random", "medium", "expert", "medium-replay", "full-replay", "medium-expert")
_NAME = re.compile(rf"({'|'.join(_ENVS)})-({'|'.join(_KINDS)})-v([12])")


def get_d4rl(
    env_name: str,
    *,
    mirror: str = MIRROR,
    sha256: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[MDPDataset, Any]:
    """A set of D4RL's, "hopper-medium-v2" for instance; it is downloaded once.

    Args:
        env_name: The task (halfcheetah, hopper, walker2d), the behaviour (random, medium, expert, medium-replay,
            full-replay, medium-expert), and v1 or v2.
        mirror: Address of the folder that holds `gym_mujoco_v2`.
        sha256: Checksum of the file; None for none.
        cache_dir: Where the file is kept; see `pfrl_like.datasets`.

    Returns:
        The dataset, and gymnasium's v4 of the environment, whose observations and rewards are those of the v2 that
        the data were made in.

    Raises:
        ValueError: On an unknown name.
        DownloadError: If the file cannot be fetched.
        CheckpointError: If it is damaged.
        MissingDependencyError: If h5py (extra "offline") or mujoco (extra "mujoco") is not installed.
    """
    found = _NAME.fullmatch(env_name)
    if found is None:
        raise ValueError(f"env_name: got {env_name!r}, expected a name like 'hopper-medium-v2': one of "
                         f"{', '.join(_ENVS)}; one of {', '.join(_KINDS)}; v1 or v2")  # fmt: skip
    env, kind, version = found.groups()
    address = f"gym_mujoco_v{version}/{env}_{kind.replace('-', '_')}-v{version}.hdf5"
    made = make_env(_ENVS[env], package="mujoco", extra="mujoco")
    path = downloaded(f"{mirror}/{address}", cache_directory(cache_dir) / "d4rl" / address, sha256)
    return dataset_of_file(path), made
