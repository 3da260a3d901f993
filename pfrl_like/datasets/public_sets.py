"""Functions that return datasets of the package, D4RL, PyBullet, Minari, and DQN's Atari games."""

import contextlib
import gzip
import importlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import filelock
import gymnasium
import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.flat import Flat, table_of
from pfrl_like.dataset.io.hdf5 import read_hdf5
from pfrl_like.dataset.io.minari import LARGEST_META, check_minari_id
from pfrl_like.dataset.io.npz import size_of_npy
from pfrl_like.dataset.table import SAME_ROW
from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.storage import atomic_path, read_json
from pfrl_like.storage.atomic import read_errors
from pfrl_like.storage.json_file import parse_json
from pfrl_like.utils.download import download_file
from pfrl_like.wrappers.atari_wrappers import make_atari, wrap_deepmind

#: Path of a folder. None for the default.
Folder = str | os.PathLike[str] | None


def cache_directory(cache_dir: Folder = None) -> Path:
    """Return the directory of downloaded data.

    Args:
        cache_dir: The directory. If None, the environment variable `PFRL_LIKE_DATA`, or, if it is not set,
            `pfrl_like/datasets` in the user's cache (`XDG_CACHE_HOME`, or `~/.cache`).
    """
    named = cache_dir or os.environ.get("PFRL_LIKE_DATA")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pfrl_like", "datasets")


def dataset_of_file(path: Path) -> MDPDataset:
    """Return the dataset in a file.

    Some files are concatenations of several datasets, without flags at the joints. Therefore an episode is truncated
    after each row whose next observation is not the observation of the next row.

    Raises:
        CheckpointError: If the file is damaged, or invalid.
        MissingDependencyError: If h5py is not installed.
    """
    flat = read_hdf5(str(path))
    try:
        return MDPDataset.of_table(*table_of(_with_timeouts(flat), flat.convention or SAME_ROW, flat.discrete))
    except ValueError as error:
        raise CheckpointError(path, str(error)) from error


def _with_timeouts(flat: Flat) -> Flat:
    arrays = flat.arrays
    if "next_observations" not in arrays or not {"observations", "terminals"} <= arrays.keys():
        return flat
    obs, following = np.asarray(arrays["observations"]), np.asarray(arrays["next_observations"])
    if obs.shape != following.shape:
        return flat  # `table_of` raises an error
    jumps = (obs[1:] != following[:-1]).reshape(len(obs) - 1, -1).any(1)
    terminal = np.asarray(arrays["terminals"]).reshape(-1) != 0
    cut = np.asarray(arrays.get("timeouts", np.zeros(len(terminal)))).reshape(-1) != 0
    cut[:-1] |= jumps[: len(cut) - 1]
    return flat._replace(arrays=arrays | {"timeouts": cut & ~terminal})


@contextlib.contextmanager
def _named_import_error(package: str, what: str, extra: str) -> Iterator[None]:
    """Convert a failed import to an error with the missing package, and the extra of this library that installs it."""
    try:
        yield
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise MissingDependencyError(package, f'{what} (extra "{extra}")') from error


#: Address of the files. A mirror has the same file names below its own address.
MIRROR = "http://rail.eecs.berkeley.edu/datasets/offline_rl"
_ENVS = {"halfcheetah": "HalfCheetah-v4", "hopper": "Hopper-v4", "walker2d": "Walker2d-v4"}
_KINDS = ("random", "medium", "expert", "medium-replay", "full-replay", "medium-expert")
_NAME = re.compile(rf"({'|'.join(_ENVS)})-({'|'.join(_KINDS)})-v([12])")


def get_d4rl(
    env_name: str, *, mirror: str = MIRROR, sha256: str | None = None, cache_dir: Folder = None
) -> tuple[MDPDataset, Any]:
    """Return a dataset of D4RL, for example "hopper-medium-v2". The dataset is downloaded once.

    Args:
        env_name: Name "<task>-<behaviour>-<version>": a task (halfcheetah, hopper, walker2d), a behaviour (random,
            medium, expert, medium-replay, full-replay, medium-expert), and v1 or v2.
        mirror: Address of the folder that contains `gym_mujoco_v2`.
        sha256: Checksum of the file. If None, it is not checked.
        cache_dir: Directory of the file. If None, the default is documented in `pfrl_like.datasets`.

    Returns:
        The dataset, and version v4 of gymnasium's environment. Observations and rewards are the same as in version v2,
        in which the data were recorded.

    Raises:
        ValueError: If the name is unknown.
        DownloadError: If the file cannot be downloaded.
        CheckpointError: If the file is damaged.
        MissingDependencyError: If h5py (extra "offline") or mujoco (extra "mujoco") is not installed.
    """
    match = _NAME.fullmatch(env_name)
    if match is None:
        raise ValueError(f"env_name: got {env_name!r}, expected <{'|'.join(_ENVS)}>-<{'|'.join(_KINDS)}>-<v1|v2>")
    env, kind, version = match.groups()
    address = f"gym_mujoco_v{version}/{env}_{kind.replace('-', '_')}-v{version}.hdf5"
    with _named_import_error("mujoco", f"the environment {_ENVS[env]}", "mujoco"):
        made = gymnasium.make(_ENVS[env])
    path = download_file(f"{mirror}/{address}", cache_directory(cache_dir) / "d4rl" / address, sha256)
    return dataset_of_file(path), made


_BULLET = {name.lower(): f"{name}BulletEnv-v0" for name in ("HalfCheetah", "Hopper", "Walker2D", "Ant")}
_TASK = "|".join(_BULLET)
_D4RL = re.compile(rf"bullet-({_TASK})-(random|medium|expert|medium-expert|medium-replay)-v0")
_D4RL_PYBULLET = re.compile(rf"({_TASK})-bullet-(random|medium|mixed)-v0")


def get_pybullet(
    env_name: str, *, url: str | None = None, mirror: str = MIRROR, sha256: str | None = None, cache_dir: Folder = None
) -> tuple[MDPDataset, Any]:
    """Return a dataset of a PyBullet task, for example "bullet-hopper-medium-v0" or "hopper-bullet-mixed-v0".

    Datasets with names like "bullet-hopper-medium-v0" belong to D4RL and are downloaded once. Datasets with names like
    "hopper-bullet-mixed-v0" belong to d4rl-pybullet and have no permanent address: pass the address of the file as
    `url`, or copy the file to the path that the error message contains.

    Args:
        env_name: Name with the task (halfcheetah, hopper, walker2d, ant) and the behaviour, as in the examples.
        url: Address of the file. If None, D4RL's address.
        mirror: Address of the folder that contains D4RL's folder `bullet`.
        sha256: Checksum of the file. If None, it is not checked.
        cache_dir: Directory of the file. If None, the default is documented in `pfrl_like.datasets`.

    Returns:
        The dataset, and the environment of pybullet-envs-gymnasium.

    Raises:
        ValueError: If the name is unknown, or if `url` is None and a dataset without a permanent address is not in the
            cache.
        DownloadError: If the file cannot be downloaded.
        CheckpointError: If the file is damaged.
        MissingDependencyError: If h5py (extra "offline") or pybullet-envs-gymnasium (extra "pybullet") is missing.
    """
    match = _D4RL.fullmatch(env_name) or _D4RL_PYBULLET.fullmatch(env_name)
    if match is None:
        raise ValueError(f"env_name: got {env_name!r}, expected a name such as 'bullet-hopper-medium-v0' (D4RL) or "
                         f"'hopper-bullet-mixed-v0' (d4rl-pybullet), with one of {', '.join(_BULLET)}")  # fmt: skip
    task, kind = match.groups()
    path = cache_directory(cache_dir) / "pybullet" / f"{env_name}.hdf5"
    if url is None and match.re is _D4RL:
        url = f"{mirror}/bullet/bullet-{task}_{kind.replace('-', '_')}.hdf5"
    if url is None and not path.exists():
        raise ValueError(f"url: got None, but {env_name} has no permanent address: pass it, or copy the file to {path}")
    with _named_import_error("pybullet-envs-gymnasium", f"the environment {_BULLET[task]}", "pybullet"):
        importlib.import_module("pybullet_envs_gymnasium")  # registers the environments with gymnasium
        env = gymnasium.make(_BULLET[task])
    return dataset_of_file(path if url is None else download_file(url, path, sha256)), env


#: Address of the files. A mirror has the same file names below its own address.
MINARI_MIRROR = "https://huggingface.co/datasets/farama-minari"
_FILES = ("data/main_data.hdf5", "data/metadata.json")  # the metadata are downloaded last, when the dataset is complete
_ENV_ID = re.compile(r"([\w.-]+/)?[\w.-]+")  # a colon would make gymnasium import a module


def get_minari(
    env_name: str, *, mirror: str = MINARI_MIRROR, sha256: str | None = None, cache_dir: Folder = None
) -> tuple[MDPDataset, Any]:
    """Return a dataset of Minari, for example "mujoco/hopper/medium-v0". The dataset is downloaded once.

    A dataset in Minari's own folder, `MINARI_DATASETS_PATH` or `~/.minari/datasets`, is not downloaded again.

    Args:
        env_name: Id of the dataset.
        mirror: Address of the datasets.
        sha256: Checksum of the file `main_data.hdf5`. None disables the check.
        cache_dir: Directory of the files. If None, the default is documented in `pfrl_like.datasets`.

    Returns:
        The dataset, and the environment that the metadata name.

    Raises:
        ValueError: If `env_name` is not an id of Minari.
        DownloadError: If a file cannot be downloaded.
        CheckpointError: If a file is damaged, or if gymnasium cannot make the environment.
        MissingDependencyError: If h5py (extra "offline"), or a package that the environment needs, is not installed.
    """
    check_minari_id(env_name=env_name)
    location = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets") / env_name
    if not (location / _FILES[1]).exists():
        location = cache_directory(cache_dir) / "minari" / env_name
        repository, _, folder = env_name.partition("/")
        for name, checksum in zip(_FILES, (sha256, None), strict=True):
            address = "/".join(filter(None, (mirror, repository, "resolve/main", folder, name)))
            download_file(address, location / name, checksum)
    return MDPDataset.load_minari(location), _env_of(location / _FILES[1])


def _env_of(meta: Path) -> Any:
    """Make the environment that the metadata name. Only its id and its time limit are used, to import no modules."""
    spec_json = read_json(str(meta), LARGEST_META).get("env_spec")
    spec = parse_json(spec_json.encode(), str(meta)) if isinstance(spec_json, str) else {}
    env_id, limit = spec.get("id"), spec.get("max_episode_steps")
    if not isinstance(env_id, str) or not _ENV_ID.fullmatch(env_id):
        raise CheckpointError(meta, f"names the environment {env_id!r}, expected an environment id")
    try:
        with _named_import_error("mujoco", f"the environment {env_id}", "mujoco"):
            return gymnasium.make(env_id, max_episode_steps=limit if isinstance(limit, int) else None)
    except gymnasium.error.Error as error:
        reason = f"names the environment {env_id}, which gymnasium cannot make: {error}; import its package"
        raise CheckpointError(meta, reason) from error


def get_cartpole() -> tuple[MDPDataset, Any]:
    """Return episodes of CartPole-v1 from a random policy, and from a half trained and a fully trained CategoricalDQN.

    `datasets/data/cartpole.json` in the package describes how the episodes were recorded, and lists the return of each
    episode.

    Returns:
        The dataset, and the environment.
    """
    return _packaged("cartpole"), gymnasium.make("CartPole-v1")


def get_pendulum() -> tuple[MDPDataset, Any]:
    """Return episodes of Pendulum-v1 from a random policy, and from a half trained and a fully trained SoftActorCritic.

    Actions are in [-1, 1]. The environment rescales actions to torques.
    `datasets/data/pendulum.json` in the package describes how the episodes were recorded.

    Returns:
        The dataset, and the environment.
    """
    env = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    return _packaged("pendulum"), env


def _packaged(name: str) -> MDPDataset:
    with resources.as_file(resources.files("pfrl_like.datasets") / "data" / f"{name}.npz") as path:
        return MDPDataset.load(path)


#: Address of the files. A mirror has the same file names below its own address.
ATARI_MIRROR = "https://storage.googleapis.com/atari-replay-datasets/dqn"
_EPOCHS = {"mixed": 1, "medium": 10, "expert": 50}  # epochs of DQN's training, with one million steps each
_ATARI_NAME = re.compile(rf"([a-z0-9]+(?:-[a-z0-9]+)*?)-(?:({'|'.join(_EPOCHS)})|epoch-([1-9]|[1-4]\d|50))-v([0-4])")
_ARRAYS = {"observation": "u", "action": "i", "reward": "f", "terminal": "u"}  # name to kind of dtype
_CHUNK = 1 << 24


def get_atari(
    env_name: str, *, mirror: str = ATARI_MIRROR, sha256: Mapping[str, str] | None = None, cache_dir: Folder = None
) -> tuple[MDPDataset, Any]:
    """Return a million steps of DQN on an Atari game, for example "breakout-mixed-v0". The steps are downloaded once.

    The dataset uses 7 GB on the disk. Frames are read from the disk on access. Rewards are clipped to [-1, 1].

    Args:
        env_name: Name "<game>-<part>-<run>". The part is "mixed" (the first million steps of DQN's training), "medium"
            (the tenth million), "expert" (the last million) or "epoch-N". The run is v0 to v4.
        mirror: Address of the folder that contains a folder for each game.
        sha256: Checksums of the compressed files, with the keys "observation", "action", "reward" and "terminal". None
            disables the check.
        cache_dir: Directory of the arrays. If None, the default is documented in `pfrl_like.datasets`.

    Returns:
        The dataset and an environment. Their observations are single frames [1, 84, 84]; algorithms with `n_frames`
        stack them. As in the recording, the environment repeats the previous action with probability 1/4.

    Raises:
        ValueError: If the name is unknown.
        DownloadError: If a file cannot be downloaded.
        CheckpointError: If a file is damaged.
        MissingDependencyError: If ale-py (extra "atari") is not installed.
    """
    match = _ATARI_NAME.fullmatch(env_name)
    if match is None:
        raise ValueError(f"env_name: got {env_name!r}, expected a name such as 'breakout-mixed-v0': a game; one of "
                         f"{', '.join(_EPOCHS)}, or epoch-1 to epoch-50; v0 to v4")  # fmt: skip
    game = "".join(word.capitalize() for word in match[1].split("-"))
    run, number = int(match[4]) + 1, (_EPOCHS[match[2]] if match[2] else int(match[3])) - 1
    with _named_import_error("ale-py", f"the game {game}", "atari"):
        env = make_atari(f"ALE/{game}-v5")
    folder = cache_directory(cache_dir) / "atari" / game / str(run)
    arrays = {}
    for name, kind in _ARRAYS.items():
        url = f"{mirror}/{game}/{run}/replay_logs/$store$_{name}_ckpt.{number}.gz"
        arrays[name] = _array(url, folder / f"{name}-{number}.npy", kind, (sha256 or {}).get(name))
    dataset = MDPDataset.from_arrays(
        arrays["observation"][:, None], arrays["action"], arrays["reward"], arrays["terminal"], discrete_action=True
    )
    return dataset, wrap_deepmind(env, episode_life=False, clip_rewards=False, frame_stack=False)


#: Functions whose datasets have names of a form, and the datasets of the package.
_SETS: Mapping[re.Pattern[str], Callable[..., tuple[MDPDataset, Any]]] = {
    _D4RL: get_pybullet, _D4RL_PYBULLET: get_pybullet, _NAME: get_d4rl, _ATARI_NAME: get_atari,
}  # fmt: skip
_PACKAGED = {"cartpole": get_cartpole, "pendulum": get_pendulum}


def get_dataset(env_name: str) -> tuple[MDPDataset, Any]:
    """Return the dataset with a name, and its environment.

    Args:
        env_name: "cartpole", "pendulum" (also with the ending "-replay"), or a name that `get_d4rl`, `get_pybullet` or
            `get_atari` accepts, such as "hopper-medium-v2", "hopper-bullet-mixed-v0" or "breakout-mixed-v0".

    Raises:
        ValueError: If the name is unknown.
        DownloadError: If a file cannot be downloaded.
        CheckpointError: If a file is damaged.
        MissingDependencyError: If a package that the dataset or the environment needs is not installed.
    """
    if make := _PACKAGED.get(env_name.removesuffix("-replay")):
        return make()
    for form, get in _SETS.items():
        if form.fullmatch(env_name):
            return get(env_name)
    forms = "hopper-medium-v2 (D4RL), hopper-bullet-mixed-v0 (PyBullet), breakout-mixed-v0 (Atari)"
    raise ValueError(f"env_name: got {env_name!r}, expected {', '.join(_PACKAGED)}, or a name such as {forms}")


def _array(url: str, path: Path, kind: str, sha256: str | None) -> NDArray[Any]:
    """Return a memory-mapped array. Download and unpack its file if the file does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(path.with_name(path.name + ".lock")):
        if not path.exists():
            packed = download_file(url, path.with_name(path.name + ".gz"), sha256)
            _unpack(packed, path, kind)
    with read_errors(path, "is not an array"):
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _unpack(packed: Path, path: Path, kind: str) -> None:
    """Unpack a compressed `.npy` file, check its length against its header, and remove the compressed file."""
    try:
        with gzip.open(packed) as source, atomic_path(path) as temporary, open(temporary, "wb") as target:
            content = source.read(_CHUNK)
            expected, written = size_of_npy(io.BytesIO(content), kind), 0
            while content and written <= expected:
                written += target.write(content)
                content = source.read(_CHUNK)
            if written != expected:
                raise ValueError(f"the array has {written} bytes or more, expected {expected}")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        packed.unlink()
        raise CheckpointError(path, f"could not be unpacked: {error}") from error
    packed.unlink()
