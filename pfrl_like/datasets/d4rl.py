"""D4RL's sets of MuJoCo tasks (Fu et al. 2020, arXiv:2004.07219), and files of their form."""

import importlib
import os
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.flat import Flat, table_of
from pfrl_like.dataset.io.hdf5 import read_hdf5
from pfrl_like.dataset.table import SAME_ROW
from pfrl_like.datasets.download import cache_directory, downloaded
from pfrl_like.errors import CheckpointError, MissingDependencyError


def dataset_of_file(path: Path) -> MDPDataset:
    """The dataset of a file.

    Mixed sets were joined without a mark where one ends: an episode is cut off where a row's next observation is not
    the observation of the row after it.

    Raises:
        CheckpointError: If the file is damaged, or holds what cannot be right.
        MissingDependencyError: If h5py is not installed.
    """
    flat = read_hdf5(str(path))
    try:
        return MDPDataset.of_table(*table_of(_with_cuts(flat), flat.convention or SAME_ROW, flat.discrete))
    except ValueError as error:
        raise CheckpointError(path, str(error)) from error


def _with_cuts(flat: Flat) -> Flat:
    arrays = flat.arrays
    if "next_observations" not in arrays or not {"observations", "terminals"} <= arrays.keys():
        return flat
    obs, following = np.asarray(arrays["observations"]), np.asarray(arrays["next_observations"])
    if obs.shape != following.shape:
        return flat  # refused where the table is made
    jumps = (obs[1:] != following[:-1]).reshape(len(obs) - 1, -1).any(1)
    terminal = np.asarray(arrays["terminals"]).reshape(-1) != 0
    cut = np.asarray(arrays.get("timeouts", np.zeros(len(terminal)))).reshape(-1) != 0
    cut[:-1] |= jumps[: len(cut) - 1]
    return flat._replace(arrays=arrays | {"timeouts": cut & ~terminal})


def make_env(env_id: str, *, package: str, extra: str, registered_by: str | None = None) -> Any:
    """An environment of an optional package.

    Args:
        env_id: Its name in gymnasium.
        package: What has to be installed.
        extra: The extra of this library that has it.
        registered_by: Module whose import tells gymnasium of it; None for those that gymnasium knows.

    Raises:
        MissingDependencyError: If the package is not installed.
    """
    try:
        if registered_by is not None:
            importlib.import_module(registered_by)
        return gymnasium.make(env_id)
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise MissingDependencyError(package, f'the environment {env_id} (extra "{extra}")') from error


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
