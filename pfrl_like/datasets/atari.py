"""Sets of Atari games: what DQN saw in Agarwal et al. 2020 (arXiv:1907.04543), a million steps in each."""

import gzip
import io
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.io.npz import size_of_npy
from pfrl_like.datasets.download import cache_directory, downloaded
from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.storage import atomic_path
from pfrl_like.wrappers.atari_wrappers import make_atari, wrap_deepmind

#: Where the files are; another copy of them has the same names below it.
MIRROR = "https://storage.googleapis.com/atari-replay-datasets/dqn"
_EPOCHS = {"mixed": 1, "medium": 10, "expert": 50}  # of a million steps each, in which DQN learnt
_NAME = re.compile(rf"([a-z0-9]+(?:-[a-z0-9]+)*?)-(?:({'|'.join(_EPOCHS)})|epoch-([1-9]|[1-4]\d|50))-v([0-4])")
_ARRAYS = {"observation": "u", "action": "i", "reward": "f", "terminal": "u"}  # and the kinds of their dtypes
_CHUNK = 1 << 24


def get_atari(
    env_name: str,
    *,
    mirror: str = MIRROR,
    sha256: Mapping[str, str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[MDPDataset, Any]:
    """A million steps of DQN on an Atari game, "breakout-mixed-v0" for instance; they are downloaded once.

    They take 7 GB on the disk, from which frames are read when they are asked for. Rewards are clipped to [-1, 1].

    Args:
        env_name: The game; "mixed" (the first million steps), "medium" (the tenth), "expert" (the last) or "epoch-N";
            and v0 to v4 for one of five runs.
        mirror: Address of the folder that holds one for each game.
        sha256: Checksums of the compressed "observation", "action", "reward" and "terminal"; None for none.
        cache_dir: Where the arrays are kept; see `pfrl_like.datasets`.

    Returns:
        The dataset, of single frames [1, 84, 84] (stack them by `n_frames`), and the environment that shows such ones,
        in which a quarter of the actions is replaced by the one before, as where the data were made.

    Raises:
        ValueError: On an unknown name.
        DownloadError: If a file cannot be fetched.
        CheckpointError: If one is damaged.
        MissingDependencyError: If ale-py (extra "atari") is not installed.
    """
    found = _NAME.fullmatch(env_name)
    if found is None:
        raise ValueError(f"env_name: got {env_name!r}, expected a name like 'breakout-mixed-v0': a game; one of "
                         f"{', '.join(_EPOCHS)}, or epoch-1 to epoch-50; v0 to v4")  # fmt: skip
    game = "".join(word.capitalize() for word in found[1].split("-"))
    run, number = int(found[4]) + 1, (_EPOCHS[found[2]] if found[2] else int(found[3])) - 1
    try:
        env = make_atari(f"ALE/{game}-v5")
    except ImportError as error:
        raise MissingDependencyError("ale-py", f'the game {game} (extra "atari")') from error
    folder = cache_directory(cache_dir) / "atari" / game / str(run)
    arrays = {}
    for name, kind in _ARRAYS.items():
        url = f"{mirror}/{game}/{run}/replay_logs/$store$_{name}_ckpt.{number}.gz"
        arrays[name] = _array(url, folder / f"{name}-{number}.npy", kind, (sha256 or {}).get(name))
    dataset = MDPDataset.from_arrays(
        arrays["observation"][:, None], arrays["action"], arrays["reward"], arrays["terminal"], discrete_action=True
    )
    return dataset, wrap_deepmind(env, episode_life=False, clip_rewards=False, frame_stack=False)


def _array(url: str, path: Path, kind: str, sha256: str | None) -> NDArray[Any]:
    """An array on the disk, which is fetched and unpacked if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(path.with_name(path.name + ".lock")):
        if not path.exists():
            packed = downloaded(url, path.with_name(path.name + ".gz"), sha256)
            try:
                _unpack(packed, path, kind)
            except CheckpointError:
                packed.unlink()
                raise
            packed.unlink()
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise CheckpointError(path, f"is no array: {error}") from error
    return array


def _unpack(packed: Path, path: Path, kind: str) -> None:
    """Write a compressed `.npy` file as a plain one, which is as long as its header says."""
    try:
        with gzip.open(packed) as source, atomic_path(path) as temporary, open(temporary, "wb") as target:
            content = source.read(_CHUNK)
            expected, written = size_of_npy(io.BytesIO(content), kind), 0
            while content and written <= expected:
                written += target.write(content)
                content = source.read(_CHUNK)
            if written != expected:
                raise ValueError(f"it holds {written} bytes or more, expected {expected}")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise CheckpointError(path, f"could not be unpacked: {error}") from error
