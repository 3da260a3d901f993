"""Ends of pipes, and ways to wait for a message, a worker's death or a time limit."""

import io
import math
import os
import pickle
import select
import struct
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

#: Returned instead of a message of which a part has not arrived.
UNFINISHED = object()

# Header of a message: its length, or -1 and a longer number.
_LENGTH, _LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")
_LONGEST = 0x7FFFFFFF

# Most bytes of one read.
_MOST = 1 << 20


def pickled(message: Any) -> bytes:
    """Pickle a message as `Connection.recv` expects it.

    `ForkingPickler.dumps` and `Connection.send` make a view of a `BytesIO` instead. If the write fails, the traceback
    keeps the view, and its garbage collection ends Python 3.12 with a segmentation fault.

    Raises:
        pickle.PicklingError: If it cannot be pickled. Python raises errors of several types, also OSError, which
            callers take for an error of the pipe.
    """
    buffer = io.BytesIO()
    try:
        ForkingPickler(buffer).dump(message)
    except Exception as error:
        raise pickle.PicklingError(f"message cannot be pickled: {type(error).__name__}: {error}") from error
    return buffer.getvalue()


def send(connection: Any, message: Any) -> None:
    """Send a message like `connection.send(message)`, but leave no view behind if that fails; see `pickled`.

    Args:
        connection: A `Connection`, or a user's own connection that has only `send`.
        message: Object that can be pickled.
    """
    if hasattr(connection, "send_bytes"):
        connection.send_bytes(pickled(message))
    else:
        connection.send(message)


class WaitingEnd:
    """An end of a pipe that blocks until a message is sent or received completely.

    Args:
        connection: `Connection` of this end.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Any) -> bool:
        """Send a message, or as much of it as the pipe takes now; returns True if all is sent."""
        send(self.connection, message)
        return True

    def flush(self) -> bool:
        """Send more of the rest that `send` has left; returns True if all is sent."""
        return True

    def recv(self) -> Any:
        """Next message, or `UNFINISHED` if a part of it has not arrived."""
        return self.connection.recv()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class PipeEnd(WaitingEnd):
    """An end of a pipe that never blocks.

    The worker's end is a `Connection`. Messages have its format, which processes with different versions of Python
    share.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._descriptor = connection.fileno()
        os.set_blocking(self._descriptor, False)
        self._unsent = memoryview(b"")
        self._size = 0  # of the incoming message, once known
        self._came = bytearray()  # incomplete part that has arrived

    def send(self, message: Any) -> bool:
        """Send a message, or as much of it as the pipe takes now; returns True if all is sent."""
        packed = pickled(message)
        size = len(packed)
        length = _LENGTH.pack(size) if size <= _LONGEST else _LENGTH.pack(-1) + _LONG_LENGTH.pack(size)
        self._unsent = memoryview(length + packed)
        return self.flush()

    def flush(self) -> bool:
        """Send more of the rest that `send` has left; returns True if all is sent."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._descriptor, self._unsent) :]
        except BlockingIOError:
            return False
        return True

    def recv(self) -> Any:
        """Next message, or `UNFINISHED` if a part of it has not arrived."""
        try:
            if self._size == 0:
                (self._size,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
            if self._size == -1:
                (self._size,) = _LONG_LENGTH.unpack(self._bytes(_LONG_LENGTH.size))
            packed = self._bytes(self._size)
        except BlockingIOError:
            return UNFINISHED
        self._size = 0
        return pickle.loads(packed)

    def close(self) -> None:
        """Close the connection."""
        self._descriptor = -1  # the number may soon be another file's
        super().close()

    def _bytes(self, count: int) -> bytearray:
        """Read `count` bytes; keeps those that have arrived if `os.read` raises because others have not."""
        while len(self._came) < count:
            chunk = os.read(self._descriptor, min(count - len(self._came), _MOST))
            if not chunk:
                raise EOFError
            self._came += chunk
        whole, self._came = self._came, bytearray()
        return whole


def pipe_end(connection: Connection) -> WaitingEnd:
    """Make a `PipeEnd`, or a `WaitingEnd` on Windows."""
    return WaitingEnd(connection) if sys.platform == "win32" else PipeEnd(connection)


class Doorbell:
    """Waits for any of several workers, each with a pipe and a descriptor that becomes readable when it dies.

    It registers the descriptors with the system once. `multiprocessing.connection.wait` does so at every call, and a
    step of eight environments waits up to eight times.
    """

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, Connection | None]] = {}  # descriptor: worker, the pipe if it is the pipe's
        self._poll = None if sys.platform == "win32" else select.poll()

    def add(self, index: int, channel: Connection, death: int) -> None:
        """Add a worker to wait for."""
        for descriptor, pipe in ((channel.fileno(), channel), (death, None)):
            self._owners[descriptor] = (index, pipe)
            if self._poll is not None:
                self._poll.register(descriptor, select.POLLIN)

    def remove(self, index: int) -> None:
        """Remove a worker whose pipe and descriptor are still open."""
        for descriptor in [each for each, (owner, _) in self._owners.items() if owner == index]:
            del self._owners[descriptor]
            if self._poll is not None:
                self._poll.unregister(descriptor)

    def wait(self, timeout: float | None) -> Mapping[int, bool]:
        """Wait for a message or the death of any worker.

        Args:
            timeout: Seconds to wait at most; None for no limit.

        Returns:
            By worker: True if the pipe has something to read (a message or its end), False if the worker has died and
            its pipe is silent.
        """
        if self._poll is not None:
            ready = [descriptor for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000)]
        else:
            ends = wait([pipe or descriptor for descriptor, (_, pipe) in self._owners.items()], timeout)
            ready = [end if isinstance(end, int) else end.fileno() for end in ends]
        rung: dict[int, bool] = {}
        for descriptor in ready:
            index, pipe = self._owners[descriptor]
            rung[index] = pipe is not None or rung.get(index, False)
        return rung


#: Most seconds by which a countdown decreases between two calls of `left`.
_LONGEST_WAIT = 1.0


class Countdown:
    """Seconds left until a time limit.

    At most one second counts between two calls of `left`. A process that was stopped (Ctrl-Z, a debugger) and resumes
    therefore does not count the time for which it, and the processes that it waits for, were stopped.

    Args:
        seconds: The limit; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else float(seconds)
        self._seen = time.monotonic()

    def left(self) -> float:
        """Seconds left; 0 or negative if the time is over."""
        now = time.monotonic()
        self._left -= min(now - self._seen, _LONGEST_WAIT)
        self._seen = now
        return self._left
