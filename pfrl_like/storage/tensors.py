"""Reading state dicts from PyTorch's `.pt` files without unpickling.

A `.pt` file is a zip of raw storages and of a pickle, a small program that says how to put them together. It is not
run by an unpickler here, not even a restricted one, but read as data: some thirty instructions are understood, the
functions that it may name are the five of `_REBUILD`, and none is imported or called. So nothing outside this file
decides what a file can do, and every size is compared with the bytes that are there before memory is taken.
"""

import collections
import math
import os
import pickletools
import sys
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import open_regular
from pfrl_like.storage.budget import refused
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
# Far beyond any state dict; the bounds of plain_tensors keep what is written within them.
_MAX_PROGRAM = 1 << 24
_MAX_ENTRIES = 1 << 17
_MAX_OVERHEAD = 1 << 26  # bytes of a file beside its tensors


def load_tensors(path: str, *, max_bytes: int | None = None) -> Any:
    """Read a state dict from a `.pt` file of PyTorch >= 1.6, executing nothing.

    Args:
        path: The file.
        max_bytes: Refuse a file whose storages and tensors together take more; None is 16 times the size of the file.

    Returns:
        What was saved: tensors on the CPU, inside dicts, lists and tuples. One that was saved in several places is one
        tensor in all of them; no two tensors share memory.

    Raises:
        CheckpointError: If the file is damaged, is no state dict, or holds anything but plain tensors and values.
    """
    with open_regular(path) as file, refused(path, "is damaged, or is no state dict saved by torch.save"):
        size = os.fstat(file.fileno()).st_size
        if max_bytes is not None and size > max_bytes + _MAX_OVERHEAD:
            raise CheckpointError(path, f"has {size} bytes; expected at most {max_bytes + _MAX_OVERHEAD}")
        with zipfile.ZipFile(file) as archive:
            program = _Program(_Archive(path, archive, max_bytes))
            value = program.run()
    return checked_tensors(value, path, program.size)


class _Archive:
    """The zip file: which entries there are, and the bytes of one."""

    def __init__(self, path: str, archive: zipfile.ZipFile, max_bytes: int | None) -> None:
        self.path = path
        self._archive = archive
        if archive.fp is None:
            self.refuse("is closed")
        size = archive.fp.seek(0, 2)
        self._budget = 16 * size if max_bytes is None else max_bytes
        entries = archive.infolist()
        if len(entries) > _MAX_ENTRIES:
            self.refuse(f"has {len(entries)} zip entries; expected at most {_MAX_ENTRIES}")
        self._entries = {entry.filename: entry for entry in entries}
        if len(self._entries) != len(entries):
            self.refuse("has two zip entries of one name")
        for entry in entries:
            self._check_entry(entry)
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
        """Count memory that is about to be taken."""
        self._budget -= size
        if self._budget < 0:
            self.refuse("needs more memory than what is to be loaded could take")

    def _check_entry(self, entry: zipfile.ZipInfo) -> None:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            self.refuse(f"has a compressed or encrypted zip entry {entry.filename!r}; torch.save stores them plainly")
        if entry.filename.startswith("/") or ".." in entry.filename.split("/") or "\\" in entry.filename:
            self.refuse(f"has a zip entry with an unsafe name {entry.filename!r}")

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


class _Name(NamedTuple):
    """A function or class that the program names; it stays a name."""

    module: str
    name: str


class _Storage(NamedTuple):
    """A storage of the file, read once."""

    data: torch.Tensor


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> torch.Tensor:
    """A tensor over a storage; gradient flag, hooks and metadata, which follow, are not taken over."""
    if not isinstance(storage, _Storage) or type(size) is not tuple or type(stride) is not tuple:
        raise ValueError("a tensor is not made from a storage, a size and a stride")
    if len(size) != len(stride) or len(size) > MAX_DIMENSIONS:
        raise ValueError(f"a tensor has {len(size)} sizes and {len(stride)} strides, expected at most {MAX_DIMENSIONS}")
    if not all(type(n) is int and n >= 0 for n in (offset, *size, *stride)):  # not shown, for nobody knows their length
        raise ValueError("a tensor has an offset, size or stride that is no number of at least 0")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= len(storage.data):
        raise ValueError(f"a tensor of size {size} reaches beyond its storage of {len(storage.data)} elements")
    return storage.data.as_strided(size, stride, offset)


def _rebuild_parameter(data: Any, *_: Any) -> torch.Tensor:
    """The data of an `nn.Parameter`."""
    if type(data) is not torch.Tensor:
        raise ValueError("a parameter holds no tensor")
    return data


def _rebuild_size(size: Any) -> tuple[Any, ...]:
    """A `torch.Size`, as the tuple that it is."""
    if type(size) is not tuple:
        raise ValueError("a size is no tuple")
    return size


def _rebuild_counter(counts: Any) -> collections.Counter[Any]:
    """The milestones of a learning rate schedule."""
    if type(counts) is not dict or len(counts) > 1024:
        raise ValueError("a counter is no small dict")
    return collections.Counter(counts)


def _rebuild_ordered_dict() -> collections.OrderedDict[Any, Any]:
    """An empty one; its items follow."""
    return collections.OrderedDict()


_REBUILD: dict[_Name, Callable[..., Any]] = {
    _Name("collections", "OrderedDict"): _rebuild_ordered_dict,
    _Name("collections", "Counter"): _rebuild_counter,
    _Name("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    _Name("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    _Name("torch", "Size"): _rebuild_size,
}


class _Program:
    """The stack machine of a pickle of protocol 2, as far as `torch.save` uses it on a state dict."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._program = archive.read("data.pkl", _MAX_PROGRAM)
        self.size = len(self._program)
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._storages: dict[str, tuple[torch.dtype, _Storage]] = {}

    def run(self) -> Any:
        for opcode, argument, _ in pickletools.genops(self._program):
            if opcode.name == "STOP":
                break
            step = _STEPS.get(opcode.name)
            if step is None:
                self._archive.refuse(f"is no state dict: its pickle uses the instruction {opcode.name}")
            step(self, argument)
        (value,) = self._stack
        return value

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def protocol(self, version: int) -> None:
        if version > 2:
            self._archive.refuse(f"is a pickle of protocol {version}; expected 2, the default of torch.save")

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self.push(self._memo[index])

    def mark(self, _: Any) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def pop_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marks.pop()
        return items

    def pop_tuple(self, length: int) -> None:
        items = tuple(self._stack[-length:])
        if len(items) != length:
            raise ValueError("its pickle takes values that are not there")
        self._stack[-length:] = [items]

    def append(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise ValueError("its pickle appends to something else than a list")
        self._stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        if type(self._stack[-1]) not in (dict, collections.OrderedDict):
            raise ValueError("its pickle sets items of something else than a dict")
        keys = items[::2]
        if not all(map(is_plain_key, keys)):  # before any is hashed
            raise ValueError("its pickle has a key in a dict that is neither text nor a moderate integer")
        self._stack[-1].update(zip(keys, items[1::2], strict=True))

    def pop(self, count: int) -> list[Any]:
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def name(self, argument: str) -> None:
        name = _Name(*argument.split(" "))
        known = name in _REBUILD or (name.module == "torch" and name.name in _STORAGES)
        if not known:
            self._archive.refuse(f"is no state dict: it names {name.module}.{name.name}, which is refused unread")
        self.push(name)

    def reduce(self, _: Any) -> None:
        function, arguments = self.pop(2)
        if type(function) is not _Name or type(arguments) is not tuple or function not in _REBUILD:
            raise ValueError("its pickle calls something that is no function of a state dict")
        value = _REBUILD[function](*arguments)
        if function.name == "_rebuild_tensor_v2":  # a stride of 0 lets a few bytes stand for a tensor of any size
            self._archive.spend(value.nbytes)
        elif function.name == "Counter":  # one dict can be counted again and again
            self._archive.spend(sys.getsizeof(value))
        self.push(value)

    def build(self, _: Any) -> None:
        (state,) = self.pop(1)
        # The versions of modules, kept by `Module.state_dict`, are the one attribute that a state dict has.
        target = self._stack[-1]
        if type(target) is not collections.OrderedDict or type(state) is not dict or set(state) != {"_metadata"}:
            raise ValueError("its pickle sets attributes")
        vars(target).update(state)

    def storage(self, _: Any) -> None:
        kind, storage_type, key, _device, length = self.pop(1)[0]
        if kind != "storage" or type(storage_type) is not _Name or type(key) is not str or type(length) is not int:
            raise ValueError("its pickle asks for something else than a storage")
        dtype = _STORAGES[storage_type.name]
        if key not in self._storages:
            self._storages[key] = dtype, _Storage(self._archive.storage(key, dtype, length))
        if self._storages[key][0] != dtype:
            raise ValueError(f"storage {key!r} is used with two dtypes")
        self.push(self._storages[key][1])


_STEPS: dict[str, Callable[[_Program, Any], None]] = {
    "PROTO": _Program.protocol,
    "MARK": _Program.mark,
    "GLOBAL": _Program.name,
    "REDUCE": _Program.reduce,
    "BUILD": _Program.build,
    "BINPERSID": _Program.storage,
    "TUPLE": lambda program, _: program.push(tuple(program.pop_mark())),
    "APPEND": lambda program, _: program.append(program.pop(1)),
    "APPENDS": lambda program, _: program.append(program.pop_mark()),
    "SETITEM": lambda program, _: program.set_items(program.pop(2)),
    "SETITEMS": lambda program, _: program.set_items(program.pop_mark()),
    "NONE": lambda program, _: program.push(None),
    "NEWTRUE": lambda program, _: program.push(True),
    "NEWFALSE": lambda program, _: program.push(False),
    "EMPTY_TUPLE": lambda program, _: program.push(()),
    "EMPTY_LIST": lambda program, _: program.push([]),
    "EMPTY_DICT": lambda program, _: program.push({}),
}
for _opcode in ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"):
    _STEPS[_opcode] = _Program.push
for _opcode in ("BINPUT", "LONG_BINPUT"):
    _STEPS[_opcode] = _Program.put
for _opcode in ("BINGET", "LONG_BINGET"):
    _STEPS[_opcode] = _Program.get
_STEPS["TUPLE1"] = lambda program, _: program.pop_tuple(1)
_STEPS["TUPLE2"] = lambda program, _: program.pop_tuple(2)
_STEPS["TUPLE3"] = lambda program, _: program.pop_tuple(3)
