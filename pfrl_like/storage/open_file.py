"""A file that is open as long as somebody has it."""

import contextlib
import os
import weakref

#: Flags of `os.open`: links are not followed, other programs do not inherit the file. Windows has no need of them.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class OpenFile:
    """A file, open until `close`, or until nothing refers to this object any more.

    Args:
        path: The file.
        flags: How to open it, as `os.open` takes them.

    Raises:
        OSError: If it cannot be opened.
    """

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | NO_FOLLOW, 0o666)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        self._closing.atexit = False  # the system does it then

    def close(self) -> None:
        """Let go of the file."""
        self._descriptor = -1
        with contextlib.suppress(OSError):  # what counts has been synced
            self._closing()
