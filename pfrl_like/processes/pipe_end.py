"""Ends of pipes, and classes that wait for a message, the death of a worker, or a time limit."""

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

#: Result of `recv` if only a part of a message has arrived.
UNFINISHED = object()

# Header of a message: its length, or -1 and a 64-bit length if the message is longer than `_MAX_SHORT_LENGTH`.
_LENGTH, _LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")
_MAX_SHORT_LENGTH = 0x7FFFFFFF

# Maximum number of bytes of one read.
_MAX_READ = 1 << 20


def pickled(message: Any) -> bytes:
    """Pickle a message in the format of `Connection.recv`.

    `ForkingPickler.dumps` and `Connection.send` create a view of a `BytesIO`. If the write fails, the traceback keeps
    the view, and Python 3.12 ends with a segmentation fault when it deletes the view. This function creates no view.

    Raises:
        pickle.PicklingError: If the message cannot be pickled. Errors of all types are converted to this type, because
            callers treat an OSError as an error of the pipe.
    """
    buffer = io.BytesIO()
    try:
        ForkingPickler(buffer).dump(message)
    except Exception as error:
        raise pickle.PicklingError(f"message cannot be pickled: {type(error).__name__}: {error}") from error
    return buffer.getvalue()


def send(connection: Any, message: Any) -> None:
    """Send a message like `connection.send(message)`, but pickle the message with `pickled`.

    Args:
        connection: A `Connection`, or a user-defined object that has only the method `send`.
        message: An object that can be pickled.
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
        """Send a message, and wait until the pipe has accepted all of it. Return True."""
        send(self.connection, message)
        return True

    def flush(self) -> bool:
        """Do nothing, because `send` always sends the whole message. Return True."""
        return True

    def recv(self) -> Any:
        """Return the next message. Wait until it has arrived."""
        return self.connection.recv()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class PipeEnd(WaitingEnd):
    """The parent's end of a pipe. Its methods do not block.

    The worker's end is a `Connection`. Messages have the format that `Connection` uses in all Python versions.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._descriptor = connection.fileno()
        os.set_blocking(self._descriptor, False)
        self._unsent = memoryview(b"")
        self._size = 0  # size of the incoming message; 0 if unknown
        self._received = bytearray()  # incomplete message

    def send(self, message: Any) -> bool:
        """Send a message, or the part that fits into the pipe. Return True if the whole message was sent."""
        packed = pickled(message)
        size = len(packed)
        length = _LENGTH.pack(size) if size <= _MAX_SHORT_LENGTH else _LENGTH.pack(-1) + _LONG_LENGTH.pack(size)
        self._unsent = memoryview(length + packed)
        return self.flush()

    def flush(self) -> bool:
        """Send as much as possible of the rest of the message. Return True if the whole message was sent."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._descriptor, self._unsent) :]
        except BlockingIOError:
            return False
        return True

    def recv(self) -> Any:
        """Return the next message, or `UNFINISHED` if only a part has arrived."""
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
        self._descriptor = -1  # the system may use this number for another file
        super().close()

    def _bytes(self, count: int) -> bytearray:
        """Read `count` bytes. If `os.read` raises because some bytes have not arrived, the next call continues."""
        while len(self._received) < count:
            chunk = os.read(self._descriptor, min(count - len(self._received), _MAX_READ))
            if not chunk:
                raise EOFError
            self._received += chunk
        whole, self._received = self._received, bytearray()
        return whole


def pipe_end(connection: Connection) -> WaitingEnd:
    """Return a `PipeEnd`, or a `WaitingEnd` on Windows."""
    return WaitingEnd(connection) if sys.platform == "win32" else PipeEnd(connection)


class WorkerPoll:
    """Waits for any of several workers. Each worker has a pipe, and a descriptor that becomes readable at its death.

    The descriptors are registered with the system once. `multiprocessing.connection.wait` is slower, because it
    registers them at every call.
    """

    def __init__(self) -> None:
        # Keys are descriptors. A value is the index of a worker and its pipe (None if the descriptor is not a pipe).
        self._owners: dict[int, tuple[int, Connection | None]] = {}
        self._poll = None if sys.platform == "win32" else select.poll()

    def add(self, index: int, channel: Connection, death: int) -> None:
        """Add a worker."""
        for descriptor, pipe in ((channel.fileno(), channel), (death, None)):
            self._owners[descriptor] = (index, pipe)
            if self._poll is not None:
                self._poll.register(descriptor, select.POLLIN)

    def remove(self, index: int) -> None:
        """Remove a worker. Its pipe and its descriptor must still be open."""
        for descriptor in [each for each, (owner, _) in self._owners.items() if owner == index]:
            del self._owners[descriptor]
            if self._poll is not None:
                self._poll.unregister(descriptor)

    def wait(self, timeout: float | None) -> Mapping[int, bool]:
        """Wait for a message or the death of any worker.

        Args:
            timeout: Maximum waiting time in seconds. None for no limit.

        Returns:
            A dict keyed by the worker's index: True if the pipe contains a message or is closed, False if the worker
            has died and its pipe contains no data.
        """
        if self._poll is not None:
            ready = [descriptor for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000)]
        else:
            ends = wait([pipe or descriptor for descriptor, (_, pipe) in self._owners.items()], timeout)
            ready = [end if isinstance(end, int) else end.fileno() for end in ends]
        readable: dict[int, bool] = {}
        for descriptor in ready:
            index, pipe = self._owners[descriptor]
            readable[index] = pipe is not None or readable.get(index, False)
        return readable


#: Maximum number of seconds that a countdown counts between two calls of `left`.
_MAX_INTERVAL = 1.0


class Countdown:
    """Remaining seconds until a time limit.

    At most one second is counted between two calls of `left`. So if the process is stopped (Ctrl-Z, a debugger) and
    resumed, the time between is not counted, because the processes that it waits for may have been stopped, too.

    Args:
        seconds: The time limit in seconds. None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else float(seconds)
        self._last_call = time.monotonic()

    def left(self) -> float:
        """Return the remaining seconds; 0 or negative after the time limit."""
        now = time.monotonic()
        self._left -= min(now - self._last_call, _MAX_INTERVAL)
        self._last_call = now
        return self._left
