"""System calls that fail: the n-th of some of them, once, or from there on, as on a full disk."""

import contextlib
import errno
import mmap
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = types.SimpleNamespace(flock=None)  # type: ignore[assignment]

#: By the name of a call, where it is looked up when it is made.
CALLS: dict[str, Any] = {
    **dict.fromkeys(
        ("write", "fsync", "replace", "rename", "open", "close", "unlink", "remove", "mkdir", "scandir", "listdir",
         "fstat", "ftruncate", "posix_fallocate"), os,
    ),
    "flock": fcntl,
    "flush": mmap.mmap,
}  # fmt: skip
#: Those that ask for room on the disk.
ROOM = ("write", "open", "mkdir", "posix_fallocate", "flush")


class Fault:
    """Makes calls fail while it is installed.

    Args:
        names: The calls, counted together.
        n: Which of them is the first to fail.
        works: Whether it does its work all the same; a `close` always does.
        lasts: Whether those that follow fail, too; of writes the first one then writes a half.
        error: With what.

    Attributes:
        left: Calls until it happens; it has happened if there are none.
    """

    def __init__(self, *names: str, n: int, works: bool = False, lasts: bool = False, error: int = errno.EIO) -> None:
        self.names, self.left, self.works, self.lasts, self.error = names, n, works, lasts, error

    @property
    def happened(self) -> bool:
        return self.left <= 0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let the calls fail that are made meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            for name in self.names:
                if name == "flush":  # a method of a class that cannot be changed
                    flush = self._failing("flush", mmap.mmap.flush)
                    patch.setattr(mmap, "mmap", type("FailingMap", (mmap.mmap,), {"flush": flush}))
                elif getattr(CALLS[name], name, None) is not None:
                    patch.setattr(CALLS[name], name, self._failing(name, getattr(CALLS[name], name)))
            yield

    def _failing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.lasts and name == "open" and not arguments[1] & os.O_CREAT:
                return function(*arguments, **options)
            self.left -= 1
            if self.left > 0 or (self.left < 0 and not self.lasts):
                return function(*arguments, **options)
            if self.lasts and self.left == 0 and name == "write":
                return function(arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2])
            if self.works or name == "close":
                result = function(*arguments, **options)
                if name == "open":
                    os.close(result)
            raise OSError(self.error, os.strerror(self.error), *arguments[:1])

        return call
