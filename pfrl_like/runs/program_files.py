"""Which files a program is made of, beside installed packages, and what tells whether they have changed."""

import functools
import hashlib
import os
import stat
import sys
import sysconfig
import types

#: Files beyond this number, and those of more bytes, are left out.
_MOST, _LARGEST = 256, 1 << 20
_INSTALLED = ("site-packages", "dist-packages")
_ELSEWHERE = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")) + (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)  # this library, whose version is known


def program_files() -> dict[str, str]:
    """The SHA-256 of the script that was started, and of the project's own modules that are imported, by path.

    These are loaded from below the script's directory or the current one; paths are relative to the one of them.
    """
    script = _file_of(sys.modules.get("__main__"))
    roots = [*([os.path.dirname(script)] if script else []), os.getcwd()]
    files = {os.path.basename(script): script} if script else {}
    for path in filter(None, map(_file_of, list(sys.modules.values()))):
        root = next((root for root in roots if path.startswith(os.path.join(root, ""))), None)
        if root is not None and not _is_installed(path):
            files[os.path.relpath(path, root)] = path
    names = sorted(files, key=lambda name: (files[name] != script, name))
    return {name: digest for name in names[:_MOST] if (digest := _fingerprint_of(files[name])) is not None}


def _file_of(module: object) -> str | None:
    """The source that a module was loaded from; nothing is imported by asking."""
    file = object.__getattribute__(module, "__dict__").get("__file__") if isinstance(module, types.ModuleType) else None
    return os.path.abspath(file) if isinstance(file, str) else None


def _is_installed(path: str) -> bool:
    return path.startswith(_ELSEWHERE) or any(name in path.split(os.sep) for name in _INSTALLED)


def _fingerprint_of(path: str) -> str | None:
    """The SHA-256 of a file, None of one that is too large or cannot be read."""
    try:
        status = os.stat(path)
        is_read = stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST
        return _fingerprint(path, status.st_mtime_ns, status.st_size) if is_read else None
    except OSError:
        return None


@functools.lru_cache(_MOST)
def _fingerprint(path: str, changed: int, size: int) -> str:
    """Likewise, of a file that was changed last then and has this size."""
    with open(path, "rb") as file:
        return "sha256:" + hashlib.sha256(file.read(_LARGEST)).hexdigest()
