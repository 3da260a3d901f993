"""State dicts made to harm whoever reads them, and the assembler that writes their pickles."""

import collections
import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

SIX_FLOATS = struct.pack("<6f", *range(6))


def integer(value: int) -> bytes:
    data = pickle.encode_long(value)
    return b"\x8a" + bytes([len(data)]) + data


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def name(module: str, function: str) -> bytes:
    return f"c{module}\n{function}\n".encode()


def group(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def sizes(values: tuple[int, ...]) -> bytes:
    return group(*map(integer, values))


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + group(*arguments) + b"R"


def storage(length: int = 6, kind: str = "FloatStorage", key: str = "0", module: str = "torch") -> bytes:
    return group(text("storage"), name(module, kind), text(key), text("cpu"), integer(length)) + b"Q"


def tensor(
    data: bytes | None = None, offset: int = 0, size: tuple[int, ...] = (2, 3), stride: tuple[int, ...] = (3, 1)
) -> bytes:
    hooks = name("collections", "OrderedDict") + b")R"
    parts = [storage() if data is None else data, integer(offset), sizes(size), sizes(stride), b"\x89", hooks]
    return call(name("torch._utils", "_rebuild_tensor_v2"), *parts)


def program(value: bytes) -> bytes:
    """A pickle of {"x": value}."""
    return b"\x80\x02}" + text("x") + value + b"s."


def archive(value: bytes | None = None, *, entries: Mapping[str, bytes] | None = None, **options: Any) -> bytes:
    """A .pt file of {"x": value} with one storage of six floats, and with further or other entries."""
    content = {"archive/data.pkl": program(tensor() if value is None else value), "archive/data/0": SIX_FLOATS}
    content |= {"archive/byteorder": b"little", "archive/version": b"3\n"} | dict(entries or {})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as out:
        for entry, data in content.items():
            out.writestr(entry, data)
    return file.getvalue()


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def twice(entry: str) -> bytes:
    file = io.BytesIO(archive())
    with warnings.catch_warnings(), zipfile.ZipFile(file, "a") as out:
        warnings.simplefilter("ignore")  # that the name is there already
        out.writestr(entry, bytes(24))
    return file.getvalue()


def renamed(old: bytes, new: bytes, content: bytes) -> bytes:
    assert len(old) == len(new)
    assert old in content
    return content.replace(old, new)


def nested(depth: int) -> bytes:
    return b"]" * depth + b"a" * (depth - 1)


def laughs(first: bytes = b"]K\x00a", depth: int = 30) -> bytes:
    """Lists of ten of the list before, and so on; the first one is of ten of some value."""
    levels = [first + b"q\x00"]
    for i in range(depth):
        levels.append(b"](" + (b"h" + bytes([i])) * 10 + b"eq" + bytes([i + 1]))
    return group(*levels)


def counters(count: int) -> bytes:
    """A list of counters of one dict of 1,024 items."""
    items = b"}(" + b"".join(integer(i) + b"K\x01" for i in range(1024)) + b"u\x85q\x01"
    return b"](" + name("collections", "Counter") + b"q\x00" + items + b"R" + b"h\x00h\x01R" * count + b"e"


def doubled(depth: int) -> bytes:
    """A tuple of twice the tuple before, and so on: short, and 2 ** depth long for whoever follows it."""
    return b")" + b"q\x00h\x00\x86" * depth


def crafted() -> dict[str, Callable[[], bytes]]:
    system, touch = name("posix", "system"), text("touch trapped")
    build = {"items": name("collections", "OrderedDict")}
    return {
        # running something
        "os.system": lambda: archive(call(system, touch)),
        "os.system unused": lambda: archive(system + b"0" + tensor()),
        "eval": lambda: archive(call(name("builtins", "eval"), text("1"))),
        "eval of Python 2": lambda: archive(call(name("__builtin__", "eval"), text("1"))),
        "torch.load": lambda: archive(call(name("torch", "load"), text("x"))),
        "attribute of a module": lambda: archive(name("torch", "os.system")),
        "an allowed name below another module": lambda: archive(name("os", "_rebuild_tensor_v2")),
        "instance": lambda: archive(b"(" + touch + b"iposix\nsystem\n"),
        "object": lambda: archive(b"(" + system + touch + b"o"),
        "new object": lambda: archive(system + group(touch) + b"\x81"),
        "name from the stack": lambda: archive(text("posix") + text("system") + b"\x93"),
        "extension": lambda: archive(b"\x82\x01"),
        "protocol 4": lambda: archive(entries={"archive/data.pkl": pickle.dumps({"x": 1}, 4)}),
        "textual persistent id": lambda: archive(b"Pstorage\n"),
        "call of a value": lambda: archive(integer(3) + b")R"),
        "call of a storage": lambda: archive(call(storage())),
        "attributes of a dict": lambda: archive(b"}" + pickle.dumps(build, 2)[2:-1] + b"b"),
        "items of an ordered dict": lambda: archive(
            name("collections", "OrderedDict") + b")R}" + text("items") + name("collections", "OrderedDict") + b"sb"
        ),
        "a function as value": lambda: archive(name("torch._utils", "_rebuild_tensor_v2")),
        "a storage as value": lambda: archive(storage()),
        "a function as key": lambda: archive(b"}" + name("torch", "Size") + integer(1) + b"s"),
        "plain pickle": lambda: pickle.dumps({"x": 1}),
        # taking memory or time
        "bytearray": lambda: archive(call(name("builtins", "bytearray"), integer(1 << 40))),
        "empty tensor": lambda: archive(call(name("torch", "FloatTensor"), integer(1 << 40))),
        "stride of zero": lambda: archive(tensor(size=(1 << 20, 1 << 20), stride=(0, 0))),
        "huge size": lambda: archive(tensor(size=(1 << 62, 1 << 62), stride=(1, 1))),
        "huge size of nothing": lambda: archive(tensor(size=(0, 1 << 80), stride=(1, 1))),
        "huge storage": lambda: archive(tensor(storage(1 << 50))),
        "many dimensions": lambda: archive(tensor(size=(1,) * 1000, stride=(1,) * 1000)),
        "deep": lambda: archive(nested(100_000)),
        "holds itself": lambda: archive(b"]q\x00h\x00a"),
        "laughs": lambda: archive(laughs()),
        "many views": lambda: archive(
            b"](" + tensor(storage(1 << 18), size=(1 << 18,), stride=(1,)) * 100 + b"e",
            entries={"archive/data/0": bytes(1 << 20)},
        ),
        "laughs of ordered dicts": lambda: archive(laughs(name("collections", "OrderedDict") + b")R", 5)),
        "one large tensor in many places": lambda: archive(
            b"](" + tensor(size=(200, 100), stride=(0, 0)) + b"q\x00" + b"h\x00" * 5_000 + storage() + b"e"
        ),
        "one dict that is counted many times": lambda: archive(counters(3_000)),
        "key that takes for ever to hash": lambda: archive(b"}" + doubled(60) + b"Ns"),
        "keys that take for ever to hash": lambda: archive(b"}(" + (doubled(60) + b"N") * 2 + b"u"),
        "counter of what takes for ever to hash": lambda: archive(
            call(name("collections", "Counter"), b"}" + doubled(60) + integer(1) + b"s")
        ),
        "keys of one hash": lambda: archive(
            b"}(" + b"".join(integer(i * (2**61 - 1)) + b"N" for i in range(1, 100_000)) + b"u"
        ),
        "offset that takes for ever to show": lambda: archive(
            call(name("torch._utils", "_rebuild_tensor_v2"), storage(), doubled(60), sizes((6,)), sizes((1,)))
        ),
        "size that takes for ever to show": lambda: archive(
            call(name("torch._utils", "_rebuild_tensor_v2"), storage(), integer(0), doubled(60), sizes((1, 1)))
        ),
        "long key above many values": lambda: archive(
            b"}" + text("k" * 2_000_000) + b"](" + b"N" * 400_000 + group(storage()) + b"es"
        ),
        "large memo": lambda: archive(b"Nr\xff\xff\xff\x7f" + nested(100)),
        "long text": lambda: archive(b"X\xff\xff\xff\x7f"),
        # reading beyond what is there
        "storage too short": lambda: archive(tensor(storage(7), size=(7,), stride=(1,))),
        "storage too long": lambda: archive(tensor(storage(5), size=(5,), stride=(1,))),
        "storage shorter than it says": lambda: archive(tensor(storage(7), size=(6,), stride=(1,))),
        "storage missing": lambda: archive(tensor(storage(key="1"))),
        "storage elsewhere": lambda: archive(tensor(storage(key="../data.pkl", length=1))),
        "storage of negative length": lambda: archive(tensor(storage(-6))),
        "storage of two dtypes": lambda: archive(group(tensor(), tensor(storage(kind="IntStorage")))),
        "storage of no dtype": lambda: archive(tensor(storage(kind="Size"))),
        "quantised storage": lambda: archive(tensor(storage(kind="QInt8Storage", length=24))),
        "untyped storage": lambda: archive(tensor(storage(24, "UntypedStorage", module="torch.storage"))),
        "storage of another module": lambda: archive(tensor(storage(module="torch.cuda"))),
        "number as storage": lambda: archive(tensor(integer(5))),
        "persistent number": lambda: archive(integer(5) + b"Q"),
        "beyond the end": lambda: archive(tensor(offset=1)),
        "negative offset": lambda: archive(tensor(offset=-1)),
        "negative size": lambda: archive(tensor(size=(-2, -3))),
        "too few strides": lambda: archive(tensor(stride=(1,))),
        "bools that are neither": lambda: archive(tensor(storage(24, "BoolStorage"), size=(24,), stride=(1,))),
        "nothing on the stack": lambda: archive(entries={"archive/data.pkl": b"\x80\x02s."}),
        "no mark": lambda: archive(b"t"),
        "no memo": lambda: archive(b"h\x07"),
        "no end": lambda: archive(entries={"archive/data.pkl": b"\x80\x02}"}),
        "no program": lambda: archive(entries={"archive/data.pkl": b""}),
        "list as key": lambda: archive(b"}]" + integer(1) + b"s"),
        # zip files
        "compressed": lambda: archive(compression=zipfile.ZIP_DEFLATED),
        "bomb": lambda: archive(entries={"archive/data/0": bytes(1 << 26)}, compression=zipfile.ZIP_DEFLATED),
        "encrypted": lambda: archive().replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"),
        "storage twice": lambda: twice("archive/data/0"),
        "program twice": lambda: twice("archive/data.pkl"),
        "two programs": lambda: archive(entries={"other/data.pkl": program(tensor())}),
        "no data.pkl": lambda: renamed(b"data.pkl", b"data.txt", archive()),
        "parent": lambda: archive(entries={"../../trapped": b"x"}),
        "absolute": lambda: archive(entries={"/tmp/trapped": b"x"}),
        "backslash": lambda: archive(entries={"..\\trapped": b"x"}),
        "wrong checksum": lambda: renamed(SIX_FLOATS, bytes(24), archive()),
        "other byte order": lambda: archive(entries={"archive/byteorder": b"big"}),
        "empty": lambda: b"",
        "empty zip": lambda: b"PK\x05\x06" + bytes(18),
        # what torch.save writes and no state dict holds
        "module": lambda: saved(torch.nn.Linear(1, 1)),
        "numpy array": lambda: saved({"x": np.zeros(3)}),
        "sparse tensor": lambda: saved({"x": torch.eye(2).to_sparse()}),
        "compressed sparse tensor": lambda: saved({"x": torch.eye(2).to_sparse_csr()}),
        "meta tensor": lambda: saved({"x": torch.zeros(2, device="meta")}),
        "set": lambda: saved({"x": {1}}),
        "bytes": lambda: saved({"x": b"x"}),
        "device": lambda: saved({"x": torch.device("cpu")}),
        "dtype": lambda: saved({"x": torch.float32}),
        "default dict": lambda: saved(collections.defaultdict(dict)),
    }
