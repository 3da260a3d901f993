"""Safe reading of state dicts from PyTorch's `.pt` files.

A `.pt` file is a zip archive of raw storages and a pickle. The pickle is a small program that assembles the storages.
About thirty of its instructions are allowed. Instructions that could do harm are implemented in this file. Python's own
unpickler executes the other allowed instructions. The pickle may only name the functions of `_REBUILD` and the storage
classes of `_STORAGES`, and nothing is imported. Therefore this file alone defines what a `.pt` file can do. Every size
is compared with the number of bytes in the file before memory is allocated.
"""

import collections
import contextlib
import io
import math
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import open_regular, read_errors
from pfrl_like.storage.plain_tensors import MAX_DIMENSIONS, checked_tensors, is_plain_key

_NAMES = ("BFloat16", "Bool", "Double", "Float", "Half", "Int", "Long", "Short")  # as PyTorch's dtypes
_STORAGES = {f"{name}Storage": getattr(torch, name.lower()) for name in _NAMES}
_STORAGES |= {"ByteStorage": torch.uint8, "CharStorage": torch.int8}
_STORAGES |= {"ComplexFloatStorage": torch.complex64, "ComplexDoubleStorage": torch.complex128}
# These limits are much larger than any state dict. The limits in `plain_tensors` are lower, so that written files can
# be read.
_MAX_PROGRAM = 1 << 24
_MAX_ENTRIES = 1 << 17
_MAX_OVERHEAD = 1 << 26  # maximum bytes of a file in addition to its tensors


def load_tensors(path: str, *, max_bytes: int | None = None) -> Any:
    """Read a state dict from a `.pt` file of PyTorch >= 1.6, without running code from the file.

    Args:
        path: The file.
        max_bytes: Maximum total size of storages and tensors in bytes. Larger files are rejected. If None, the limit is
            16 times the file size.

    Returns:
        The saved value: tensors on the CPU, inside dicts, lists and tuples. A tensor that was saved in several places
        is the same object in all of them. Different tensors do not share memory.

    Raises:
        CheckpointError: If the file is damaged, is not a state dict, or contains values other than tensors, numbers,
            strings, None, dicts, lists and tuples.
    """
    with open_regular(path) as file, read_errors(path, "is damaged, or is not a state dict saved by torch.save"):
        size = os.fstat(file.fileno()).st_size
        if max_bytes is not None and size > max_bytes + _MAX_OVERHEAD:
            raise CheckpointError(path, f"has {size} bytes; expected at most {max_bytes + _MAX_OVERHEAD}")
        with zipfile.ZipFile(file) as archive:
            program = _Program(_Archive(path, archive, size, max_bytes))
            value = program.load()
    return checked_tensors(value, path, program.size)


def is_d3(path: str) -> bool:
    """Return True if a file is a model of d3rlpy 2: a pickled dict of a configuration, a `.pt` file and a version."""
    with open_regular(path) as file:
        if file.read(2) != b"\x80\x04":
            return False
        content = file.read()
    return all(name in content for name in (b"\x8c\x06config", b"\x8c\x05torch", b"\x8c\x07version"))


def model_format(path: str) -> str | None:
    """Return a description of a model file for the error message of another reader; None for other files."""
    with contextlib.suppress(CheckpointError):
        if is_d3(path):
            return "a model of d3rlpy 2"
        with open_regular(path) as file, read_errors(path, "is not a zip archive"), zipfile.ZipFile(file) as archive:
            if any(name.endswith("/data.pkl") for name in archive.namelist()):
                return "a file of torch.save, for example a model"
    return None


class _Archive:
    """The zip file: its checked entries and their content."""

    def __init__(self, path: str, archive: zipfile.ZipFile, size: int, max_bytes: int | None) -> None:
        self.path = path
        self._archive = archive
        self._budget = 16 * size if max_bytes is None else max_bytes
        entries = archive.infolist()
        if len(entries) > _MAX_ENTRIES:
            self.reject(f"has {len(entries)} zip entries; expected at most {_MAX_ENTRIES}")
        self._entries = {entry.filename: entry for entry in entries}
        if len(self._entries) != len(entries):
            self.reject("has two zip entries with the same name")
        for entry in entries:
            is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
            if not is_stored or entry.flag_bits & 1:
                self.reject(f"has a compressed or encrypted zip entry {entry.filename!r}; torch.save writes neither")
            if entry.filename.startswith("/") or ".." in entry.filename.split("/") or "\\" in entry.filename:
                self.reject(f"has a zip entry with an unsafe name {entry.filename!r}")
        if sum(entry.file_size for entry in entries) > size:
            self.reject("has zip entries larger than the file")
        programs = [name for name in self._entries if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(programs) != 1:
            self.reject("is not a state dict saved by torch.save: expected one entry <name>/data.pkl")
        self._folder = programs[0].removesuffix("data.pkl")
        order = self._folder + "byteorder"
        if order in self._entries and self.read("byteorder", 16) != sys.byteorder.encode():
            self.reject(f"was written on a machine with a different byte order; this machine is {sys.byteorder}-endian")

    def reject(self, reason: str) -> NoReturn:
        raise CheckpointError(self.path, reason)

    def spend(self, size: int) -> None:
        """Subtract `size` bytes from the memory budget, before they are allocated. Raise an error if it is exceeded."""
        self._budget -= size
        if self._budget < 0:
            self.reject("needs more memory than the limit for this file")

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of an entry of at most `limit` bytes, after a check of its checksum."""
        entry = self._entries.get(self._folder + name)
        if entry is None:
            self.reject(f"has no zip entry {self._folder + name!r}")
        if entry.file_size > limit:
            self.reject(f"has a zip entry {entry.filename!r} of {entry.file_size} bytes; expected at most {limit}")
        return self._archive.read(entry)

    def storage(self, key: str, dtype: torch.dtype, length: int) -> torch.Tensor:
        """Return one storage as a tensor of shape [length]."""
        size = length * dtype.itemsize
        if size <= 0:
            return torch.empty(0, dtype=dtype)
        self.spend(size)
        content = self.read(f"data/{key}", size)
        if len(content) != size:
            self.reject(f"has {len(content)} bytes in storage {key!r}; expected {size}")
        if dtype == torch.bool and content.strip(b"\x00\x01"):
            self.reject(f"has bytes other than 0 and 1 in the bool storage {key!r}")
        return torch.frombuffer(bytearray(content), dtype=dtype)


class _Storage(NamedTuple):
    """A storage of the file. Each storage is read once."""

    data: torch.Tensor


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> torch.Tensor:
    """Return a tensor over a storage. Ignore the other arguments (gradient flag, hooks, metadata)."""
    if not isinstance(storage, _Storage) or type(size) is not tuple or type(stride) is not tuple:
        raise ValueError("a tensor is not constructed from a storage, a size and a stride")
    if len(size) != len(stride) or len(size) > MAX_DIMENSIONS:
        raise ValueError(f"a tensor has {len(size)} sizes and {len(stride)} strides, expected at most {MAX_DIMENSIONS}")
    # The error does not show the numbers, because a manipulated file may contain very long numbers.
    if not all(type(n) is int and n >= 0 for n in (offset, *size, *stride)):
        raise ValueError("a tensor has an offset, size or stride that is not an integer >= 0")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= len(storage.data):
        raise ValueError(f"a tensor of size {size} exceeds its storage of {len(storage.data)} elements")
    return storage.data.as_strided(size, stride, offset)


def _first_argument(value: Any, *_: Any) -> Any:
    """Return the first argument: the data of an `nn.Parameter`, or the tuple of a `torch.Size`."""
    return value


def _rebuild_counter(counts: Any) -> collections.Counter[Any]:
    """Return a `Counter`. Learning rate schedules use this class for their milestones."""
    if type(counts) is not dict or len(counts) > 1024:
        raise ValueError("a counter is not a dict of at most 1024 entries")
    return collections.Counter(counts)


#: Codes of the number types that a NumPy scalar may have.
_NUMBER_CODES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}


class _NumberType:
    """The dtype of a NumPy scalar: one of `_NUMBER_CODES`, and the byte order that the pickle sets later."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "="


def _rebuild_number_type(code: Any, *_: Any) -> _NumberType:
    """Return a dtype. Ignore the other arguments (alignment and copy flags)."""
    if type(code) is not str or code not in _NUMBER_CODES:
        raise ValueError("a NumPy scalar has a dtype that is not a number")
    return _NumberType(code)


def _rebuild_bytes(text: Any, encoding: Any) -> bytes:
    """Return the bytes of a NumPy scalar. Pickle protocol 2 writes them as text."""
    if type(text) is not str or len(text) > 8 or encoding != "latin1":
        raise ValueError("the pickle has bytes that are not a NumPy scalar")
    return text.encode("latin1")


def _rebuild_number(kind: Any, content: Any) -> float | int | bool:
    """Return a NumPy scalar as a Python number. Hooks that set learning rates leave such scalars in an optimiser."""
    if type(kind) is not _NumberType or type(content) is not bytes:
        raise ValueError("a NumPy scalar is not constructed from a dtype and bytes")
    number: float | int | bool = np.frombuffer(content, kind.order + kind.code).item()
    return number


_REBUILD: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): lambda: collections.OrderedDict(),  # the dict is empty; its items are set later
    ("collections", "Counter"): _rebuild_counter,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _first_argument,
    ("torch", "Size"): _first_argument,
    ("numpy", "dtype"): _rebuild_number_type,
    ("_codecs", "encode"): _rebuild_bytes,
    ("numpy.core.multiarray", "scalar"): _rebuild_number,  # NumPy 1
    ("numpy._core.multiarray", "scalar"): _rebuild_number,  # NumPy 2
}


def _set_byte_order(kind: _NumberType, state: Any) -> None:
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise ValueError("the dtype of a NumPy scalar has no byte order")
    kind.order = state[1]


class _Program(pickle._Unpickler):
    """Python's own stack machine of `pickle`, limited to the instructions that `torch.save` writes for a state dict."""

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._storages: dict[str, tuple[torch.dtype, _Storage]] = {}
        program = archive.read("data.pkl", _MAX_PROGRAM)
        self.size = len(program)
        super().__init__(io.BytesIO(program))

    def find_class(self, module: str, name: str) -> Any:
        """Return the dtype or the function of this module that replaces a name. Nothing is imported."""
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) not in _REBUILD:
            self._archive.reject(f"is not a state dict: it names {module}.{name}, which is not allowed")
        return _REBUILD[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that a persistent id of the pickle names."""
        kind, dtype, key, _device, length = pid
        if kind != "storage" or type(dtype) is not torch.dtype or type(key) is not str or type(length) is not int:
            raise ValueError("the pickle refers to an object that is not a storage")
        if key not in self._storages:
            self._storages[key] = dtype, _Storage(self._archive.storage(key, dtype, length))
        if self._storages[key][0] != dtype:
            raise ValueError(f"storage {key!r} is used with two dtypes")
        return self._storages[key][1]

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(function) is not FunctionType or type(arguments) is not tuple:  # all functions come from _REBUILD
            raise ValueError("the pickle calls a function that a state dict does not contain")
        value = function(*arguments)
        if function is _rebuild_tensor:  # with a stride of 0 a few bytes describe a tensor of any size
            self._archive.spend(value.nbytes)
        elif function is _rebuild_counter:  # the pickle can copy the same dict many times
            self._archive.spend(sys.getsizeof(value))
        self.stack.append(value)

    def build(self) -> None:
        state = self.stack.pop()
        if type(self.stack[-1]) is _NumberType:
            _set_byte_order(self.stack[-1], state)
            return
        # The only attribute of a state dict is `_metadata`, the versions of modules that `Module.state_dict` stores.
        target = self.stack[-1]
        if type(target) is not collections.OrderedDict or type(state) is not dict or set(state) != {"_metadata"}:
            raise ValueError("the pickle sets attributes")
        vars(target).update(state)

    def set_items(self, items: list[Any]) -> None:
        if type(self.stack[-1]) not in (dict, collections.OrderedDict):
            raise ValueError("the pickle sets items of an object that is not a dict")
        keys = items[::2]
        if not all(map(is_plain_key, keys)):  # check the keys before any key is hashed
            raise ValueError("the pickle has a dict key that is neither a string nor a small integer")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    def reject(self) -> None:
        raise ValueError("the pickle has an instruction that torch.save (protocol 2) does not write for a state dict")


#: The instructions that `pickle` executes unchanged.
_UNCHANGED = (
    pickle.PROTO, pickle.STOP, pickle.MARK, pickle.GLOBAL, pickle.BINPERSID, pickle.NONE, pickle.NEWTRUE,
    pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT, pickle.BINUNICODE,
    pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET, pickle.EMPTY_LIST, pickle.APPEND,
    pickle.APPENDS, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_DICT,
)  # fmt: skip
_INSTRUCTIONS: dict[int, Callable[[Any], None]] = (
    dict.fromkeys(range(256), _Program.reject)
    | {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _UNCHANGED}
    | {pickle.REDUCE[0]: _Program.reduce, pickle.BUILD[0]: _Program.build}
    | {pickle.SETITEM[0]: lambda program: program.set_items([program.stack.pop(-2), program.stack.pop()])}
    | {pickle.SETITEMS[0]: lambda program: program.set_items(program.pop_mark())}
)
_Program.dispatch = _INSTRUCTIONS
