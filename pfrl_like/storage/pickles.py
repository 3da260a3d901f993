"""Restricted reading and writing of pickles: object columns of saved buffers, and PFRL's replay files.

A pickle names functions and calls them. In these pickles only NumPy's arrays, plain containers and PFRL's replay
classes are allowed; the replay classes are replaced by inert classes. All other names are rejected before they are
looked up, so a file cannot run code. A manipulated file can still exhaust the memory. Callers must therefore pass
`allow_pickle`.
"""

import collections
import io
import itertools
import os
import pickle
import struct
import sys
import zlib
from typing import IO, Any, NoReturn

import numpy as np

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import open_regular


class PfrlQueue:
    """Content of a pickled `RandomAccessQueue` of PFRL.

    Attributes:
        maxlen: Maximum number of items. None if there is no maximum.
    """

    maxlen: int | None = None
    _queue_front: list[Any] = []
    _queue_back: list[Any] = []

    def items(self) -> list[Any]:
        """Return the items, oldest first."""
        return [*reversed(self._queue_front), *self._queue_back]


class PfrlTree:
    """Content of a pickled `SumTreeQueue` or `MinTreeQueue` of PFRL: nested [left, right, value] over `bounds`."""

    length: int = 0
    root: Any = None
    bounds: tuple[int, int] = (0, 0)

    def values(self) -> list[float]:
        """Return the values at positions 0 to length - 1.

        Raises:
            ValueError: If the tree cannot have been created by PFRL.
        """
        values: dict[int, float] = {}
        pending = [(self.root, *self.bounds)] if self.length else []
        for _ in range(8 * self.length + 128):
            if not pending:
                break
            node, left, right = pending.pop()
            if right - left == 1 and node:
                values[left] = float(node[2])
            elif node and right > left:
                centre = (left + right) // 2
                pending += [(node[0], left, centre), (node[1], centre, right)]
        if pending or not set(range(self.length)) <= set(values):
            raise ValueError(f"the tree does not contain {self.length} values")
        return [values[i] for i in range(self.length)]


class PfrlPrioritized:
    """Content of a pickled `PrioritizedBuffer` of PFRL.

    Attributes:
        capacity: Maximum number of items. None if there is no maximum.
        data: The items, oldest first.
        priority_sums: The priorities of the items.
        max_priority: Priority of new items.
    """

    capacity: int | None = None
    data: collections.deque[Any] = collections.deque()
    priority_sums: PfrlTree = PfrlTree()
    max_priority: float = 1.0


class _Inert:
    """Replacement for a function that a pickle names but does not call."""


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Return the bytes of a text, as written by pickle protocols below 3."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it uses the encoding {encoding!r}, expected 'latin1'")
    return text.encode("latin1")


#: All names that a pickle may use.
_KNOWN: dict[tuple[str, str], Any] = {
    ("pfrl.collections.random_access_queue", "RandomAccessQueue"): PfrlQueue,
    ("pfrl.collections.prioritized", "PrioritizedBuffer"): PfrlPrioritized,
    ("pfrl.collections.prioritized", "SumTreeQueue"): PfrlTree,
    ("pfrl.collections.prioritized", "MinTreeQueue"): PfrlTree,
    ("builtins", "sum"): _Inert,
    ("builtins", "min"): _Inert,
    ("collections", "deque"): collections.deque,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
} | {("builtins", kind.__name__): kind for kind in (set, frozenset, bytearray, complex, slice, range)}
#: NumPy's functions for arrays and numbers; they are in numpy.core in NumPy 1 and in numpy._core in NumPy 2.
_CORE = "numpy._core" if "numpy._core.multiarray" in sys.modules else "numpy.core"
for _part, _name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer")):
    for _core in ("numpy.core", "numpy._core"):
        _KNOWN[f"{_core}.{_part}", _name] = getattr(sys.modules[f"{_CORE}.{_part}"], _name)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not allowed")
        return _KNOWN[module, name]


def dump_objects(values: Any, path: object) -> bytes:
    """Pickle values and check that `load_objects` can read them.

    Args:
        values: Any nesting of NumPy arrays, numbers, strings and plain containers.
        path: File that the values are written to, for error messages.

    Raises:
        CheckpointError: If an object has a class that is not allowed.
    """
    try:
        content = pickle.dumps(values, protocol=4)
    except Exception as error:  # a user's __reduce__ may raise anything
        raise CheckpointError(path, f"cannot be written: {type(error).__name__}: {error}") from error
    load_objects(content, path)
    return content


def load_objects(content: bytes | IO[bytes], path: object) -> Any:
    """Unpickle the bytes of `dump_objects`, or a file.

    Raises:
        CheckpointError: If the pickle is damaged or names a class that is not allowed.
    """
    try:
        return _Unpickler(io.BytesIO(content) if isinstance(content, bytes) else content).load()
    except Exception as error:  # a damaged pickle may raise anything
        reason = str(error) or type(error).__name__
        raise CheckpointError(path, f"contains a pickle that cannot be read: {reason}") from error


def read_pickle(path: str, *, allow_pickle: bool = False) -> Any:
    """Read a file written by PFRL's `ReplayBuffer.save`, or the directory of one of PFRL's persistent buffers.

    Args:
        path: The file or the directory.
        allow_pickle: True to read the file although it is a pickle. The pickle cannot run code, but a manipulated file
            can use any amount of memory. Use it only for files whose origin you know.

    Returns:
        `PfrlQueue`, `PfrlPrioritized`, a tuple of two queues (episodic), or a deque of dicts, as in PFRL. For a
        directory, `PfrlQueue` or a tuple of two.

    Raises:
        CheckpointError: If pickles are not allowed, or if the file is damaged or names a class that is not allowed.
    """
    if os.path.isdir(path):
        return _read_directory(path, allow_pickle)
    with open_regular(path) as file:
        if not file.seek(0, os.SEEK_END):
            raise CheckpointError(path, "is empty")
        if not allow_pickle:
            reject_pickle(path, "is a pickle, or not a saved buffer")
        file.seek(0)
        return load_objects(file, path)


#: Folders of a persistent buffer of PFRL, and of the two queues of an episodic one.
_CHUNKS, _QUEUES = "rank0", ("memory", "episodic_memory")
#: Entry of an index file: number of the chunk, offset and length of the pickle, its CRC-32, a flag.
_ENTRY = struct.Struct("QQQIi")


def is_pfrl_directory(path: str | os.PathLike[str]) -> bool:
    """Return True if a path is the directory of one of PFRL's persistent buffers."""
    queues = [os.path.join(path, name) for name in _QUEUES]
    return any(os.path.isdir(os.path.join(queue, _CHUNKS)) for queue in (path, *queues))


def _read_directory(path: str, allow_pickle: bool) -> Any:
    if not is_pfrl_directory(path):
        raise CheckpointError(path, "is a directory, expected a file or the directory of a persistent buffer of PFRL")
    if not allow_pickle:
        reject_pickle(path, "contains the pickles of a persistent buffer of PFRL")
    if os.path.isdir(os.path.join(path, _CHUNKS)):
        return _read_chunks(os.path.join(path, _CHUNKS))
    return tuple(_read_chunks(os.path.join(path, queue, _CHUNKS)) for queue in _QUEUES)


def _read_chunks(folder: str) -> PfrlQueue:
    """Read the items of a folder. Chunk i has the pickles in `chunk.<i>.data` and their places in `chunk.<i>.idx`."""
    queue, items = PfrlQueue(), list[Any]()
    for number in itertools.count():
        index, data = (os.path.join(folder, f"chunk.{number}.{kind}") for kind in ("idx", "data"))
        if not (os.path.lexists(index) and os.path.lexists(data)):
            break
        with open_regular(index) as places, open_regular(data) as file:
            content, size = places.read(), os.fstat(file.fileno()).st_size
            whole = len(content) - len(content) % _ENTRY.size  # a crash may cut the last entry
            for _, offset, length, crc, _ in _ENTRY.iter_unpack(content[:whole]):
                if offset + length > size:
                    raise CheckpointError(data, f"has {size} bytes, but {index} names bytes {offset + length}")
                file.seek(offset)
                pickled = file.read(length)
                if zlib.crc32(pickled) != crc:
                    raise CheckpointError(data, f"is damaged: a checksum differs at byte {offset}")
                items.append(load_objects(pickled, data))
    queue._queue_back = items
    return queue


def reject_pickle(path: object, reason: str) -> NoReturn:
    """Raise an error that says that a file needs `allow_pickle`, and that explains the risk.

    Raises:
        CheckpointError: Always.
    """
    advice = "pass allow_pickle=True if you trust its origin: a manipulated pickle can exhaust the memory"
    raise CheckpointError(path, f"{reason}; {advice}")
