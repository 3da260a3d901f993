"""Directories with several files that change together: `manifest.json` lists the files of the current state.

Each save writes data files with new names (`model-7f3a91c2.pt`). The new state becomes current when the manifest is
replaced. No file of the old state is changed before that. The files of the previous state are kept until a newer state
is complete. A new directory is built under a temporary name and then renamed. Therefore an existing directory is
complete.
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
from pfrl_like.storage import atomic, manifest
from pfrl_like.storage.json_file import dump_json, read_json

_MAX_STATE = 1 << 28
#: Names of the files that remain if the first call of `save_directory` is interrupted.
_UNFINISHED = re.compile(rf"{manifest.ANY_NAME}|\.tmp-.+-[0-9]+-[0-9a-f]{{8}}")
#: Prefix of the temporary names of directories that are being built.
_NEW = ".tmp-new-"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One complete state of a directory, with verified files.

    Attributes:
        dirname: The directory.
        manifest: The fields of the manifest.
        state: The `state` argument of `save_directory`.
    """

    dirname: str
    manifest: Mapping[str, Any]
    state: Mapping[str, Any]

    @property
    def keys(self) -> list[str]:
        """The keys of the `files` argument of `save_directory`."""
        return [key for key in self.manifest["files"] if key != manifest.STATE]

    def open(self, key: str) -> str:
        """Return the path of the file that was saved under `key`.

        Raises:
            CheckpointError: If there is no such file.
        """
        if key not in self.keys:
            raise CheckpointError(self.dirname, f"has no {key!r}, only {', '.join(self.keys) or 'no files'}")
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
    other_keys: Iterable[str] = (),
) -> None:
    """Write `files` and `state` as the content of a directory, atomically.

    Args:
        dirname: The directory. If it does not exist, it is created, and becomes visible only when it is complete. Files
            that this function has not written are not changed.
        files: Content of each file. Its key is a plain file name such as "model.pt". The file is stored as
            "model-<hex8>.pt".
        state: Other content, as JSON.
        kind: Kind of the directory, for instance "agent". `load_directory` compares it with the expected kind.
        class_name: Class of the saved object, for the user.
        aliases: Copies of files for other programs: a dict from the name of each copy, relative to the directory, to
            the key of the file. `load_directory` does not read the copies.
        info: Additional fields of the manifest, as JSON.
        other_keys: Keys that other calls for this directory may use. Old files with these keys are also removed.

    Raises:
        CheckpointError: If a file cannot be written. The directory then still has its previous state, unless the reason
            says that only a copy is missing.
    """
    directory = os.fspath(dirname)
    aliases = dict(aliases or {})
    for name in [*files, manifest.STATE]:
        if not manifest.is_key(name) or (name == manifest.STATE and name in files):
            raise CheckpointError(directory, f"cannot store a file with the key {name!r}")
    content = dump_json(state, os.path.join(directory, manifest.STATE), _MAX_STATE)
    writers: dict[str, atomic.Writer] = {**files, manifest.STATE: content}
    dump_json(info or {}, directory, manifest.MAX_MANIFEST)

    def save(folder: str) -> None:
        """Save into a directory. The caller holds its lock."""
        _make_folders(folder, aliases)
        names = _new_names(folder, writers)
        try:
            with atomic.synced_together():
                entries = {key: _write_data(folder, names[key], writer) for key, writer in writers.items()}
                atomic.sync_directory(folder)
            fields = manifest.new_manifest(kind, class_name, entries, aliases, info or {})
            _commit(folder, dump_json(fields, folder, manifest.MAX_MANIFEST))
        except BaseException:
            _remove_unlisted(folder, names)
            raise
        _clean(folder, {*writers, *other_keys}, aliases)
        _copy_aliases(folder, aliases, entries)

    if os.path.lexists(directory) or not _save_new(directory, save):
        atomic.make_directory(directory)
        with atomic.save_lock(directory):
            save(directory)


def _save_new(directory: str, save: Callable[[str], None]) -> bool:
    """Save into a temporary directory and rename it. Return False if another process has created the directory."""
    above, name = os.path.split(os.path.realpath(directory))
    atomic.make_directory(above)
    atomic.remove_stale(above, _NEW)
    folder, target = os.path.join(above, f"{_NEW}{os.getpid()}-{secrets.token_hex(4)}"), os.path.join(above, name)
    try:
        with atomic.named_errors(directory, "created"):
            os.mkdir(folder)
        with atomic.save_lock(folder):  # without the lock, other processes would remove this directory
            try:
                save(folder)
            finally:
                if is_made := has_manifest(folder):  # True even if a copy could not be written
                    atomic.sync_pending()
                    is_made = _rename(folder, target)
        atomic.sync_directory(above)
    except CheckpointError as error:
        path, reason = (text.replace(folder, directory) for text in (error.path, error.reason))
        raise CheckpointError(path, reason) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return is_made


def _rename(folder: str, target: str) -> bool:
    """Rename a directory. Return False if `target` exists and is not empty."""
    with atomic.named_errors(target, "created"):
        try:
            os.rename(folder, target)
        except OSError:
            if not os.path.isdir(target):
                raise
            return False
    return True


def has_manifest(dirname: str | os.PathLike[str]) -> bool:
    """True if `save_directory` has completely written a state into this directory."""
    return any(os.path.lexists(os.path.join(dirname, name)) for name in (manifest.MANIFEST, manifest.PREVIOUS))


def orphan_state_files(dirname: str | os.PathLike[str]) -> list[str]:
    """Return the names of the state files in a directory that has no manifest; [] if it has a manifest.

    Such files exist if the first call of `save_directory` was interrupted, or if the manifest was lost.
    """
    if has_manifest(dirname) or not os.path.isdir(dirname):
        return []
    return sorted(filter(re.compile(manifest.name_pattern(manifest.STATE)).fullmatch, os.listdir(dirname)))


def is_unfinished(dirname: str | os.PathLike[str]) -> bool:
    """True if a directory is empty, or if the first call of `save_directory` was interrupted."""
    names = [name for _, _, files in os.walk(dirname) for name in files]
    return not has_manifest(dirname) and all(map(_UNFINISHED.fullmatch, names))


def load_directory(
    dirname: str | os.PathLike[str], *, kind: str | None = None, limits: Mapping[str, int] | None = None
) -> Snapshot:
    """Load the newest complete state of a directory.

    If the last state is damaged and the previous state is complete, the previous state is loaded with a warning.

    Args:
        dirname: The directory.
        kind: Expected kind of the directory. If None, any kind is allowed.
        limits: Maximum size of each file in bytes, keyed by the file's key. Files with other keys are not verified. If
            None, all files are verified, and only the file of the state has a maximum size.

    Raises:
        CheckpointError: If the directory has a different kind or contains no complete state. The message names the
            missing or damaged file.
    """
    directory = os.fspath(dirname)
    problems = []
    for name in (manifest.MANIFEST, manifest.PREVIOUS):
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            role = " (it lists the files of the previous save)" if name == manifest.PREVIOUS else ""
            problems.append(f"{name} is missing{role}")
            continue
        try:
            snapshot = _verified(directory, path, limits)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        if kind is not None and snapshot.manifest["kind"] != kind:
            raise CheckpointError(path, f"has the kind {snapshot.manifest['kind']!r}; expected {kind!r}")
        if problems:
            _warn(f"{directory}: the last save cannot be used ({problems[0]}); loading the previous save")
        else:
            _report_foreign_copies(snapshot)
        return snapshot
    raise CheckpointError(directory, f"contains no complete save: {'; '.join(problems)}")


def _make_folders(directory: str, aliases: Mapping[str, str]) -> None:
    for alias in aliases:
        if not manifest.is_alias(alias):
            raise CheckpointError(directory, f"cannot store a copy with the name {alias!r}")
    inner = {"/".join(parts[:n]) for alias in aliases for parts in [alias.split("/")] for n in range(1, len(parts))}
    for folder in (os.path.join(directory, folder) for folder in sorted(inner)):
        if os.path.islink(folder):
            raise CheckpointError(folder, "is a symbolic link, and saves do not write through links")
        atomic.make_directory(folder)


def _new_names(directory: str, keys: Mapping[str, Any]) -> dict[str, str]:
    """Return new file names, keyed by key. None of the names exists in the directory."""
    while True:
        token = secrets.token_hex(4)
        names = {key: manifest.versioned_name(key, token) for key in keys}
        if not token.isdigit() and not any(os.path.lexists(os.path.join(directory, name)) for name in names.values()):
            return names


def _write_data(directory: str, name: str, writer: atomic.Writer) -> dict[str, Any]:
    """Write a file and return its entry in the manifest. The hash is computed from the bytes that are written."""
    digest = hashlib.sha256()
    size = atomic.write_file(os.path.join(directory, name), writer, durable=True, digest=digest)
    return {"name": name, "size": size, "sha256": digest.hexdigest()}


def _commit(directory: str, content: bytes) -> None:
    path = os.path.join(directory, manifest.MANIFEST)
    # A damaged manifest must not replace `previous.json`, which may be readable.
    replaced = atomic.read_bounded(path, manifest.MAX_MANIFEST) if _readable_manifest(path) is not None else None
    atomic.atomic_write(path, content)
    if replaced is not None:
        atomic.atomic_write(os.path.join(directory, manifest.PREVIOUS), replaced)


def _readable_manifest(path: str) -> dict[str, Any] | None:
    try:
        return manifest.read_manifest(path)
    except CheckpointError:
        return None


def _verified(directory: str, path: str, limits: Mapping[str, int] | None) -> Snapshot:
    fields = manifest.read_manifest(path)
    files = {key: entry for key, entry in fields["files"].items() if limits is None or key in {manifest.STATE, *limits}}
    for key, entry in files.items():  # all sizes are checked before the first file is read
        limit = {**(limits or {}), manifest.STATE: _MAX_STATE}.get(key, entry["size"])
        if entry["size"] > limit:
            name = os.path.join(directory, entry["name"])
            raise CheckpointError(name, f"has {entry['size']} bytes; expected at most {limit}")
    for entry in files.values():
        _verify(os.path.join(directory, entry["name"]), entry)
    state = read_json(os.path.join(directory, fields["files"][manifest.STATE]["name"]), _MAX_STATE)
    return Snapshot(directory, fields, state)


def _verify(path: str, entry: Mapping[str, Any]) -> None:
    with atomic.open_regular(path) as file, atomic.named_errors(path, "read"):
        size = os.fstat(file.fileno()).st_size
        if size != entry["size"]:
            raise CheckpointError(path, f"has {size} bytes; expected {entry['size']}")
        if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:  # type: ignore[arg-type]
            raise CheckpointError(path, "is damaged: its SHA-256 differs from the manifest")


def _report_foreign_copies(snapshot: Snapshot) -> None:
    """Warn if another program has changed a copy: the changed copy is not loaded."""
    for alias, key in snapshot.manifest["aliases"].items():
        entry = snapshot.manifest["files"][key]
        path = os.path.join(snapshot.dirname, *alias.split("/"))
        original = os.path.join(snapshot.dirname, entry["name"])
        try:
            # A copy has the modification time of its original. Therefore only newer copies are compared.
            if os.lstat(path).st_mtime_ns <= os.lstat(original).st_mtime_ns:
                continue
            _verify(path, entry)
        except FileNotFoundError:
            continue
        except (OSError, CheckpointError):
            _warn(f"{path} is newer than the last save and differs from it; {entry['name']} is loaded")


def _listed_files(directory: str) -> set[str] | None:
    """Return the names of the files that the manifests list; None if a manifest cannot be read."""
    names: set[str] = set()
    for name in (manifest.MANIFEST, manifest.PREVIOUS):
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            fields = _readable_manifest(path)
            if fields is None:
                return None
            names.update(entry["name"] for entry in fields["files"].values())
    return names


def _remove_unlisted(directory: str, names: Mapping[str, str]) -> None:
    """Remove the files of a failed save, unless a manifest lists them.

    A manifest may list them, because a rename may succeed and still report an error.
    """
    needed = _listed_files(directory)
    if needed is not None:
        for name in set(names.values()) - needed:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _clean(directory: str, keys: Iterable[str], aliases: Iterable[str]) -> None:
    """Remove the old files with these keys that no manifest lists. The caller holds the lock.

    No other process is saving into this directory, so all temporary files belong to killed processes.
    """
    needed = _listed_files(directory)
    if needed is None:
        return
    data = "|".join(manifest.name_pattern(key) for key in keys)
    fixed = "|".join(re.escape(name) for name in (manifest.MANIFEST, manifest.PREVIOUS, *aliases))
    ours = re.compile(rf"{data}|\.tmp-({data}|{fixed})-[0-9]+-[0-9a-f]{{8}}")
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.name not in needed and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def _copy_aliases(directory: str, aliases: Mapping[str, str], entries: Mapping[str, Any]) -> None:
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
            raise CheckpointError(path, f"could not be written; the save itself is complete: {error}") from error


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)
