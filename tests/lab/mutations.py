"""Changes of valid files that know their formats, so that they go deeper than into the first checksum."""

import copy
import io
import json
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

#: What stands in files in the place of something else.
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([0, 1, -1, 2, 1 << 31, 1 << 40, 1 << 63, 1 << 64, 10**30, 0.5, 1e300, -0.0, True, None]),
    st.sampled_from(["", "x", "..", "../../trapped", "<f4", "|O", "float64", "\ud800", "9" * 50]),
    st.sampled_from([[], {}, [[]], [0], ["x"]]).map(copy.deepcopy),
    st.lists(st.integers(-2, 1 << 40), max_size=4),
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
)
ATTRIBUTES = st.sampled_from(["x", 1, -1.5, np.zeros(3), "same_row", "next_row", b"x", h5py.Empty("f4")])
WORDS = [bytes(4), bytes(8), b"\xff" * 4, b"\xff" * 8, b"\x7f" + b"\xff" * 3, b"\x00\x00\x00\x80", b"\x01" + bytes(7)]


def bytes_changed(draw: Draw, content: bytes) -> bytes:
    """Bits, words, slices."""
    at = draw(st.integers(0, max(0, len(content) - 1)))
    length = draw(st.integers(0, 40))
    new, end = draw(
        st.sampled_from(
            [
                (bytes(byte ^ 1 << length % 8 for byte in content[at : at + 1]), at + 1),
                (WORDS[length % len(WORDS)], at + len(WORDS[length % len(WORDS)])),
                (b"", len(content)),
                (b"", at + length),
                (content[at : at + length] * 2, at + length),
            ]
        )
        | st.binary(max_size=12).map(lambda new: (new, at))
    )
    return content[:at] + new + content[end:]


def json_changed(draw: Draw, content: bytes) -> bytes:
    """A value, a key or an item or two somewhere in a JSON text."""
    value = json.loads(content)
    for _ in range(draw(st.integers(1, 2))):
        if places := list(_places(value)):
            _change_value(draw, *draw(st.sampled_from(places)), places)
    return json.dumps(value).encode()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every dict and list, with each of its keys."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def _change_value(draw: Draw, node: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    kind = draw(st.sampled_from(["odd", "delete", "other", "step", "double"]))
    if kind == "delete":
        del node[key]
    elif kind == "other":
        other, its_key = draw(st.sampled_from(places))
        node[key] = copy.deepcopy(other[its_key])
    elif kind == "step" and type(node[key]) in (int, float):
        node[key] += draw(st.integers(-2, 2))
    elif kind == "double" and isinstance(node, list):
        node.insert(key, node[key])
    else:
        node[key] = draw(ODD)


def arrays_changed(draw: Draw, content: bytes) -> bytes:
    """The header or the values of a file of arrays, with the checksum that fits."""
    (length,) = struct.unpack("<Q", content[8:16])
    head, values = content[16 : 16 + length], content[16 + length + -(16 + length) % 64 : -8]
    if draw(st.booleans()):
        head = json_changed(draw, head)
    else:
        values = bytes_changed(draw, values)
    start = content[:8] + struct.pack("<Q", len(head)) + head
    start += bytes(-len(start) % 64) + values
    return start + struct.pack("<I", zlib.crc32(start)) + b"END1"


def journal_changed(draw: Draw, content: bytes) -> bytes:
    """Records that are changed, doubled or left out, with the numbers and the checksums that fit."""
    records, at = [], 8
    while at < len(content):
        (length,) = struct.unpack_from("<I", content, at + 8)
        records.append(content[at + 16 : at + 16 + length])
        at += 16 + length
    if records:
        i = draw(st.integers(0, len(records) - 1))
        instead: list[list[bytes]] = [[], [records[i]] * 2, [bytes_changed(draw, records[i])]]
        records[i : i + 1] = draw(st.sampled_from(instead))
    heads = [struct.pack("<QI", number, len(record)) for number, record in enumerate(records)]
    pairs = zip(heads, records, strict=True)
    return content[:8] + b"".join(h + struct.pack("<I", zlib.crc32(r, zlib.crc32(h))) + r for h, r in pairs)


def zip_changed(draw: Draw, content: bytes) -> bytes:
    """A member of an archive, its name, or how it is compressed, with the checksum that fits."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    i = draw(st.integers(0, len(members) - 1))
    name, data = members[i]
    kind = draw(st.sampled_from(["bytes", "bytes", "bytes", "name", "delete", "double", "swap"]))
    if kind == "bytes":
        members[i] = name, bytes_changed(draw, data)
    elif kind == "name":
        members[i] = draw(st.sampled_from([f"../{name}", f"/{name}", name.upper(), f"{name}x", "actions.npy"])), data
    elif kind == "delete":
        del members[i]
    elif kind == "double":
        members.append(members[i])
    else:
        members[i] = name, draw(st.sampled_from(members))[1]
    file = io.BytesIO()
    method = draw(st.sampled_from([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED]))
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # that a name is there already
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def hdf5_changed(draw: Draw, content: bytes) -> bytes:
    """A dataset of another shape, type or content, an attribute, a missing member or a group in its place."""
    with tempfile.NamedTemporaryFile() as temporary:
        path = Path(temporary.name)
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            names: list[str] = []
            file.visit(names.append)
            name = draw(st.sampled_from(sorted(names)))
            kind = draw(st.sampled_from(["odd", "delete", "dtype", "shape", "values", "attribute", "group"]))
            if kind == "attribute":
                owner = file[draw(st.sampled_from(["/", name]))]
                owner.attrs[draw(st.sampled_from(["format", "reward_convention", "id"]))] = draw(ATTRIBUTES)
            else:
                old = file[name][()] if isinstance(file[name], h5py.Dataset) else np.zeros(3)
                del file[name]
                if kind == "group":
                    file.create_group(name)
                elif kind != "delete":
                    file[name] = _other(draw, kind, np.asarray(old))
        return path.read_bytes()


def _other(draw: Draw, kind: str, old: Any) -> Any:
    if kind == "dtype":
        return np.zeros(old.shape, draw(st.sampled_from(["i8", "f2", "f8", "?", "u1", "S3", "c8", "i4,f4"])))
    if kind == "shape":
        return np.resize(old, draw(st.lists(st.integers(0, 7), max_size=4))) if old.dtype != object else np.zeros(2)
    if kind == "values":
        return np.full(old.shape, draw(st.sampled_from([np.nan, np.inf, -1.0, 0.0, 1.0, 2.0, 1e30])))
    return draw(ATTRIBUTES | st.sampled_from([-1, np.zeros((0, 3)), np.zeros(()), np.array(["x"], "S1")]))


#: By how a file begins.
FORMATS: dict[bytes, Callable[[Draw, bytes], bytes]] = {
    b"PFRLARR1": arrays_changed, b"PFRLJRN1": journal_changed, b"PK": zip_changed, b"\x89HDF": hdf5_changed,
    b"{": json_changed,
}  # fmt: skip


def changed(draw: Draw, content: bytes) -> bytes:
    """A valid file, changed as its format has it, and perhaps as bytes, too."""
    known = [change for start, change in FORMATS.items() if content.startswith(start)]
    lines = content.startswith(b"{") and content.count(b"\n{")  # a text of many values, which JSON is not
    change = known[0] if known and not lines and draw(st.integers(0, 4)) else bytes_changed
    content = change(draw, content)
    return content if draw(st.integers(0, 5)) else bytes_changed(draw, content)
