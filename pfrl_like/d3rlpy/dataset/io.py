"""HDF5 files of episodes: the format "2.1" of d3rlpy 2, and datasets of d3rlpy 1."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from pfrl_like.d3rlpy.dataset.components import Episode, EpisodeBase
from pfrl_like.d3rlpy.dataset.episode_generator import EpisodeGenerator
from pfrl_like.d3rlpy.dataset.nested import map_parts
from pfrl_like.dataset.io.hdf5 import episodes_in, h5py_module, new_hdf5, open_hdf5, read_hdf5
from pfrl_like.dataset.table import NEXT_ROW
from pfrl_like.errors import CheckpointError

#: Version of the files that `dump` writes.
DATASET_VERSION = "2.1"
_COLUMNS = ("observations", "actions", "rewards", "terminated")

PathOrFile = str | os.PathLike[str] | BinaryIO


def dump(episodes: Sequence[EpisodeBase], f: PathOrFile) -> None:
    """Write episodes to an HDF5 file. The reward of an action is in the row of the action.

    Args:
        episodes: The episodes.
        f: The file, which is replaced, or a binary file object that can be read and written.

    Raises:
        CheckpointError: If the file cannot be written.
        MissingDependencyError: If h5py is not installed.
    """
    if isinstance(f, str | os.PathLike):
        with new_hdf5(f) as file:
            _write(episodes, file)
    else:
        with h5py_module().File(f, "w") as file:
            _write(episodes, file)


def _write(episodes: Sequence[EpisodeBase], file: Any) -> None:
    file["columns"], file["num_episodes"], file["version"] = list(_COLUMNS), len(episodes), DATASET_VERSION
    for i, episode in enumerate(episodes):
        for name, values in episode.serialize().items():
            if isinstance(values, list | tuple):
                file.update({f"{name}_{i}_{j}": part for j, part in enumerate(values)})
            else:
                file[f"{name}_{i}"] = values


def load(episode_cls: type[EpisodeBase], f: PathOrFile) -> Sequence[EpisodeBase]:
    """Return the episodes in a file of `dump`, or in a file of d3rlpy 2.

    Args:
        episode_cls: Class of the episodes.
        f: The file, or a binary file object.

    Raises:
        CheckpointError: If the file is damaged, has another format, or exceeds a memory limit of 128 times its size.
        MissingDependencyError: If h5py is not installed.
    """
    with _local(f) as path, open_hdf5(path) as file:
        if "num_episodes" not in file:
            raise CheckpointError(path, "has no num_episodes, so it is no dataset of d3rlpy 2: call load_v1")
        arrays, ends = episodes_in(file)
    terminated = arrays.pop("terminated")
    starts = [0, *(ends[:-1] + 1).tolist()]
    return [
        episode_cls.deserialize(
            {
                name: map_parts(lambda array, rows=slice(start, end + 1): array[rows], column)
                for name, column in arrays.items()
            }
            | {"terminated": bool(ended)}
        )
        for start, end, ended in zip(starts, ends.tolist(), terminated, strict=True)
    ]


def load_v1(f: PathOrFile) -> Sequence[Episode]:
    """Return the episodes in a file of d3rlpy 1, or in a file of `pfrl_like.dataset.MDPDataset.dump`.

    A file without a reward convention is read as d3rlpy 2 does: the reward of an action is in the row of the action.

    Args:
        f: The file, or a binary file object.

    Raises:
        CheckpointError: If the file is damaged, has another format, or exceeds a memory limit of 128 times its size.
            Also if the file says that rewards are in the row after their action.
        MissingDependencyError: If h5py is not installed.
    """
    with _local(f) as path:
        flat = read_hdf5(path)
        if flat.convention == NEXT_ROW:
            advice = "read it with pfrl_like.dataset.MDPDataset.load, and call from_library_dataset"
            raise CheckpointError(path, f'has the reward convention "next_row": {advice}')
        arrays = flat.arrays
        if missing := [name for name in ("observations", "actions", "rewards", "terminals") if name not in arrays]:
            raise CheckpointError(path, f"has no {', '.join(missing)}, so it is no dataset of d3rlpy 1")
        terminals = arrays["terminals"] != 0
        ends = arrays.get("episode_terminals", arrays.get("timeouts", terminals)) != 0
        try:
            columns = arrays["observations"], arrays["actions"], arrays["rewards"]
            return EpisodeGenerator(*columns, terminals, ends & ~terminals)()
        except (ValueError, TypeError) as error:
            raise CheckpointError(path, str(error)) from error


@contextlib.contextmanager
def _local(f: PathOrFile) -> Iterator[str]:
    """Return a context with the path of a file. The content of a file object without a path is copied to one."""
    name = f if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
    if isinstance(f, str | os.PathLike) or (isinstance(name, str) and os.path.isfile(name)):
        yield os.fspath(name)  # type: ignore[arg-type]
        return
    with tempfile.NamedTemporaryFile(suffix=".h5") as copy:
        f.seek(0)
        shutil.copyfileobj(f, copy)
        copy.flush()
        yield copy.name
