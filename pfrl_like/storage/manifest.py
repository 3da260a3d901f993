"""`manifest.json`, which says what files make up the state of a directory; and the lock that gives it one writer."""

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
#: Key of the file with the state that `save_directory` was given.
STATE = "state.json"
MAX_MANIFEST = 1 << 22

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}")
_ALIAS = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TOKEN = r"(?=[0-9]*[a-f])[0-9a-f]{8}"  # never digits alone: a user's model-20240131.pt is none of ours
#: Regular expression of all names that saves give to files.
ANY_NAME = rf".+-{_TOKEN}(\.\w+)?"
LOCK_FILES = ("LOCK", "owner.json")
_MAX_BYTES = 1 << 12


def is_key(key: object) -> bool:
    """Whether a file can be saved under this key: a plain file name, in letters that every system takes."""
    return isinstance(key, str) and _KEY.fullmatch(key) is not None and key not in (MANIFEST, PREVIOUS)


def is_alias(alias: object) -> bool:
    """Whether a copy can have this name: plain file names, joined by slashes."""
    return isinstance(alias, str) and _ALIAS.fullmatch(alias) is not None and alias not in (MANIFEST, PREVIOUS)


def versioned_name(key: str, token: str) -> str:
    """Name of the file under `key` in one save: model.pt -> model-7f3a91c2.pt."""
    stem, suffix = os.path.splitext(key)
    return f"{stem}-{token}{suffix}"


def name_pattern(key: str) -> str:
    """Regular expression of the names that saves give to the file under `key`."""
    stem, suffix = os.path.splitext(key)
    return f"{re.escape(stem)}-{_TOKEN}{re.escape(suffix)}"


def new_manifest(
    kind: str,
    class_name: str,
    entries: Mapping[str, Any],
    aliases: Mapping[str, str],
    info: Mapping[str, Any],
) -> dict[str, Any]:
    """The fields of a manifest: `info`, and what is always there."""
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


def read_manifest(path: str) -> dict[str, Any]:
    """A manifest, once every field that is relied on has its type and every file name is a plain one of ours.

    Raises:
        CheckpointError: If it is absent or damaged, that is not so, or the format is of a later version.
    """
    manifest = read_json(path, MAX_MANIFEST)
    if manifest.get("format") != FORMAT or type(manifest.get("format_version")) is not int:
        raise CheckpointError(path, f"is no manifest: expected the format {FORMAT!r} and a format_version")
    if manifest["format_version"] != FORMAT_VERSION:
        version = manifest["format_version"]
        raise CheckpointError(path, f"has format_version {version}; this version of the library reads {FORMAT_VERSION}")
    files, aliases = manifest.get("files"), manifest.get("aliases")
    if type(manifest.get("kind")) is not str or type(files) is not dict or type(aliases) is not dict:
        raise CheckpointError(path, "is no manifest: expected the fields kind, files and aliases")
    for key, entry in files.items():
        fields = entry if type(entry) is dict else {}
        name, size, digest = fields.get("name"), fields.get("size"), fields.get("sha256")
        if type(name) is not str or type(digest) is not str or type(size) is not int or size < 0:
            raise CheckpointError(path, f"lists {key!r} without name, size and sha256")
        if not is_key(key) or not re.fullmatch(name_pattern(key), name):
            raise CheckpointError(path, f"lists {key!r} under the name {name!r}, which no save gives")
    for alias, key in aliases.items():
        if not is_alias(alias) or type(key) is not str or key not in files:
            raise CheckpointError(path, f"lists the copy {alias!r} of {key!r}, which no save makes")
    if STATE not in files:
        raise CheckpointError(path, f"lists no {STATE}")
    return manifest


class WriterLock:
    """Held by the process that writes into a directory; ends with it, however it ends.

    The lock is one of the operating system, on the file `LOCK`; `owner.json` tells people whose it is. Neither stays
    when it is released; a process that is killed leaves both, which stop nobody. Old NFS servers do not keep such
    locks, so that two machines there are not kept apart.

    Args:
        directory: The directory.

    Raises:
        CheckpointError: If another process, or another object of this one, holds it.
    """

    def __init__(self, directory: str) -> None:
        self._lock = filelock.FileLock(os.path.join(directory, LOCK_FILES[0]), timeout=0, thread_local=False)
        self._owner = owner = os.path.join(directory, LOCK_FILES[1])
        try:
            self._lock.acquire()
        except (filelock.Timeout, RuntimeError):
            raise CheckpointError(directory, f"is being written by {_told(_read(owner))}; it has one writer") from None
        except (OSError, NotImplementedError) as error:
            told = getattr(error, "strerror", None) or error
            raise CheckpointError(directory, f"cannot be locked: {told}") from error
        try:
            now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            owned = {**_identity(os.getpid()), "since": now}
            atomic_write(owner, dump_json(owned, owner, _MAX_BYTES), durable=False)
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Let others write; may be called again.

        Raises:
            CheckpointError: If the system does not unlock it.
        """
        if self._lock.is_locked:
            # `LOCK` goes before it is unlocked: filelock refuses a lock on a file that has been removed meanwhile.
            for path in (self._owner, self._lock.lock_file):
                with contextlib.suppress(OSError):  # Windows removes no open file
                    os.remove(path)
        with named_errors(self._lock.lock_file, "unlocked"):
            self._lock.release()


def is_owned_by(directory: str, pid: int) -> bool:
    """Whether it is this process of this machine that says of itself that it writes into a directory.

    What a killed process has left says it, too: ask only of a directory whose lock is held.
    """
    owner = _read(os.path.join(directory, LOCK_FILES[1]))
    return {name: owner.get(name) for name in _identity(pid)} == _identity(pid)


def _identity(pid: int) -> dict[str, Any]:
    """What tells a process from others, and from later ones of its number."""
    return {"pid": pid, "host": socket.gethostname(), "started": start_time(pid)}


def _read(path: str) -> dict[str, Any]:
    try:
        owner: dict[str, Any] = read_json(path, _MAX_BYTES)
    except CheckpointError:  # nobody's, or whoever has the lock has not said yet who it is
        return {}
    return owner


def _told(owner: dict[str, Any]) -> str:
    return "process {pid} on {host} since {since}".format(**owner) if owner else "another process"
