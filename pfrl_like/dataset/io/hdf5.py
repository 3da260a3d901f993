"""HDF5 files of datasets: of this library, of d3rlpy 0.x, 1.x and 2.x, and of D4RL."""

import contextlib
import io
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pfrl_like.batch import combine_nested
from pfrl_like.columns import Indices
from pfrl_like.columns.structure import structure_of
from pfrl_like.dataset.flat import ARRAYS, CONVENTIONS, FORMAT, Budget, Flat, flat_from
from pfrl_like.dataset.table import NEXT_ROW, SAME_ROW
from pfrl_like.errors import MissingDependencyError
from pfrl_like.storage import atomic_path, open_regular
from pfrl_like.storage.atomic import read_errors

#: Prefix of the names of tuple elements, as in Minari: `_index_0`, `_index_1`, ...
INDEX = "_index_"
_MOST_LEVELS = 32
_COST = 1 << 14  # bytes charged for each member, an upper bound of its overhead
_FILTERS = {1, 2, 3, 4, 5, 6, 32000}  # H5Z_FILTER_DEFLATE to _SCALEOFFSET, and h5py's LZF


def h5py_module() -> Any:
    """Import the package h5py.

    Raises:
        MissingDependencyError: If h5py is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError("h5py", "an HDF5 file") from error
    return h5py


class Members:
    """Reads the members of a group of an HDF5 file safely.

    Args:
        group: The group.
        budget: Memory limit, which all groups of the file share.
        level: Number of groups that contain this group.
    """

    def __init__(self, group: Any, budget: Budget, level: int = 0) -> None:
        if not hasattr(group, "keys"):
            raise ValueError(f"{group.name} is not a group")
        if level > _MOST_LEVELS:
            raise ValueError("the groups of the file are nested too deeply")
        self.group, self.budget, self.level = group, budget, level
        budget.spend(_COST, group.name)

    def __contains__(self, name: str) -> bool:
        return bool(self.group.id.links.exists(name.encode()))  # h5py's own `in` follows links

    def __iter__(self) -> Iterator[str]:
        return iter(self.group)

    def __len__(self) -> int:
        return len(self.group)

    def node(self, name: str) -> Any:
        """Return the dataset or group with this name.

        Raises:
            ValueError: If the name does not exist or is a link.
        """
        if name not in self:
            raise ValueError(f"the file has no {name!r}")
        if self.group.id.links.get_info(name.encode()).type != h5py_module().h5l.TYPE_HARD:
            raise ValueError(f"{name!r} is a link, and links are not supported")
        return self.group[name]

    def subgroup(self, name: str) -> "Members":
        """Return the members of the group with this name."""
        return Members(self.node(name), self.budget, self.level + 1)

    def read(self, name: str) -> Any:
        """Return the array with this name, or the dict or tuple of arrays that the group with this name contains.

        Raises:
            ValueError: If the data are in another file, exceed the memory limit, or are not numbers.
        """
        node = self.node(name)
        if not hasattr(node, "keys"):
            return self.numbers(node)[()]
        inner = self.subgroup(name)
        parts = {key: inner.read(key) for key in inner}
        numbered = [f"{INDEX}{i}" for i in range(len(parts))]
        return tuple(parts[key] for key in numbered) if set(parts) == set(numbered) else parts

    def numbers(self, node: Any) -> Any:
        """Check that an HDF5 dataset contains readable numbers, and return it.

        Raises:
            ValueError: If the data are in another file, exceed the memory limit, or are not numbers.
        """
        self.check_readable(node)
        if node.dtype.kind not in "biuf":
            raise ValueError(f"{node.name} contains {node.dtype}, expected numbers")
        self.budget.spend(math.prod(node.shape) * node.dtype.itemsize + _COST, node.name)
        return node

    def check_readable(self, node: Any) -> None:
        """Raise an error if an HDF5 dataset is no array, refers to other files, has large chunks, or needs a plugin.

        Raises:
            ValueError: If the HDF5 dataset cannot be read safely.
        """
        if getattr(node, "shape", None) is None:
            raise ValueError(f"{node.name} is not an array")
        if node.external or node.is_virtual:
            raise ValueError(f"{node.name} has its values in other files, which is not supported")
        if math.prod(node.chunks or ()) * node.dtype.itemsize > self.budget.left:
            raise ValueError(f"{node.name} has chunks of shape {node.chunks}, which exceed the memory limit")
        # Other filters are rejected, because HDF5 would load a shared library to decode them.
        layout = node.id.get_create_plist()
        if used := {layout.get_filter(i)[0] for i in range(layout.get_nfilters())} - _FILTERS:
            raise ValueError(f"{node.name} uses the filters {sorted(used)}, which are not part of HDF5")


@contextlib.contextmanager
def new_hdf5(path: str | os.PathLike[str], **options: Any) -> Iterator[Any]:
    """Context manager with a new h5py file. At the end of the context, the file replaces `path`.

    Args:
        path: The file.
        **options: Other arguments of `h5py.File`.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
        MissingDependencyError: If h5py is not installed.
    """
    h5py = h5py_module()
    with atomic_path(path) as temporary, _Output(temporary, "w+b") as output:
        with h5py.File(output, "w", **options) as made:
            yield made
        if output.error is not None:
            raise output.error


class _Output(io.FileIO):
    """File that stores its first error instead of raising it, because HDF5 crashes the process at exit after an error.

    After the first error, the file ignores writes, and reads return zeros.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        count = len(rest)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]  # if the disk is nearly full, a write may be partial
        except OSError as error:
            self.error = error
        return count

    def readinto(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        count = super().readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return self.tell() if size is None else size


MAGIC = b"\x89HDF\r\n\x1a\n"
_MAPPED_FROM = 1 << 30
_MOST_EPISODES = 1 << 24


def write_hdf5(path: str, flat: Flat) -> None:
    """Write the arrays atomically, under their names.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
    """
    with new_hdf5(path) as file:
        for name, values in flat.arrays.items():
            write_nested(file, name, values)
        for name, number in flat.numbers().items():
            file[name] = number
        if flat.convention == SAME_ROW:
            file["version"] = "1.0"  # marks SAME_ROW for d3rlpy
        file.attrs["format"] = FORMAT
        file.attrs.update(flat.conventions())


def write_nested(parent: Any, name: str, values: Any) -> None:
    """Write an array, or write a dict or tuple of arrays as a group."""
    if isinstance(values, np.ndarray):
        parent[name] = values
        return
    group = parent.create_group(name)
    parts = values if isinstance(values, Mapping) else {f"{INDEX}{i}": part for i, part in enumerate(values)}
    for key, part in parts.items():
        write_nested(group, str(key), part)


def read_hdf5(path: str, memory_map: bool | None = None, max_bytes: int | None = None) -> Flat:
    """Return the content of an HDF5 file.

    Args:
        path: The file.
        memory_map: True to leave observations in the file and read them on access. The observations must be
            uncompressed and contiguous, and the file must not change later. If None, contiguous observations larger
            than 1 GiB are left in the file.
        max_bytes: Limit on the memory of the arrays, in bytes. If None, max(`flat.RATIO` * file size, `flat.FLOOR`).

    Raises:
        CheckpointError: If the file is damaged or truncated, refers to other files, or contains other data than
            numbers.
        MissingDependencyError: If h5py is not installed.
    """
    with open_hdf5(path, max_bytes) as file:
        if "num_episodes" in file:
            return _read_episodes(file)
        arrays = {name: file.read(name) for name in ARRAYS[1:] if name in file}
        if "observations" in file:
            arrays["observations"] = _observations(file, path, memory_map)
        stored_conventions = [file.group.attrs.get(name) for name in CONVENTIONS]
        convention, dataset_convention = (None if value is None else str(value) for value in stored_conventions)
        if convention is None:
            convention = _convention_of_d3rlpy(file)
        return flat_from(arrays, convention, dataset_convention)


def _convention_of_d3rlpy(file: Members) -> str | None:
    """Return the reward convention of the release of d3rlpy that wrote a file. None for 0.51 and earlier, and others.

    Release 1.1 writes `version`, 0.60 to 1.0 write `episode_terminals` without it.
    """
    if "version" in file:
        return SAME_ROW
    names = ("episode_terminals", "discrete_action")
    return NEXT_ROW if "create_mask" in file or all(name in file for name in names) else None


@contextlib.contextmanager
def open_hdf5(path: str, max_bytes: int | None = None) -> Iterator[Members]:
    """Return a context with the members of an HDF5 file, in which all errors are raised as a `CheckpointError`."""
    h5py = h5py_module()
    with open_regular(path) as plain:
        budget = Budget(os.fstat(plain.fileno()).st_size, max_bytes)
    with read_errors(path, "is damaged, or does not contain a dataset"), h5py.File(path, "r") as file:
        yield Members(file, budget)


def _observations(file: Members, path: str, memory_map: bool | None) -> Any:
    node = file.node("observations")
    offset = None  # position of the values in the file, if they are contiguous
    if not hasattr(node, "keys") and (node.nbytes > _MAPPED_FROM if memory_map is None else memory_map):
        whole = not node.chunks and node.id.get_storage_size() == node.nbytes
        offset = node.id.get_offset() if whole else None
    if offset is not None:
        return np.memmap(path, file.numbers(node).dtype, "r", offset, node.shape)
    if memory_map:
        raise ValueError("observations cannot be mapped: they are nested, chunked or compressed")
    return file.read("observations")


def episodes_in(file: Members) -> tuple[dict[str, Any], Indices]:
    """Return the columns of a file of d3rlpy 2.x, which contains separate arrays for each episode.

    Returns:
        The columns observations, actions and rewards of all episodes, [n, ...], and terminated, [E]. The last row of
        each episode, [E].

    Raises:
        ValueError: If the number of episodes is not possible, or if columns have different lengths.
    """
    count = int(file.read("num_episodes"))
    if not 0 < count <= min(_MOST_EPISODES, len(file)):
        raise ValueError(f"num_episodes is {count}, expected 1 to {min(_MOST_EPISODES, len(file))}")
    parts: dict[str, list[Any]] = {"observations": [_parts_of(file, f"observations_{i}") for i in range(count)]}
    parts |= {name: [file.read(f"{name}_{i}") for i in range(count)] for name in ("actions", "rewards")}
    sizes = [len(rewards) for rewards in parts["rewards"]]
    for name, values in parts.items():
        if any(len(leaf) != n for value, n in zip(values, sizes, strict=True) for leaf in structure_of(value)[1]):
            raise ValueError(f"{name} and rewards of an episode have different lengths")
    ends = np.cumsum(sizes) - 1
    arrays = {name: combine_nested(np.concatenate, values) for name, values in parts.items()}
    return arrays | {"terminated": [bool(file.read(f"terminated_{i}")) for i in range(count)]}, ends


def _read_episodes(file: Members) -> Flat:
    """Return the content of a file of d3rlpy 2.x."""
    arrays, ends = episodes_in(file)
    last = np.zeros(ends[-1] + 1, np.bool_)
    ended = last.copy()
    last[ends], ended[ends] = True, arrays.pop("terminated")
    return Flat(arrays | {"terminals": ended, "timeouts": last & ~ended}, SAME_ROW, None)


def _parts_of(file: Members, name: str) -> Any:
    if name in file:
        return file.read(name)
    count = next(j for j in range(len(file) + 1) if f"{name}_{j}" not in file)
    if not count:
        raise ValueError(f"the file has no {name}")
    return tuple(file.read(f"{name}_{j}") for j in range(count))


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """True if a file begins with the signature of HDF5."""
    with open_regular(os.fspath(path)) as file:
        return file.read(len(MAGIC)) == MAGIC
