"""`.npz` files of datasets."""

import io
import os
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset.flat import ARRAYS, CONVENTIONS, FORMAT, Budget, Flat, flat_from
from pfrl_like.errors import CheckpointError
from pfrl_like.storage import atomic_write, open_regular
from pfrl_like.storage.atomic import read_errors

_SUFFIX = ".npy"


def write_npz(path: str, flat: Flat) -> None:
    """Write the arrays atomically, together with the reward conventions.

    Raises:
        CheckpointError: If the file cannot be written, for instance because observations are nested.
    """
    if not isinstance(flat.arrays["observations"], np.ndarray):
        raise CheckpointError(path, "cannot store nested observations; write an HDF5 file (.h5)")
    arrays = {**flat.arrays, **flat.numbers(), "format": FORMAT, **flat.conventions()}
    atomic_write(path, lambda file: np.savez(file, **arrays))


def read_npz(path: str, max_bytes: int | None = None) -> Flat:
    """Return the content of a `.npz` file. Nothing is unpickled.

    Args:
        path: The file.
        max_bytes: Limit on the memory of the arrays, in bytes. If None, max(`flat.RATIO` * file size, `flat.FLOOR`).

    Raises:
        CheckpointError: If the file is damaged, contains objects, or exceeds the limit.
    """
    with open_regular(path) as file, read_errors(path, "is neither HDF5 nor an archive of arrays (.npz)"):
        with zipfile.ZipFile(file) as archive:
            arrays = _arrays(archive, Budget(os.fstat(file.fileno()).st_size, max_bytes))
        stored_conventions = [str(arrays.pop(name)) if name in arrays else None for name in CONVENTIONS]
        return flat_from(arrays, *stored_conventions)


def _arrays(archive: zipfile.ZipFile, budget: Budget) -> dict[str, NDArray[Any]]:
    names = {*ARRAYS, *CONVENTIONS}
    members = [info for info in archive.infolist() if info.filename.removesuffix(_SUFFIX) in names]
    if len({info.filename for info in members}) != len(members):
        raise ValueError("two arrays have the same name")
    arrays = {}
    for info in members:
        budget.spend(info.file_size, info.filename)
        with archive.open(info) as member:
            if size_of_npy(io.BytesIO(member.read(1 << 16)), "biufU") != info.file_size:
                raise ValueError(f"{info.filename} has a different size than its array")
            member.seek(0)
            arrays[info.filename.removesuffix(_SUFFIX)] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def size_of_npy(start: BinaryIO, kinds: str) -> int:
    """Return the total size of a `.npy` file in bytes.

    Args:
        start: First bytes of the file.
        kinds: Allowed kinds of dtypes.

    Raises:
        ValueError: If the file is not a `.npy` file, or has a dtype of another kind.
    """
    version = np.lib.format.read_magic(start)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"the .npy format {version} is unknown")
    shape, _, dtype = readers[version](start)
    if dtype.kind not in kinds:
        raise ValueError(f"the array contains {dtype}, expected numbers")
    return int(np.prod(shape, dtype=object)) * dtype.itemsize + start.tell()
