"""Files made to harm whoever reads them: JSON, files of arrays, archives of arrays, pickles, and what is no file."""

import io
import json
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lab import hostile_tensors as pt

from pfrl_like.storage.journal import SYNCED

#: What puts something where a loader expects its file.
Maker = Callable[[Path], object]
TRAP = pt.text("touch trapped")


def written(make: Callable[[], bytes]) -> Maker:
    """What writes some bytes."""
    return lambda path: path.write_bytes(make())


def no_files() -> dict[str, Maker]:
    """Names behind which there is no plain file, or none of a size that a loader can take."""
    return {
        "directory": os.mkdir,
        "pipe": os.mkfifo,
        "device": lambda path: os.symlink("/dev/zero", path),
        "link to itself": lambda path: os.symlink(path, path),
        "link to a secret": lambda path: os.symlink("/etc/passwd", path),
        "a tebibyte of nothing": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    }


def json_texts() -> dict[str, bytes]:
    """Texts that no JSON of ours is."""
    return {
        "deep": b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "deep dicts": b'{"a": ' * 100_000,
        "laughs": b'{"a": [' + b"0," * 2_000_000 + b"0]}",
        "long number": b'{"t": ' + b"9" * 100_000 + b"}",
        "infinite": b'{"t": 1e999}',
        "NaN": b'{"t": NaN}',
        "twice": b'{"t": 1, "t": 2}',
        "list": b"[]",
        "number": b"1",
        "empty": b"",
        "object": b"{}",
        "no UTF-8": b'{"t": "\xff\xfe"}',
        "UTF-16": '{"t": 1}'.encode("utf-16"),
        "half a pair": b'{"\\ud800": "\\udfff"}',
        "other types": b'{"files": 1, "aliases": null, "kind": [], "format": {}, "params": true, "t": {}}',
        "code": b"__import__('os').system('touch trapped')",
    }


def array_file(head: bytes, columns: bytes = b"", length: int | None = None) -> bytes:
    """A file of arrays with this header and a checksum that fits."""
    start = b"PFRLARR1" + struct.pack("<Q", len(head) if length is None else length) + head
    start += bytes(-len(start) % 64) + columns
    return start + struct.pack("<I", zlib.crc32(start)) + b"END1"


def described(**column: Any) -> bytes:
    """A file of arrays with one column, which takes 64 bytes."""
    entry = {"name": "reward", "dtype": "<f8", "shape": [8]} | column
    return array_file(json.dumps({"columns": [entry], "header": {}}).encode(), bytes(64))


def array_files() -> dict[str, bytes]:
    """Files of arrays that lie, with checksums that fit."""
    head = json.dumps({"columns": [{"name": "a", "dtype": "<f8", "shape": [0]}] * 2, "header": {}}).encode()
    lies = {
        "announces much": described(shape=[1 << 47]),
        "announces too much": described(shape=[1 << 47] * 30),
        "negative shape": described(shape=[-1, -8]),
        "many dimensions": described(shape=[1] * 70 + [8]),
        "dimensions without end": described(shape=[(1 << 48) - 1] * 60_000),
        "object": described(dtype="|O"),
        "pickled": described(dtype="|O", pickled=64),
        "structured": described(dtype="<f4,<f4"),
        "huge items": described(dtype="<U999999999", shape=[1]),
        "huge items, none of them": described(dtype="<U999999999", shape=[0, 8]),
        "long double": described(dtype="<f16", shape=[4]),
        "no dtype": described(dtype="f8; import os"),
        "name of another type": described(name=["reward"]),
        "no column that is asked for": described(name="../trapped"),
        "two of one name": array_file(head),
        "long header": array_file(b"{}", length=1 << 60),
        "header beyond the end": array_file(b"{}", length=200),
        "cut": described()[:-20],
        "wrong checksum": described()[:-8] + bytes(4) + b"END1",
    }
    return lies | {f"header: {name}": array_file(text) for name, text in json_texts().items()}


def journals() -> dict[str, bytes]:
    """Journals of persistent buffers whose records fit their checksums, and are said to have been synced."""
    deep = b"[" * 200_000
    contents = {
        "deep name": b"N" + bytes(4) + deep,
        "name of another type": b"N" + bytes(4) + b'{"a": 1}',
        "name that is code": b"N" + bytes(4) + TRAP,
        "end of nobody": b"E" + bytes(4),
        "short": b"N",
        "empty": b"",
        "step": b"S" + bytes(100),
        "no kind": b"X" * 9,
    }
    lies = {name: b"PFRLJRN1" + _record(0, content) + _record(1, SYNCED) for name, content in contents.items()}
    return lies | {"records up to the end": b"PFRLJRN1" + b"\xff" * 4 + _up_to_the_end(30_000) + _record(0, SYNCED)}


def _up_to_the_end(count: int) -> bytes:
    """Records that nobody has written, each with all that follow as its content."""
    size = 16 + len(SYNCED)
    return b"".join(struct.pack("<QII", 0, (count - i) * size - 16, 0) + SYNCED for i in range(count))


def _record(number: int, content: bytes) -> bytes:
    head = struct.pack("<QI", number, len(content))
    return head + struct.pack("<I", zlib.crc32(content, zlib.crc32(head))) + content


def lying_params() -> dict[str, Callable[[bytes], bytes]]:
    """Hyperparameters that nobody has, put into a `params.json`."""
    lies: dict[str, Any] = {
        "observation_shape": [[1 << 40], [1 << 20] * 2, [-1], [10**30], [1] * 300, ["4"], 4, {}, [0.5], [1 << 13] * 3],
        "action_size": [1 << 40, -1, 10**30, "3", 0.5, [3]],
        "encoder_params": [
            {"hidden_units": units} for units in ([1 << 40], [1 << 16] * 4, [2] * 100_000, [-1], ["9"], 5, [10**30])
        ],
        "n_critics": [1 << 40, -1, "2"],
        "n_frames": [-1, 0, "2"],
        "q_func_type": [{"type": "qr", "params": {"n_quantiles": 1 << 40}}, "none", 5, ["qr"]],
        "scaler": [{"type": "standard", "params": {"mean": "x", "std": []}}, "none", 5],
        "gamma": ["x", 1e300, None],
        "batch_size": [-1, "x", None],
        "augmentation": [["none"], 5, [{"type": "random_shift", "params": {"shift_size": "x"}}]],
    }

    def change(name: str, value: Any) -> Callable[[bytes], bytes]:
        return lambda content: json.dumps(json.loads(content) | {name: value}).encode()

    return {f"{name} {i}": change(name, value) for name, values in lies.items() for i, value in enumerate(values)}


def npy(shape: str, descr: str = "'<f4'", data: bytes = b"", version: int = 1, more: str = "") -> bytes:
    """A `.npy` file whose header says what it is told to."""
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {more}}}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


def npz(member: bytes, name: str = "observations.npy", **options: Any) -> bytes:
    """An archive of arrays that lacks nothing, with this member in the place of one."""
    content = {
        f"{key}.npy": npy(f"({size},)", data=bytes(4 * size))
        for key, size in (("observations", 4), ("actions", 4), ("rewards", 4), ("terminals", 4))
    }
    content["reward_convention.npy"] = npy("()", "'<U8'", data="next_row".encode("utf-32-le"))
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", **options) as archive:
        warnings.simplefilter("ignore")
        for key, data in (content | {name: member}).items():
            archive.writestr(key, data)
        if name == "twice.npy":
            archive.writestr("actions.npy", npy("(4,)", data=bytes(16)))
    return file.getvalue()


def npz_files() -> dict[str, bytes]:
    """Archives of arrays that lie, run something, or take what their size does not explain."""
    objects = io.BytesIO()
    np.save(objects, np.array([{}] * 4, object), allow_pickle=True)
    slips = {name: npz(b"x", name) for name in ("../../observations.npy", "/tmp/trapped", "..\\trapped")}
    system = pt.program(pt.call(pt.name("posix", "system"), TRAP))
    bomb = npy(f"({1 << 27},)", "'|u1'", bytes(1 << 27))
    return slips | {
        "objects": npz(objects.getvalue()),
        "pickle": npz(system),
        "objects that are a pickle": npz(npy("(4,)", "'|O'", system)),
        "more than there is": npz(npy("(5,)", data=bytes(16))),
        "much more": npz(npy(f"({1 << 40},)")),
        "negative": npz(npy("(-1, -4)", data=bytes(16))),
        "too much for 64 bits": npz(npy(f"({1 << 62}, 16)")),
        "much of nothing": npz(npy(f"({1 << 40},)", "'<U0'")),
        "no bytes in many rows": npz(npy(f"(0, {1 << 62})")),
        "many dimensions": npz(npy(str((1,) * 100), data=bytes(4))),
        "structured": npz(npy("(2,)", "[('a', '<f4'), ('b', '<f4')]", bytes(16))),
        "dates": npz(npy("(2,)", "'<M8[s]'", bytes(16))),
        "code": npz(npy("(4,)", "__import__('os').system('touch trapped')", bytes(16))),
        "deep header": npz(npy("(" * 3_000)),
        "long header": npz(npy("(4,)", more="'a': '" + "a" * 60_000 + "'")),
        "version 3": npz(npy("(4,)", data=bytes(16), version=3)),
        "version 9": npz(npy("(4,)", data=bytes(16), version=9)),
        "no npy": npz(b"hello"),
        "empty member": npz(b""),
        "twice": npz(b"", "twice.npy"),
        "bomb": npz(bomb, compression=zipfile.ZIP_DEFLATED),
        "bomb by bzip2": npz(bomb, compression=zipfile.ZIP_BZIP2),
        "damaged deflate": npz(npy("(4,)", data=bytes(16)), compression=zipfile.ZIP_DEFLATED).replace(b"\x63", b"\xff"),
        "encrypted": npz(b"").replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"),
        "nothing in it": b"PK\x05\x06" + bytes(18),
        "a state dict": pt.archive(),
    }


def pickles() -> dict[str, bytes]:
    """Pickles that call something; none of them is a buffer."""
    system, arguments = pt.name("posix", "system"), pt.group(TRAP)
    text = pt.text("posix") + pt.text("system")
    start = b"\x80\x04"
    programs = {
        "REDUCE": system + arguments + b"R.",
        "INST": b"(" + TRAP + b"iposix\nsystem\n.",
        "OBJ": b"(" + system + TRAP + b"o.",
        "NEWOBJ": system + arguments + b"\x81.",
        "NEWOBJ_EX": system + arguments + b"}\x92.",
        "BUILD": pt.name("pfrl.collections.random_access_queue", "RandomAccessQueue") + b")\x81" + system + b"b.",
        "BUILD of a function": system + b"}" + pt.text("x") + b"Nsb.",
        "STACK_GLOBAL": text + b"\x93" + arguments + b"R.",
        "STACK_GLOBAL of a path": pt.text("numpy") + pt.text("ndarray.dump") + b"\x93.",
        "EXT1": b"\x82\x01.",
        "EXT4": b"\x84\x01\x00\x00\x00.",
        "PERSID": b"Pposix\n.",
        "BINPERSID": TRAP + b"Q.",
        "NEXT_BUFFER": b"\x97.",
        "eval": pt.call(pt.name("builtins", "eval"), pt.text("1")) + b".",
        "getattr": pt.call(pt.name("builtins", "getattr"), pt.name("numpy", "ndarray"), pt.text("tofile")) + b".",
        "codec": pt.call(pt.name("_codecs", "encode"), pt.text("x"), pt.text("zip")) + b".",
    }
    plain = {f"protocol {n}": pickle.dumps({"x": 1}, n) for n in range(6)}
    return {name: start + program for name, program in programs.items()} | plain | {"cut": start, "empty": b""}
