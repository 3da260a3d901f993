"""Minari's sets, read without Minari."""

import os
import re
from pathlib import Path
from typing import Any

import gymnasium

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.io.minari import LARGEST_META, check_minari_id
from pfrl_like.datasets.download import cache_directory, downloaded
from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.storage import read_json
from pfrl_like.storage.json_file import parse_json

#: Where the files are; another copy of them has the same names below it.
MIRROR = "https://huggingface.co/datasets/farama-minari"
_FILES = ("data/main_data.hdf5", "data/metadata.json")  # the second one last: a set is there once it is
_ENV_ID = re.compile(r"([\w.-]+/)?[\w.-]+")  # without the colon, by which gymnasium would import a module


def get_minari(
    env_name: str,
    *,
    mirror: str = MIRROR,
    sha256: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[MDPDataset, Any]:
    """A set of Minari's, "mujoco/hopper/medium-v0" for instance; it is downloaded once.

    One that Minari has downloaded or made, below `MINARI_DATASETS_PATH` or `~/.minari/datasets`, is read there.

    Args:
        env_name: Id of the dataset.
        mirror: Address of the datasets.
        sha256: Checksum of its `main_data.hdf5`; None for none.
        cache_dir: Where files are kept; see `pfrl_like.datasets`.

    Returns:
        The dataset, and the environment that its metadata name.

    Raises:
        ValueError: If this is no id.
        DownloadError: If a file cannot be fetched.
        CheckpointError: If one is damaged, or names no environment that can be made.
        MissingDependencyError: If h5py (extra "offline"), or what the environment needs, is not installed.
    """
    check_minari_id(env_name=env_name)
    own = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets") / env_name
    if not (own / _FILES[1]).exists():
        own = cache_directory(cache_dir) / "minari" / env_name
        repository, _, folder = env_name.partition("/")
        for name, checksum in zip(_FILES, (sha256, None), strict=True):
            address = "/".join(filter(None, (mirror, repository, "resolve/main", folder, name)))
            downloaded(address, own / name, checksum)
    return MDPDataset.load_minari(own), _env_of(own / _FILES[1])


def _env_of(meta: Path) -> Any:
    """The environment that metadata name, by its id and limit alone: nothing that they name is imported."""
    told = read_json(str(meta), LARGEST_META).get("env_spec")
    spec = parse_json(told.encode(), str(meta)) if isinstance(told, str) else {}
    env_id, limit = spec.get("id"), spec.get("max_episode_steps")
    if not isinstance(env_id, str) or not _ENV_ID.fullmatch(env_id):
        raise CheckpointError(meta, f"names the environment {env_id!r}, expected the id of one")
    try:
        return gymnasium.make(env_id, max_episode_steps=limit if isinstance(limit, int) else None)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingDependencyError("mujoco", f'the environment {env_id} (extra "mujoco")') from error
    except gymnasium.error.Error as error:
        reason = f"names the environment {env_id}, which gymnasium cannot make: {error}; import what registers it"
        raise CheckpointError(meta, reason) from error
