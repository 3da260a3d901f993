"""Sets of PyBullet's tasks: those of D4RL, and files of d4rl-pybullet."""

import os
import re
from typing import Any

from pfrl_like.dataset import MDPDataset
from pfrl_like.datasets.d4rl import MIRROR, dataset_of_file, make_env
from pfrl_like.datasets.download import cache_directory, downloaded

_ENVS = {name.lower(): f"{name}BulletEnv-v0" for name in ("HalfCheetah", "Hopper", "Walker2D", "Ant")}
_TASK = "|".join(_ENVS)
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
                         f"'hopper-bullet-mixed-v0', of d4rl-pybullet; of one of {', '.join(_ENVS)}")  # fmt: skip
    task, kind = found.groups()
    path = cache_directory(cache_dir) / "pybullet" / f"{env_name}.hdf5"
    if url is None and found.re is _D4RL:
        url = f"{mirror}/bullet/bullet-{task}_{kind.replace('-', '_')}.hdf5"
    if url is None and not path.exists():
        raise ValueError(f"url: is None, and {env_name} has no lasting address; name it, or put the file at {path}")
    env = make_env(
        _ENVS[task], package="pybullet-envs-gymnasium", extra="pybullet", registered_by="pybullet_envs_gymnasium"
    )
    return dataset_of_file(path if url is None else downloaded(url, path, sha256)), env
