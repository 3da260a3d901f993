"""Datasets as HDF5 files: our own, those of d3rlpy 0.x, 1.x and 2.x, and files of D4RL's form."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset.flat import (
    CONVENTION,
    FORMAT,
    OPTIONAL,
    REQUIRED,
    SHOWN,
    Flat,
    conventions_told,
    flat_from,
    one_number_each,
)
from pfrl_like.dataset.io.hdf5_members import INDEX, Members, h5py_module
from pfrl_like.dataset.io.hdf5_output import new_hdf5
from pfrl_like.dataset.table import SAME_ROW
from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.storage import open_regular
from pfrl_like.storage.json_file import Budget, BudgetError

MAGIC = b"\x89HDF\r\n\x1a\n"
_MAPPED_FROM = 1 << 30
_MOST_EPISODES = 1 << 24


def write_hdf5(path: str, flat: Flat) -> None:
    """Write arrays, atomically; other tools find them under their names.

    Raises:
        CheckpointError: If they cannot be written; an old file of this name is still in place.
    """
    with new_hdf5(path) as file:
        for name, values in flat.arrays.items():
            write_nested(file, name, values)
        for name, number in one_number_each(flat).items():
            file[name] = number
        if flat.convention == SAME_ROW:
            file["version"] = "1.0"  # by which d3rlpy knows this convention
        file.attrs["format"] = FORMAT
        file.attrs.update(conventions_told(flat))


def write_nested(parent: Any, name: str, values: Any) -> None:
    """Write an array, or a group of them for a dict or tuple."""
    if isinstance(values, np.ndarray):
        parent.create_dataset(name, data=values)
        return
    group = parent.create_group(name)
    parts = values if isinstance(values, Mapping) else {f"{INDEX}{i}": part for i, part in enumerate(values)}
    for key, part in parts.items():
        write_nested(group, str(key), part)


def read_hdf5(path: str, memory_map: bool | None = None, max_bytes: int | None = None) -> Flat:
    """What an HDF5 file holds.

    Args:
        path: The file.
        memory_map: Leave observations in the file, and read them when they are asked for; this needs a file without
            compression or chunks, and one that nobody changes. None does it where they take more than 1 GiB and the
            file allows it.
        max_bytes: The most that its arrays may take, as of `Budget`.

    Raises:
        CheckpointError: If it is damaged or cut off, refers to other files, or holds something else than numbers.
        MissingDependencyError: If h5py is not installed.
    """
    with opened(path, max_bytes) as file:
        if "num_episodes" in file:
            return _read_episodes(file)
        arrays = {name: file.read(name) for name in (*REQUIRED[1:], *OPTIONAL) if name in file}
        if "observations" in file:
            arrays["observations"] = _observations(file, path, memory_map)
        shown = file.group.attrs.get(SHOWN)
        return flat_from(arrays, _convention(file), None if shown is None else str(shown))


@contextlib.contextmanager
def opened(path: str, max_bytes: int | None = None) -> Iterator[Members]:
    """The members of an HDF5 file, with whatever goes wrong as a `CheckpointError`."""
    h5py = h5py_module()
    with open_regular(path) as plain:
        budget = Budget(os.fstat(plain.fileno()).st_size, max_bytes)
    try:
        with h5py.File(path, "r") as file:
            yield Members(file, budget)
    except PfrlLikeError:
        raise
    except BudgetError as error:
        raise CheckpointError(path, str(error)) from error
    except Exception as error:  # whatever a hostile file does to h5py, numpy or an image's decoder
        reason = str(error) or type(error).__name__
        raise CheckpointError(path, f"is damaged, or holds no dataset: {reason}") from error


def _observations(file: Members, path: str, memory_map: bool | None) -> Any:
    node = file.node("observations")
    plain = not hasattr(node, "keys")
    if memory_map is None:
        memory_map = plain and node.nbytes > _MAPPED_FROM and _offset(node) is not None
    if not memory_map:
        return file.read("observations")
    offset = _offset(node) if plain else None
    if offset is None:
        raise ValueError("observations cannot be mapped: they are nested, chunked or compressed")
    mapped: NDArray[Any] = np.memmap(path, file.numbers(node).dtype, "r", offset, node.shape)
    return mapped


def _offset(node: Any) -> int | None:
    """Where in the file the values lie in one piece, None if they do not."""
    whole = not node.chunks and node.id.get_storage_size() == node.nbytes
    return node.id.get_offset() if whole else None


def _convention(file: Members) -> str | None:
    told = file.group.attrs.get(CONVENTION)
    if told is not None:
        return str(told)
    return SAME_ROW if "version" in file else None  # d3rlpy wrote a version from that on


def _read_episodes(file: Members) -> Flat:
    """The form of d3rlpy 2.x, which has arrays of their own for each episode."""
    count = int(file.read("num_episodes"))
    if not 0 < count <= min(_MOST_EPISODES, len(file)):
        raise ValueError(f"it announces {count} episodes")
    parts: dict[str, list[Any]] = {name: [] for name in ("observations", "actions", "rewards")}
    terminated = []
    for i in range(count):
        parts["observations"].append(_parts_of(file, f"observations_{i}"))
        for name in ("actions", "rewards"):
            parts[name].append(file.read(f"{name}_{i}"))
        terminated.append(bool(file.read(f"terminated_{i}")))
    lengths = [len(rewards) for rewards in parts["rewards"]]
    arrays = {name: concatenated(values) for name, values in parts.items()}
    last = np.zeros(sum(lengths), np.bool_)
    last[np.cumsum(lengths) - 1] = True
    ended = np.zeros(sum(lengths), np.bool_)
    ended[np.cumsum(lengths) - 1] = terminated
    return Flat(arrays | {"terminals": ended, "timeouts": last & ~ended}, SAME_ROW, None)


def _parts_of(file: Members, name: str) -> Any:
    if name in file:
        return file.read(name)
    count = next(j for j in range(len(file) + 1) if f"{name}_{j}" not in file)
    if not count:
        raise ValueError(f"it lacks {name}")
    return tuple(file.read(f"{name}_{j}") for j in range(count))


def concatenated(parts: list[Any]) -> Any:
    """Arrays, or dicts or tuples of them, one after the other."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: concatenated([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(concatenated([part[i] for part in parts]) for i in range(len(first)))
    return np.concatenate(parts)


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as HDF5 files do."""
    with open_regular(os.fspath(path)) as file:
        return file.read(len(MAGIC)) == MAGIC
