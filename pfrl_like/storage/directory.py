"""Directories of several files that change together: `manifest.json` lists the files of the current state.

Data files get new names with every save (`model-7f3a91c2.pt`). The new state becomes current at one instant, when the
manifest is replaced. No file of the old state is touched before, and the files of the previous save stay until the
next one is complete. A new directory is built under a temporary name beside its own, so an existing one is complete.
"""

import contextlib
import dataclasses
import hashlib
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import atomic
from pfrl_like.storage.json_file import dump_json, read_json
from pfrl_like.storage.manifest import (
    ANY_NAME,
    MANIFEST,
    MAX_MANIFEST,
    PREVIOUS,
    STATE,
    is_alias,
    is_key,
    name_pattern,
    new_manifest,
    read_manifest,
    versioned_name,
)

_MAX_STATE = 1 << 28
#: Names of the files that an unfinished first save leaves.
_UNFINISHED = re.compile(rf"{ANY_NAME}|\.tmp-.+-[0-9]+-[0-9a-f]{{8}}")
#: Prefix of the names of directories that are being built.
_NEW = ".tmp-new-"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One complete state of a directory, its files verified.

    Attributes:
        dirname: The directory.
        manifest: The fields of its manifest.
        state: The `state` argument of `save_directory`.
    """

    dirname: str
    manifest: Mapping[str, Any]
    state: Mapping[str, Any]

    @property
    def keys(self) -> list[str]:
        """The keys of the `files` argument of `save_directory`."""
        return [key for key in self.manifest["files"] if key != STATE]

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
    files: Mapping[str, atomic.Writer],
    state: Mapping[str, Any],
    *,
    kind: str,
    class_name: str,
    aliases: Mapping[str, str] | None = None,
    info: Mapping[str, Any] | None = None,
    sometimes: Iterable[str] = (),
) -> None:
    """Make `files` and `state` the content of a directory, all at one instant.

    Args:
        dirname: The directory; made if absent, and then it appears complete. Files that no save made are left alone.
        files: Content of each file, by key: a plain file name such as "model.pt", stored as "model-<hex8>.pt".
        state: Further content, as JSON.
        kind: Kind of the directory, for instance "agent"; `load_directory` compares it.
        class_name: Class of the saved object, for people.
        aliases: Further names, relative to the directory, under which copies of files are kept for other programs;
            each with the key of its file. `load_directory` does not read them.
        info: Further fields of the manifest, as JSON.
        sometimes: Keys that other saves into the directory may have; their old files are removed, too.

    Raises:
        CheckpointError: If anything cannot be written. The directory then still holds its former state, unless the
            reason says that only a copy is missing.
    """
    directory = os.fspath(dirname)
    aliases = dict(aliases or {})
    for name in [*files, STATE]:
        if not is_key(name) or (name == STATE and name in files):
            raise CheckpointError(directory, f"cannot hold a file called {name!r}")
    writers: dict[str, atomic.Writer] = {**files, STATE: dump_json(state, os.path.join(directory, STATE), _MAX_STATE)}
    dump_json(info or {}, directory, MAX_MANIFEST)

    def save(place: str) -> None:
        """Save into a directory; the caller holds its lock."""
        _make_folders(place, aliases)
        names = _new_names(place, writers)
        try:
            with atomic.synced_together():
                entries = {key: _write_data(place, names[key], writer) for key, writer in writers.items()}
                atomic.sync_directory(place)
            manifest = new_manifest(kind, class_name, entries, aliases, info or {})
            _commit(place, dump_json(manifest, place, MAX_MANIFEST))
        except BaseException:
            _remove_unless_named(place, names)
            raise
        _clean(place, {*writers, *sometimes}, aliases)
        _renew_aliases(place, aliases, entries)

    if os.path.lexists(directory) or not _save_new(directory, save):
        atomic.make_directory(directory)
        with atomic.directory_lock(directory):
            save(directory)


def _save_new(directory: str, save: Callable[[str], None]) -> bool:
    """Save into a temporary directory and rename it; False if another process has made the directory meanwhile."""
    above, name = os.path.split(os.path.realpath(directory))
    atomic.make_directory(above)
    atomic.remove_stale(above, _NEW)
    place, target = os.path.join(above, f"{_NEW}{os.getpid()}-{secrets.token_hex(4)}"), os.path.join(above, name)
    try:
        with atomic.named_errors(directory, "made"):
            os.mkdir(place)
        with atomic.directory_lock(place):  # others would remove a directory of this name without the lock
            try:
                save(place)
            finally:
                if is_made := has_manifest(place):  # also if a copy could not be made
                    atomic.catch_up()
                    is_made = _renamed(place, target)
        atomic.sync_directory(above)
    except CheckpointError as error:
        path, reason = (text.replace(place, directory) for text in (error.path, error.reason))
        raise CheckpointError(path, reason) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return is_made


def _renamed(place: str, target: str) -> bool:
    """Rename a directory; False if `target` exists and is not empty."""
    with atomic.named_errors(target, "made"):
        try:
            os.rename(place, target)
        except OSError:
            if not os.path.isdir(target):
                raise
            return False
    return True


def has_manifest(dirname: str | os.PathLike[str]) -> bool:
    """True if `save_directory` has completed a save into this directory."""
    return any(os.path.lexists(os.path.join(dirname, name)) for name in (MANIFEST, PREVIOUS))


def without_manifest(dirname: str | os.PathLike[str]) -> list[str]:
    """Names of the state files in a directory without a manifest; empty if it has one.

    Such files exist if the first save was interrupted or the manifest was lost.
    """
    if has_manifest(dirname) or not os.path.isdir(dirname):
        return []
    return sorted(filter(re.compile(name_pattern(STATE)).fullmatch, os.listdir(dirname)))


def is_unfinished(dirname: str | os.PathLike[str]) -> bool:
    """True if a directory is empty, or holds only files that an interrupted first save leaves."""
    names = [name for _, _, files in os.walk(dirname) for name in files]
    return not has_manifest(dirname) and all(map(_UNFINISHED.fullmatch, names))


def load_directory(
    dirname: str | os.PathLike[str], *, kind: str | None = None, limits: Mapping[str, int] | None = None
) -> Snapshot:
    """Load the newest complete state of a directory.

    A damaged state is skipped with a warning if the one saved before it is complete.

    Args:
        dirname: The directory.
        kind: Expected kind of the directory; None takes any.
        limits: Largest size of a file in bytes, by key; files of other keys are not verified. None takes files of any
            size, except for the state.

    Raises:
        CheckpointError: If it holds no complete state of this kind; the reason says what is missing or damaged.
    """
    directory = os.fspath(dirname)
    problems = []
    for name in (MANIFEST, PREVIOUS):
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            problems.append(f"{name} is missing" + " (it would name the save before the last one)" * (name == PREVIOUS))
            continue
        try:
            snapshot = _verified(directory, path, limits)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        if kind is not None and snapshot.manifest["kind"] != kind:
            raise CheckpointError(path, f"describes {snapshot.manifest['kind']!r}; expected {kind!r}")
        if problems:
            _warn(f"{directory}: the last save is not usable ({problems[0]}); using the one before it")
        else:
            _report_foreign_copies(snapshot)
        return snapshot
    raise CheckpointError(directory, f"holds no complete save: {'; '.join(problems)}")


def _make_folders(directory: str, aliases: Mapping[str, str]) -> None:
    for alias in aliases:
        if not is_alias(alias):
            raise CheckpointError(directory, f"cannot hold a copy called {alias!r}")
    inner = {"/".join(parts[:n]) for alias in aliases for parts in [alias.split("/")] for n in range(1, len(parts))}
    for folder in (os.path.join(directory, folder) for folder in sorted(inner)):
        if os.path.islink(folder):
            raise CheckpointError(folder, "is a symbolic link, through which nothing is written")
        atomic.make_directory(folder)


def _new_names(directory: str, keys: Mapping[str, Any]) -> dict[str, str]:
    """New file names by key, none of which exists in the directory."""
    while True:
        token = secrets.token_hex(4)
        names = {key: versioned_name(key, token) for key in keys}
        if not token.isdigit() and not any(os.path.lexists(os.path.join(directory, name)) for name in names.values()):
            return names


def _write_data(directory: str, name: str, writer: atomic.Writer) -> dict[str, Any]:
    """Write a file and return its entry in the manifest; the hash is computed from the bytes as they are written."""
    digest = hashlib.sha256()
    size = atomic.write_file(os.path.join(directory, name), writer, durable=True, digest=digest)
    return {"name": name, "size": size, "sha256": digest.hexdigest()}


def _commit(directory: str, manifest: bytes) -> None:
    path = os.path.join(directory, MANIFEST)
    # A damaged manifest does not replace the readable one in PREVIOUS.
    replaced = atomic.read_bounded(path, MAX_MANIFEST) if _readable_manifest(path) is not None else None
    atomic.atomic_write(path, manifest)
    if replaced is not None:
        atomic.atomic_write(os.path.join(directory, PREVIOUS), replaced)


def _readable_manifest(path: str) -> dict[str, Any] | None:
    try:
        return read_manifest(path)
    except CheckpointError:
        return None


def _verified(directory: str, path: str, limits: Mapping[str, int] | None) -> Snapshot:
    manifest = read_manifest(path)
    files = {key: entry for key, entry in manifest["files"].items() if limits is None or key in {STATE, *limits}}
    for key, entry in files.items():  # all sizes are checked before the first file is read
        limit = {**(limits or {}), STATE: _MAX_STATE}.get(key, entry["size"])
        if entry["size"] > limit:
            name = os.path.join(directory, entry["name"])
            raise CheckpointError(name, f"has {entry['size']} bytes; expected at most {limit}")
    for entry in files.values():
        _verify(os.path.join(directory, entry["name"]), entry)
    state = read_json(os.path.join(directory, manifest["files"][STATE]["name"]), _MAX_STATE)
    return Snapshot(directory, manifest, state)


def _verify(path: str, entry: Mapping[str, Any]) -> None:
    with atomic.open_regular(path) as file, atomic.named_errors(path, "read"):
        size = os.fstat(file.fileno()).st_size
        if size != entry["size"]:
            raise CheckpointError(path, f"has {size} bytes; expected {entry['size']}")
        if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:  # type: ignore[arg-type]
            raise CheckpointError(path, "is damaged: its SHA-256 is not the one in the manifest")


def _report_foreign_copies(snapshot: Snapshot) -> None:
    """Warn if another program has changed a copy: the copy is not what is loaded."""
    for alias, key in snapshot.manifest["aliases"].items():
        entry = snapshot.manifest["files"][key]
        path = os.path.join(snapshot.dirname, *alias.split("/"))
        original = os.path.join(snapshot.dirname, entry["name"])
        try:
            # A copy has the time of its original, so only a changed one has to be compared.
            if os.lstat(path).st_mtime_ns <= os.lstat(original).st_mtime_ns:
                continue
            _verify(path, entry)
        except FileNotFoundError:
            continue
        except (OSError, CheckpointError):
            _warn(f"{path} is newer than the last save and differs from it; what is loaded is {entry['name']}")


def _named(directory: str) -> set[str] | None:
    """Names of the files that the manifests need; None if one of them cannot be read."""
    names: set[str] = set()
    for name in (MANIFEST, PREVIOUS):
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            manifest = _readable_manifest(path)
            if manifest is None:
                return None
            names.update(entry["name"] for entry in manifest["files"].values())
    return names


def _remove_unless_named(directory: str, names: Mapping[str, str]) -> None:
    """Remove the files of a failed save, unless a manifest names them: a rename may report an error and yet be done."""
    needed = _named(directory)
    if needed is not None:
        for name in set(names.values()) - needed:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _clean(directory: str, keys: Iterable[str], aliases: Iterable[str]) -> None:
    """Remove files of earlier saves of these keys that no manifest names; the caller holds the lock.

    No other process is saving here, so any temporary file belongs to a killed one.
    """
    needed = _named(directory)
    if needed is None:
        return
    data = "|".join(name_pattern(key) for key in keys)
    fixed = "|".join(re.escape(name) for name in (MANIFEST, PREVIOUS, *aliases))
    ours = re.compile(rf"{data}|\.tmp-({data}|{fixed})-[0-9]+-[0-9a-f]{{8}}")
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.name not in needed and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def _renew_aliases(directory: str, aliases: Mapping[str, str], entries: Mapping[str, Any]) -> None:
    for alias, key in aliases.items():
        original = os.path.join(directory, entries[key]["name"])
        path = os.path.join(directory, *alias.split("/"))

        def copy(file: BinaryIO, original: str = original) -> None:
            with atomic.open_regular(original) as source:
                shutil.copyfileobj(source, file, 1 << 20)

        try:
            atomic.write_file(path, copy, durable=False)
            times = os.stat(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        except (OSError, CheckpointError) as error:
            raise CheckpointError(path, f"could not be renewed, the save itself is complete: {error}") from error


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)
