"""Safe reading of state dicts from PyTorch's `.pt` files.

A `.pt` file is a zip of raw storages and of a pickle, a small program that puts them together. Some thirty of its
instructions are allowed: those that could do harm are implemented here, the others by Python's own unpickler. The
pickle may name only the functions of `_REBUILD` and the storage classes of `_STORAGES`, and nothing is imported. So
this file alone decides what a `.pt` file can do. Every size is compared with the bytes present before memory is
allocated.
"""

import collections
import io
import math
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, NoReturn

import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import open_regular, refused
from pfrl_like.storage.plain_tensors import MAX_DIMENSIONS, checked_tensors, is_plain_key

_STORAGES = {
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "ByteStorage": torch.uint8,
    "CharStorage": torch.int8,
    "ShortStorage": torch.int16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
    "BoolStorage": torch.bool,
}
# Far beyond any state dict; the bounds of plain_tensors keep written files within them.
_MAX_PROGRAM = 1 << 24
_MAX_ENTRIES = 1 << 17
_MAX_OVERHEAD = 1 << 26  # bytes of a file beside its tensors


def load_tensors(path: str, *, max_bytes: int | None = None) -> Any:
    """Read a state dict from a `.pt` file of PyTorch >= 1.6, executing nothing.

    Args:
        path: The file.
        max_bytes: Refuse a file whose storages and tensors together take more; None is 16 times the size of the file.

    Returns:
        The saved value: tensors on the CPU, inside dicts, lists and tuples. A tensor that was saved in several places
        is the same tensor in all of them; no two tensors share memory.

    Raises:
        CheckpointError: If the file is damaged, is no state dict, or holds anything but plain tensors and values.
    """
    with open_regular(path) as file, refused(path, "is damaged, or is no state dict saved by torch.save"):
        size = os.fstat(file.fileno()).st_size
        if max_bytes is not None and size > max_bytes + _MAX_OVERHEAD:
            raise CheckpointError(path, f"has {size} bytes; expected at most {max_bytes + _MAX_OVERHEAD}")
        with zipfile.ZipFile(file) as archive:
            program = _Program(_Archive(path, archive, size, max_bytes))
            value = program.load()
    return checked_tensors(value, path, program.size)


class _Archive:
    """The zip file: its checked entries and their content."""

    def __init__(self, path: str, archive: zipfile.ZipFile, size: int, max_bytes: int | None) -> None:
        self.path = path
        self._archive = archive
        self._budget = 16 * size if max_bytes is None else max_bytes
        entries = archive.infolist()
        if len(entries) > _MAX_ENTRIES:
            self.refuse(f"has {len(entries)} zip entries; expected at most {_MAX_ENTRIES}")
        self._entries = {entry.filename: entry for entry in entries}
        if len(self._entries) != len(entries):
            self.refuse("has two zip entries of one name")
        for entry in entries:
            is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
            if not is_stored or entry.flag_bits & 1:
                self.refuse(f"has a compressed or encrypted zip entry {entry.filename!r}; torch.save stores plain ones")
            if entry.filename.startswith("/") or ".." in entry.filename.split("/") or "\\" in entry.filename:
                self.refuse(f"has a zip entry with an unsafe name {entry.filename!r}")
        if sum(entry.file_size for entry in entries) > size:
            self.refuse("has zip entries larger than the file")
        programs = [name for name in self._entries if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(programs) != 1:
            self.refuse("is no state dict saved by torch.save: expected one entry <name>/data.pkl")
        self._folder = programs[0].removesuffix("data.pkl")
        order = self._folder + "byteorder"
        if order in self._entries and self.read("byteorder", 16) != sys.byteorder.encode():
            self.refuse(f"was written on a machine of another byte order than this {sys.byteorder}-endian one")

    def refuse(self, reason: str) -> NoReturn:
        raise CheckpointError(self.path, reason)

    def spend(self, size: int) -> None:
        """Subtract memory that is about to be allocated from the budget; refuse the file if none is left."""
        self._budget -= size
        if self._budget < 0:
            self.refuse("needs more memory than what is to be loaded could take")

    def read(self, name: str, limit: int) -> bytes:
        """The content of an entry of at most `limit` bytes; its checksum has been verified."""
        entry = self._entries.get(self._folder + name)
        if entry is None:
            self.refuse(f"lacks the zip entry {self._folder + name!r}")
        if entry.file_size > limit:
            self.refuse(f"has a zip entry {entry.filename!r} of {entry.file_size} bytes; expected at most {limit}")
        return self._archive.read(entry)

    def storage(self, key: str, dtype: torch.dtype, length: int) -> torch.Tensor:
        """One storage as a tensor of shape [length]."""
        size = length * dtype.itemsize
        if size <= 0:
            return torch.empty(0, dtype=dtype)
        self.spend(size)
        content = self.read(f"data/{key}", size)
        if len(content) != size:
            self.refuse(f"has {len(content)} bytes in storage {key!r}; expected {size}")
        if dtype == torch.bool and content.strip(b"\x00\x01"):
            self.refuse(f"has bytes other than 0 and 1 in the bool storage {key!r}")
        return torch.frombuffer(bytearray(content), dtype=dtype)


class _Storage(NamedTuple):
    """A storage of the file; each is read once."""

    data: torch.Tensor


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> torch.Tensor:
    """A tensor over a storage; the arguments that follow (gradient flag, hooks, metadata) are ignored."""
    if not isinstance(storage, _Storage) or type(size) is not tuple or type(stride) is not tuple:
        raise ValueError("a tensor is not made from a storage, a size and a stride")
    if len(size) != len(stride) or len(size) > MAX_DIMENSIONS:
        raise ValueError(f"a tensor has {len(size)} sizes and {len(stride)} strides, expected at most {MAX_DIMENSIONS}")
    if not all(type(n) is int and n >= 0 for n in (offset, *size, *stride)):  # not shown: they may be of any length
        raise ValueError("a tensor has an offset, size or stride that is no number of at least 0")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= len(storage.data):
        raise ValueError(f"a tensor of size {size} reaches beyond its storage of {len(storage.data)} elements")
    return storage.data.as_strided(size, stride, offset)


def _rebuild_itself(value: Any, *_: Any) -> Any:
    """The first argument: the data of an `nn.Parameter`, or the tuple of a `torch.Size`."""
    return value


def _rebuild_counter(counts: Any) -> collections.Counter[Any]:
    """A `Counter`, which holds the milestones of a learning rate schedule."""
    if type(counts) is not dict or len(counts) > 1024:
        raise ValueError("a counter is no small dict")
    return collections.Counter(counts)


_REBUILD: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): lambda: collections.OrderedDict(),  # an empty one; its items follow
    ("collections", "Counter"): _rebuild_counter,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_itself,
    ("torch", "Size"): _rebuild_itself,
}


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
        """The stand-in for a name: a dtype or a function of this module; nothing is imported."""
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) not in _REBUILD:
            self._archive.refuse(f"is no state dict: it names {module}.{name}, which is refused unread")
        return _REBUILD[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """The storage that a persistent id of the pickle names."""
        kind, dtype, key, _device, length = pid
        if kind != "storage" or type(dtype) is not torch.dtype or type(key) is not str or type(length) is not int:
            raise ValueError("its pickle asks for something else than a storage")
        if key not in self._storages:
            self._storages[key] = dtype, _Storage(self._archive.storage(key, dtype, length))
        if self._storages[key][0] != dtype:
            raise ValueError(f"storage {key!r} is used with two dtypes")
        return self._storages[key][1]

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(function) is not FunctionType or type(arguments) is not tuple:  # only _REBUILD has functions
            raise ValueError("its pickle calls something that is no function of a state dict")
        value = function(*arguments)
        if function is _rebuild_tensor:  # a stride of 0 lets a few bytes stand for a tensor of any size
            self._archive.spend(value.nbytes)
        elif function is _rebuild_counter:  # one dict can be counted again and again
            self._archive.spend(sys.getsizeof(value))
        self.stack.append(value)

    def build(self) -> None:
        state = self.stack.pop()
        # The only attribute of a state dict is `_metadata`, the versions of modules that `Module.state_dict` stores.
        target = self.stack[-1]
        if type(target) is not collections.OrderedDict or type(state) is not dict or set(state) != {"_metadata"}:
            raise ValueError("its pickle sets attributes")
        vars(target).update(state)

    def set_items(self, items: list[Any]) -> None:
        if type(self.stack[-1]) not in (dict, collections.OrderedDict):
            raise ValueError("its pickle sets items of something else than a dict")
        keys = items[::2]
        if not all(map(is_plain_key, keys)):  # checked before any key is hashed
            raise ValueError("its pickle has a key in a dict that is neither text nor a moderate integer")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    def refuse(self) -> None:
        raise ValueError("its pickle has an instruction that torch.save, of protocol 2, does not write of a state dict")


#: The instructions that `pickle` executes unchanged.
_KEPT = (
    pickle.PROTO, pickle.STOP, pickle.MARK, pickle.GLOBAL, pickle.BINPERSID, pickle.NONE, pickle.NEWTRUE,
    pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT, pickle.BINUNICODE,
    pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET, pickle.EMPTY_LIST, pickle.APPEND,
    pickle.APPENDS, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_DICT,
)  # fmt: skip
_INSTRUCTIONS: dict[int, Callable[[Any], None]] = (
    dict.fromkeys(range(256), _Program.refuse)
    | {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _KEPT}
    | {pickle.REDUCE[0]: _Program.reduce, pickle.BUILD[0]: _Program.build}
    | {pickle.SETITEM[0]: lambda program: program.set_items([program.stack.pop(-2), program.stack.pop()])}
    | {pickle.SETITEMS[0]: lambda program: program.set_items(program.pop_mark())}
)
_Program.dispatch = _INSTRUCTIONS
