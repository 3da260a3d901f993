"""`manifest.json` (the list of files of a directory's state), and a lock that allows one writer per directory."""

import contextlib
import datetime
import os
import platform
import re
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

import filelock
import numpy as np
import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write, named_errors
from pfrl_like.storage.json_file import dump_json, read_json
from pfrl_like.utils.stoppable_thread import start_time

MANIFEST = "manifest.json"
PREVIOUS = "previous.json"
FORMAT = "pfrl_like"
FORMAT_VERSION = 1
#: Key of the file that contains the `state` argument of `save_directory`.
STATE = "state.json"
MAX_MANIFEST = 1 << 22

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}")
_ALIAS = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TOKEN = r"(?=[0-9]*[a-f])[0-9a-f]{8}"  # has a letter, so that a user's model-20240131.pt does not match
#: Regular expression for all file names that `save_directory` creates.
ANY_NAME = rf".+-{_TOKEN}(\.\w+)?"
LOCK_FILES = ("LOCK", "owner.json")
_MAX_BYTES = 1 << 12


def is_key(key: object) -> bool:
    """True if a file can be saved under this key: a plain file name, with characters that all systems support."""
    return isinstance(key, str) and _KEY.fullmatch(key) is not None and key not in (MANIFEST, PREVIOUS)


def is_alias(alias: object) -> bool:
    """True if a copy can have this name: plain file names, joined by slashes."""
    return isinstance(alias, str) and _ALIAS.fullmatch(alias) is not None and alias not in (MANIFEST, PREVIOUS)


def versioned_name(key: str, token: str) -> str:
    """Return the file name of `key` with a token: model.pt -> model-7f3a91c2.pt."""
    stem, suffix = os.path.splitext(key)
    return f"{stem}-{token}{suffix}"


def name_pattern(key: str) -> str:
    """Return a regular expression for the file names of `key` with any token."""
    stem, suffix = os.path.splitext(key)
    return f"{re.escape(stem)}-{_TOKEN}{re.escape(suffix)}"


def new_manifest(
    kind: str, class_name: str, entries: Mapping[str, Any], aliases: Mapping[str, str], info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a manifest: `info` and the fixed fields."""
    versions = {"pfrl_like": getattr(sys.modules.get("pfrl_like"), "__version__", "unknown")}
    versions |= {"torch": str(torch.__version__), "numpy": np.__version__, "python": platform.python_version()}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    form = {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": kind, "class": class_name}
    return {**info, **form, "versions": versions, "time": now, "files": entries, "aliases": aliases}


def read_manifest(path: str) -> dict[str, Any]:
    """Read and check a manifest: the types of its fields, and that each file name can be the name of a saved file.

    Raises:
        CheckpointError: If the manifest is missing or damaged, if a field or file name is invalid, or if the format
            version is not supported.
    """
    manifest = read_json(path, MAX_MANIFEST)
    if manifest.get("format") != FORMAT or type(manifest.get("format_version")) is not int:
        raise CheckpointError(path, f"is not a manifest: expected the format {FORMAT!r} and a format_version")
    if manifest["format_version"] != FORMAT_VERSION:
        version = manifest["format_version"]
        raise CheckpointError(path, f"has format_version {version}; this version of the library reads {FORMAT_VERSION}")
    files, aliases = manifest.get("files"), manifest.get("aliases")
    if type(manifest.get("kind")) is not str or type(files) is not dict or type(aliases) is not dict:
        raise CheckpointError(path, "is not a manifest: expected the fields kind, files and aliases")
    for key, entry in files.items():
        fields = entry if type(entry) is dict else {}
        name, size, digest = fields.get("name"), fields.get("size"), fields.get("sha256")
        if type(name) is not str or type(digest) is not str or type(size) is not int or size < 0:
            raise CheckpointError(path, f"lists {key!r} without name, size and sha256")
        if not is_key(key) or not re.fullmatch(name_pattern(key), name):
            raise CheckpointError(path, f"lists {key!r} under the name {name!r}, which is not a name of a saved file")
    for alias, key in aliases.items():
        if not is_alias(alias) or type(key) is not str or key not in files:
            raise CheckpointError(path, f"lists {alias!r} as a copy of {key!r}, which is not valid")
    if STATE not in files:
        raise CheckpointError(path, f"does not list {STATE}")
    return manifest


class WriterLock:
    """Lock that allows one process to write into a directory. It ends with the process, also after a crash.

    The lock is a lock of the operating system on the file `LOCK`. The file `owner.json` contains the process id for the
    user. Releasing the lock removes both files. A killed process leaves both files, but they block no other process.
    Old NFS servers do not support such locks. On such servers two machines can write at the same time.

    Args:
        directory: The directory.

    Raises:
        CheckpointError: If another process, or another object of this process, holds the lock.
    """

    def __init__(self, directory: str) -> None:
        self._lock = filelock.FileLock(os.path.join(directory, LOCK_FILES[0]), timeout=0, thread_local=False)
        self._owner = owner = os.path.join(directory, LOCK_FILES[1])
        try:
            self._lock.acquire()
        except (filelock.Timeout, RuntimeError):
            raise CheckpointError(directory, f"is written by {_name_of(_read(owner))}; only one may write") from None
        except (OSError, NotImplementedError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(directory, f"cannot be locked: {reason}") from error
        try:
            now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            owned = {**_identity(os.getpid()), "since": now}
            atomic_write(owner, dump_json(owned, owner, _MAX_BYTES), durable=False)
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Release the lock. A second call does nothing.

        Raises:
            CheckpointError: If the system reports an error.
        """
        if self._lock.is_locked:
            # `LOCK` is removed before it is unlocked. If another process has opened it before, filelock rejects its
            # lock.
            for path in (self._owner, self._lock.lock_file):
                with contextlib.suppress(OSError):  # Windows cannot remove an open file
                    os.remove(path)
        with named_errors(self._lock.lock_file, "unlocked"):
            self._lock.release()


def is_owned_by(directory: str, pid: int) -> bool:
    """True if `owner.json` of a directory names this process of this machine.

    The file of a killed process is not removed, so the answer is only valid while the directory is locked.
    """
    owner = _read(os.path.join(directory, LOCK_FILES[1]))
    return {name: owner.get(name) for name in _identity(pid)} == _identity(pid)


def _identity(pid: int) -> dict[str, Any]:
    """Return the identity of a process: its id, its machine and its start time, because ids are reused."""
    return {"pid": pid, "host": socket.gethostname(), "started": start_time(pid)}


def _read(path: str) -> dict[str, Any]:
    try:
        owner: dict[str, Any] = read_json(path, _MAX_BYTES)
    except CheckpointError:  # the file does not exist, or is not written yet
        return {}
    return owner


def _name_of(owner: dict[str, Any]) -> str:
    return "process {pid} on {host} since {since}".format(**owner) if owner else "another process"
