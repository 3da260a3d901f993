"""Directories of several files that change together: `manifest.json` says which files make up the current state.

Data files get new names with every save (`model-7f3a91c2.pt`). Replacing the manifest is the one instant at which the
new state takes the place of the old; before it nothing that the old one needs has been touched, and the files of the
save before stay until the next one is complete.
"""

import contextlib
import dataclasses
import hashlib
import os
import platform
import re
import secrets
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import (
    Writer,
    atomic_write,
    directory_lock,
    open_regular,
    read_bounded,
    remove_temporaries,
    sync_directory,
    write_file,
)
from pfrl_like.storage.json_file import dump_json, parse_json, read_json

MANIFEST = "manifest.json"
PREVIOUS = "previous.json"
FORMAT = "pfrl_like"
FORMAT_VERSION = 1

_STATE = "state.json"
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}")
_ALIAS = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TOKEN = r"(?=[0-9]*[a-f])[0-9a-f]{8}"  # never digits alone: a user's model-20240131.pt is none of ours
_MAX_MANIFEST = 1 << 22
_MAX_STATE = 1 << 28


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One complete state of a directory, its files verified.

    Attributes:
        dirname: The directory.
        manifest: The fields of its manifest.
        state: The state that was given to `save_directory`.
    """

    dirname: str
    manifest: Mapping[str, Any]
    state: Mapping[str, Any]

    @property
    def keys(self) -> list[str]:
        """The keys that `files` had in `save_directory`."""
        return [key for key in self.manifest["files"] if key != _STATE]

    def open(self, key: str) -> str:
        """Path of the file saved under `key`.

        Raises:
            CheckpointError: If there is none.
        """
        if key not in self.keys:
            raise CheckpointError(self.dirname, f"holds no {key!r}, only {', '.join(self.keys) or 'nothing'}")
        return os.path.join(self.dirname, self.manifest["files"][key]["name"])


def save_directory(
    dirname: str | os.PathLike[str],
    files: Mapping[str, Writer],
    state: Mapping[str, Any],
    *,
    kind: str,
    class_name: str,
    aliases: Mapping[str, str] | None = None,
    info: Mapping[str, Any] | None = None,
) -> None:
    """Make `files` and `state` the content of a directory, all at one instant.

    Args:
        dirname: The directory; made if absent. Files in it that no save made are left alone.
        files: What fills each file, by key: a plain file name such as "model.pt", stored as "model-<hex8>.pt".
        state: Further content, as JSON.
        kind: What the directory is, for instance "agent"; `load_directory` compares it.
        class_name: Class of what is saved, for people.
        aliases: Further names, relative to the directory, under which copies of files are kept for other programs;
            each with the key of its file. `load_directory` does not read them.
        info: Further fields of the manifest, as JSON.

    Raises:
        CheckpointError: If anything cannot be written. What the directory held before is then still what it holds,
            unless the reason says that only a copy is missing.
    """
    directory = os.fspath(dirname)
    aliases = dict(aliases or {})
    for name in [*files, _STATE]:
        if not _KEY.fullmatch(name) or name in (MANIFEST, PREVIOUS) or (name == _STATE and name in files):
            raise CheckpointError(directory, f"cannot hold a file called {name!r}")
    writers: dict[str, Writer] = {**files, _STATE: dump_json(state, directory)}
    dump_json(info or {}, directory)
    _make_directory(directory, aliases)
    with directory_lock(directory):
        names = _new_names(directory, writers)
        try:
            entries = {key: _write_data(directory, names[key], writer) for key, writer in writers.items()}
            sync_directory(directory)
            manifest = _manifest(kind, class_name, entries, aliases, info or {})
            _commit(directory, dump_json(manifest, directory))
        except BaseException:
            _remove_unless_named(directory, names)
            raise
        _clean(directory, {re.escape(key) for key in writers})
        _renew_aliases(directory, aliases, entries)


def has_manifest(dirname: str | os.PathLike[str]) -> bool:
    """Whether `save_directory` has completed a save into this directory."""
    return any(os.path.lexists(os.path.join(dirname, name)) for name in (MANIFEST, PREVIOUS))


def load_directory(dirname: str | os.PathLike[str], *, kind: str | None = None) -> Snapshot:
    """The newest complete state of a directory.

    A damaged state is passed over with a warning if the one saved before it is whole.

    Args:
        dirname: The directory.
        kind: What it has to be; None takes any.

    Raises:
        CheckpointError: If it holds no complete state of this kind; the reason lists what was looked for.
    """
    directory = os.fspath(dirname)
    problems = []
    for name in (MANIFEST, PREVIOUS):
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            problems.append(f"{name} is missing")
            continue
        try:
            snapshot = _verified(directory, path)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        if kind is not None and snapshot.manifest["kind"] != kind:
            raise CheckpointError(path, f"describes a {snapshot.manifest['kind']!r}; expected {kind!r}")
        if problems:
            _warn(f"{directory}: the last save is not usable ({problems[0]}); using the one before it")
        else:
            _report_foreign_copies(snapshot)
        return snapshot
    raise CheckpointError(directory, f"holds no complete save: {'; '.join(problems)}")


def _make_directory(directory: str, aliases: Mapping[str, str]) -> None:
    for alias in aliases:
        if not _ALIAS.fullmatch(alias):
            raise CheckpointError(directory, f"cannot hold a copy called {alias!r}")
    parents = {os.path.join(directory, os.path.dirname(alias)) for alias in aliases} | {directory}
    for folder in sorted(parents):
        if os.path.islink(folder.rstrip("/")) and folder != directory:
            raise CheckpointError(folder, "is a symbolic link, through which nothing is written")
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise CheckpointError(folder, f"cannot be made: {error.strerror}") from error


def _new_names(directory: str, keys: Mapping[str, Any]) -> dict[str, str]:
    """Names that nothing in the directory has."""
    while True:
        token = secrets.token_hex(4)
        names = {key: f"{stem}-{token}{suffix}" for key in keys for stem, suffix in [os.path.splitext(key)]}
        if not token.isdigit() and not any(os.path.lexists(os.path.join(directory, name)) for name in names.values()):
            return names


def _write_data(directory: str, name: str, writer: Writer) -> dict[str, Any]:
    digest = hashlib.sha256()
    size = 0

    class Hashing:
        """The stream that a writer sees; what it wrote is what the manifest vouches for."""

        def __init__(self, file: BinaryIO) -> None:
            self._file = file

        def write(self, data: Any) -> int:
            nonlocal size
            digest.update(data)
            size += memoryview(data).nbytes
            return self._file.write(data)

    def write(file: BinaryIO) -> None:
        stream = Hashing(file)
        if isinstance(writer, bytes):
            stream.write(writer)
        else:
            writer(cast(BinaryIO, stream))

    write_file(os.path.join(directory, name), write, durable=True)
    return {"name": name, "size": size, "sha256": digest.hexdigest()}


def _manifest(
    kind: str,
    class_name: str,
    entries: Mapping[str, Any],
    aliases: Mapping[str, str],
    info: Mapping[str, Any],
) -> dict[str, Any]:
    library = getattr(sys.modules.get("pfrl_like"), "__version__", "unknown")
    return {
        **info,
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "class": class_name,
        "versions": {
            "pfrl_like": library,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "files": entries,
        "aliases": aliases,
    }


def _commit(directory: str, manifest: bytes) -> None:
    path = os.path.join(directory, MANIFEST)
    if os.path.lexists(path):
        with contextlib.suppress(CheckpointError):  # one that cannot be read is not worth keeping
            content = read_bounded(path, _MAX_MANIFEST)
            _check_manifest(parse_json(content, path), path)
            _replace_previous(directory, content)
    atomic_write(path, manifest)
