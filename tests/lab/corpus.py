"""The corpus of hostile files: which of them takes the place of which file of which subject."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lab import hostile_files, hostile_hdf5, hostile_tensors
from lab.hostile_files import Maker, written

_STATE = re.compile(r".*/(model|state)-[0-9a-f]{8}\.(pt|json)")


class Case(NamedTuple):
    """A hostile file.

    Attributes:
        name: What it is.
        subject: Whose loader is to refuse it.
        place: The file that it takes the place of.
        make: Writes it there.
        sealed: Whether the checksums that stand elsewhere are made to fit.
        changes: Whether `make` changes the file that is there.
    """

    name: str
    subject: str
    place: str
    make: Maker
    sealed: bool = False
    changes: bool = False


def corpora() -> dict[str, Mapping[str, Maker]]:
    """The files by what they pretend to be."""
    return {
        "tensors": {name: written(make) for name, make in hostile_tensors.crafted().items()},
        "json": {name: _bytes(text) for name, text in hostile_files.json_texts().items()},
        "arrays": {name: _bytes(text) for name, text in hostile_files.array_files().items()},
        "npz": {name: _bytes(text) for name, text in hostile_files.npz_files().items()},
        "pickles": {name: _bytes(text) for name, text in hostile_files.pickles().items()},
        "recordings": hostile_hdf5.recordings(),
        "minari": hostile_hdf5.minari_files(),
        "images": hostile_hdf5.image_files(),
        "journals": {name: _bytes(text) for name, text in hostile_files.journals().items()},
        "none": hostile_files.no_files(),
    }


#: Which corpora take the place of which files; a pattern for the names of a subject's files.
PLACES: list[tuple[str, str, tuple[str, ...]]] = [
    ("agent", r"agent/model-\w+\.pt", ("tensors",)),
    ("agent", r"agent/(manifest|state-\w+)\.json", ("json",)),
    ("buffer", "buffer", ("arrays", "pickles", "tensors")),
    ("pickles", "buffer", ("arrays", "pickles")),
    ("persistent", r"persistent/meta\.json", ("json",)),
    ("persistent", r"persistent/state-\d+\.bin", ("arrays",)),
    ("persistent", r"persistent/journal-\d+\.bin", ("arrays", "journals")),
    ("hdf5", "data.h5", ("recordings", "npz")),
    ("npz", "data.npz", ("npz", "recordings")),
    ("minari", r"set-v0/data/metadata\.json", ("json",)),
    ("minari", r"set-v0/data/main_data\.hdf5", ("minari",)),
    ("model", "model.pt", ("tensors",)),
    ("evaluation", "fqe.pt", ("tensors",)),
    ("params", "params.json", ("json",)),
    ("epochs", r"run/\d+_checkpoint/run/(manifest|state-\w+)\.json", ("json",)),
    ("epochs", r"run/checkpoint_buffers/replay_buffer/(table|segment)-\w+\.bin", ("arrays",)),
    ("run", "run.json", ("json",)),
]


def cases(files: Mapping[str, list[str]]) -> Iterator[Case]:
    """All cases for the files that each subject has."""
    known = corpora()
    for subject, pattern, names in PLACES:
        for place in (name for name in files.get(subject, []) if re.fullmatch(pattern, name)):
            for corpus in (*names, "none"):
                for name, make in known[corpus].items():
                    sealed = corpus != "none" and bool(_STATE.fullmatch(place))
                    yield Case(f"{subject}: {place}: {corpus}: {name}", subject, place, make, sealed)
    for name, make in known["images"].items():
        yield Case(f"images: {name}", "images", "set-v0/data/main_data.hdf5", make)
    for name, text in hostile_files.lying_params().items():
        yield Case(f"params: {name}", "params", "params.json", _spoilt(text), changes=True)
    for subject, names in files.items():
        yield from damaged(subject, names)


def damaged(subject: str, files: list[str]) -> Iterator[Case]:
    """Every file of a subject cut off and with bits turned over."""
    for place in files:
        for part in (0.0, 0.3, 0.6, 0.99):
            yield Case(f"{subject}: {place}: cut at {part}", subject, place, _cut(part), changes=True)
        rng = random.Random(f"{subject} {place}")
        for part in sorted(rng.random() for _ in range(12)):
            flip = _flipped(part, rng.randrange(8))
            yield Case(f"{subject}: {place}: flip at {part:.3f}", subject, place, flip, changes=True)


def announce_images(folder: Path) -> None:
    """Say in the metadata of Minari that observations are images."""
    path = folder / "set-v0/data/metadata.json"
    space = {"type": "Box", "dtype": "uint8", "shape": [16, 16, 1]}
    meta = json.loads(path.read_text()) | {"jpeg_encoding": True, "observation_space": json.dumps(space)}
    path.write_text(json.dumps(meta))


def seal(path: Path) -> None:
    """Make the manifest beside a file vouch for what the file holds now, and take away the one before."""
    manifest = path.parent / "manifest.json"
    fields = json.loads(manifest.read_text())
    content = path.read_bytes()
    for entry in fields["files"].values():
        if entry["name"] == path.name:
            entry.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    manifest.write_text(json.dumps(fields))
    (path.parent / "previous.json").unlink(missing_ok=True)


def _spoilt(change: Callable[[bytes], bytes]) -> Maker:
    """What changes the file that is there."""
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _cut(part: float) -> Maker:
    return _spoilt(lambda content: content[: int(part * len(content))])


def _flipped(part: float, bit: int) -> Maker:
    def flip(content: bytes) -> bytes:
        at = int(part * len(content))
        return content[:at] + bytes(byte ^ 1 << bit for byte in content[at : at + 1]) + content[at + 1 :]

    return _spoilt(flip)


def _bytes(content: bytes) -> Maker:
    return lambda path: path.write_bytes(content)
