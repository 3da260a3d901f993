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


_BULLET = {name.lower(): f"{name}BulletEnv-v0" for name in ("HalfCheetah", "Hopper", "Walker2D", "Ant")}
_TASK = "|".join(_BULLET)
_D4RL = re.compile(rf"bullet-({_TASK})-(random|medium|expert|medium-expert|medium-replay)-v0")
_D4RL_PYBULLET = re.compile(rf"({_TASK})-bullet-(random|medium|mixed)-v0")


def get_pybullet(
    env_name: str,
    *,
    url: str | None = None,
    mirror: str = MIRROR,
    sha256: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[MDPDataset, Any]:
    """A set of a PyBullet task, "bullet-hopper-medium-v0" or "hopper-bullet-mixed-v0" for instance.

    The first is D4RL's, and downloaded once. The second is d4rl-pybullet's, which has no lasting address: name the file
    by `url`, or put it into the cache, where the error says.

    Args:
        env_name: The task (halfcheetah, hopper, walker2d, ant) and the behaviour.
        url: Address of the file; None for D4RL's.
        mirror: Address of the folder that holds D4RL's folder `bullet`.
        sha256: Checksum of the file; None for none.
        cache_dir: Where the file is kept; see `pfrl_like.datasets`.

    Returns:
        The dataset, and the environment, of pybullet-envs-gymnasium.

    Raises:
        ValueError: On an unknown name, or one without an address that is not in the cache.
        DownloadError: If the file cannot be fetched.
        CheckpointError: If it is damaged.
        MissingDependencyError: If h5py (extra "offline") or pybullet-envs-gymnasium (extra "pybullet") is missing.
    """
    found = _D4RL.fullmatch(env_name) or _D4RL_PYBULLET.fullmatch(env_name)
    if found is None:
        raise ValueError(f"env_name: got {env_name!r}, expected a name like 'bullet-hopper-medium-v0', of D4RL, or "
                         f"'hopper-bullet-mixed-v0', of d4rl-pybullet; of one of {', '.join(_BULLET)}")  # fmt: skip
    task, kind = found.groups()
    path = cache_directory(cache_dir) / "pybullet" / f"{env_name}.hdf5"
    if url is None and found.re is _D4RL:
        url = f"{mirror}/bullet/bullet-{task}_{kind.replace('-', '_')}.hdf5"
    if url is None and not path.exists():
        raise ValueError(f"url: is None, and {env_name} has no lasting address; name it, or put the file at {path}")
    env = make_env(
        _BULLET[task], package="pybullet-envs-gymnasium", extra="pybullet", registered_by="pybullet_envs_gymnasium"
    )
    return dataset_of_file(path if url is None else downloaded(url, path, sha256)), env
