"""HDF5 files made to harm whoever reads them, as recordings of plain arrays and in Minari's form."""

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from lab.hostile_files import Maker
from PIL import Image

N = 4
_PACKED = zlib.compress(bytes(1 << 20), 9)


def put(file: Any, names: Mapping[str, Any]) -> None:
    for name, value in names.items():
        file[name] = value


def plain(file: Any) -> str:
    """Fill a file with the arrays of a recording; the name of its observations."""
    put(file, {"actions": np.zeros((N, 1), "f4"), "rewards": np.zeros(N, "f4"), "terminals": np.zeros(N, "?")})
    file.attrs["reward_convention"] = "next_row"
    return "observations"


def episodes(file: Any) -> str:
    """The same in the form of d3rlpy 2."""
    put(file, {"actions_0": np.zeros((N, 1), "f4"), "rewards_0": np.zeros(N, "f4"), "terminated_0": True})
    file["num_episodes"] = 1
    return "observations_0"


def minari(file: Any) -> str:
    """The same in Minari's form."""
    group = file.create_group("episode_0")
    put(group, {"actions": np.zeros((N - 1, 1), "f4"), "rewards": np.zeros(N - 1, "f4")})
    put(group, {"terminations": np.zeros(N - 1, "?"), "truncations": np.ones(N - 1, "?")})
    return "episode_0/observations"


def linked(file: Any, name: str) -> None:
    """Leave a name that goes through another file to a pipe, whose opening would never end."""
    file["far"] = h5py.ExternalLink("pipe", "/x")
    file[name] = h5py.SoftLink("/far/x")


def elsewhere(file: Any, name: str) -> None:
    layout = h5py.VirtualLayout((N, 2), "f4")
    layout[:] = h5py.VirtualSource("secret.h5", "observations", (N, 2))
    file.create_virtual_dataset(name, layout)


def packed(file: Any, name: str) -> None:
    """256 MiB of zeros in some 256 KiB."""
    node = file.create_dataset(name, (256, 1 << 20), "u1", chunks=(1, 1 << 20), compression="gzip")
    for i in range(len(node)):
        node.id.write_direct_chunk((i, 0), _PACKED)


def nested(file: Any, name: str) -> None:
    group = file.create_group(name)
    for _ in range(500):
        group = group.create_group("a")
    group["a"] = np.zeros(N)


def laughs(file: Any, name: str) -> None:
    """Groups that have the group before twice, thirty times over."""
    group = file.create_group("laughs0")
    for i in range(30):
        group, inner = file.create_group(f"laughs{i + 1}"), group
        group["a"], group["b"] = inner, inner
    file[name] = group


def loop(file: Any, name: str) -> None:
    group = file.create_group(name)
    group["a"], group["b"] = group, group


def plugin(file: Any, name: str) -> None:
    """A filter of a number that stands for whatever library lies in HDF5's folder of plugins."""
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((N, 2))
    layout.set_filter(32_015, h5py.h5z.FLAG_OPTIONAL)
    space = h5py.h5s.create_simple((N, 2))
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_FLOAT, space, layout)


def texts(file: Any, name: str) -> None:
    file.create_dataset(name, data=["touch trapped"] * N, dtype=h5py.string_dtype())


def references(file: Any, name: str) -> None:
    file.create_dataset(name, data=[file.ref] * N, dtype=h5py.ref_dtype)


BAD: dict[str, Callable[[Any, str], Any]] = {
    "external link": lambda file, name: put(file, {name: h5py.ExternalLink("secret.h5", "/observations")}),
    "external link to a pipe": lambda file, name: put(file, {name: h5py.ExternalLink("pipe", "/x")}),
    "soft link": lambda file, name: put(file, {name: h5py.SoftLink("/actions")}),
    "soft link through a pipe": linked,
    "values of another file": lambda file, name: file.create_dataset(
        name, (N, 2), "f4", external=[("secret.bin", 0, 8 * N)]
    ),
    "virtual": elsewhere,
    "texts": texts,
    "references": references,
    "rows of any length": lambda file, name: file.create_dataset(name, (N,), h5py.vlen_dtype(np.dtype("f4"))),
    "compound": lambda file, name: put(file, {name: np.zeros(N, [("a", "f4"), ("b", "f4")])}),
    "opaque": lambda file, name: put(file, {name: np.zeros(N, "V8")}),
    "a type": lambda file, name: put(file, {name: np.dtype("f4")}),
    "empty": lambda file, name: put(file, {name: h5py.Empty("f4")}),
    "one number": lambda file, name: put(file, {name: 1.0}),
    "more than is stored": lambda file, name: file.create_dataset(name, (1 << 40, 2), "f4", chunks=(1 << 10, 2)),
    "more than 64 bits": lambda file, name: file.create_dataset(name, (1 << 60, 64), "f4", chunks=(1 << 10, 2)),
    "half a gigabyte of nothing": lambda file, name: file.create_dataset(name, (1 << 27,), "f4", chunks=(1 << 10,)),
    "huge chunks": lambda file, name: file.create_dataset(name, (N, 2), "f4", maxshape=(None, 2), chunks=(1 << 28, 2)),
    "bomb": packed,
    "nested": nested,
    "laughs": laughs,
    "loop": loop,
    "plugin": plugin,
    "wrong length": lambda file, name: put(file, {name: np.zeros((N + 3, 2), "f4")}),
    "no rows": lambda file, name: put(file, {name: np.zeros((0, 2), "f4")}),
    "NaN": lambda file, name: put(file, {name: np.full((N, 2), np.nan, "f4")}),
    "nothing": lambda file, name: None,
    "an empty group": lambda file, name: file.create_group(name),
}


def _maker(form: Callable[[Any], str], spoil: Callable[[Any, str], Any]) -> Maker:
    def make(path: Path) -> None:
        with h5py.File(path, "w") as file:
            spoil(file, form(file))

    return make


def _counts(value: Any) -> Maker:
    def make(path: Path) -> None:
        with h5py.File(path, "w") as file:
            put(file, {episodes(file): np.zeros((N, 2), "f4")})
            del file["num_episodes"]
            file["num_episodes"] = value

    return make


def jpeg(width: int, height: int, colour: int = 0) -> bytes:
    """A JPEG image that announces this size, whatever it has."""
    stream = io.BytesIO()
    Image.new("L", (16, 16), colour).save(stream, format="JPEG")
    content = stream.getvalue()
    at = content.index(b"\xff\xc0") + 5
    return content[:at] + struct.pack(">HH", height, width) + content[at + 4 :]


def _images(*images: bytes) -> Maker:
    def make(path: Path) -> None:
        with h5py.File(path, "w") as file:
            node = file.create_dataset(minari(file), len(images), h5py.vlen_dtype(np.uint8))
            for i, image in enumerate(images):
                node[i] = np.frombuffer(image, np.uint8)

    return make


def recordings() -> dict[str, Maker]:
    """Files of plain arrays, and of d3rlpy's episodes."""
    made = {f"{form.__name__}: {name}": _maker(form, how) for name, how in BAD.items() for form in (plain, episodes)}
    counts = {"many": 1 << 40, "negative": -1, "several": np.ones(3), "text": "1", "NaN": np.nan}
    return made | {f"episodes: {name}": _counts(value) for name, value in counts.items()}


def minari_files() -> dict[str, Maker]:
    """Files of Minari's folders whose metadata say nothing of images."""
    return {name: _maker(minari, spoil) for name, spoil in BAD.items()}


def image_files() -> dict[str, Maker]:
    """Files of Minari's folders whose metadata announce images of 16 x 16."""
    return {
        "image of another size": _images(*[jpeg(64, 64)] * N),
        "bomb": _images(*[jpeg(65_535, 65_535)] * N),
        "large": _images(*[jpeg(13_000, 13_000)] * N),
        "no size": _images(*[jpeg(0, 0)] * N),
        "no image": _images(*[b"hello"] * N),
        "no bytes": _images(*[b""] * N),
        "other format": _images(*[b"GIF89a" + bytes(100)] * N),
        "cut": _images(*[jpeg(16, 16)[:200]] * N),
        "images elsewhere": _maker(minari, images_elsewhere),
    }


def images_elsewhere(file: Any, name: str) -> None:
    file.create_dataset(name, (N, 100), "u1", external=[("secret.bin", 0, 100 * N)])
