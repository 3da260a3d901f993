"""The ends of a pipe, and waiting at them: for a message, for a worker's death, for a time limit."""

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

#: Comes in the place of a message of which a part has yet to come.
UNFINISHED = object()

# What stands before a message: its length, or -1 and a longer number.
_LENGTH, _LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")
_LONGEST = 0x7FFFFFFF

# Bytes that are read at once.
_MOST = 1 << 20


def pickled(message: Any) -> bytes:
    """A message as `Connection.recv` expects it.

    `ForkingPickler.dumps` and `Connection.send` make a view of a `BytesIO` instead. If the write fails, the traceback
    keeps it, and collecting that ends Python 3.12 with a segmentation fault.

    Raises:
        pickle.PicklingError: If it cannot be pickled. Python itself raises errors of several types, also OSError, which
            here tells of the pipe.
    """
    buffer = io.BytesIO()
    try:
        ForkingPickler(buffer).dump(message)
    except Exception as error:
        raise pickle.PicklingError(f"message cannot be pickled: {type(error).__name__}: {error}") from error
    return buffer.getvalue()


def send(connection: Any, message: Any) -> None:
    """Do what `connection.send(message)` does, but leave no view behind if that fails; see `pickled`.

    Args:
        connection: A `Connection`, or an end of a user's own that has only `send`.
        message: What can be pickled.
    """
    if hasattr(connection, "send_bytes"):
        connection.send_bytes(pickled(message))
    else:
        connection.send(message)


class WaitingEnd:
    """An end that waits until the other has taken or sent all of a message.

    Args:
        connection: The end.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Any) -> bool:
        """Send a message, or as much of it as the other end takes now; returns whether that is all."""
        send(self.connection, message)
        return True

    def flush(self) -> bool:
        """Send more of what `send` has left; returns whether that is all."""
        return True

    def recv(self) -> Any:
        """The next message, or `UNFINISHED`."""
        return self.connection.recv()

    def close(self) -> None:
        """Close it."""
        self.connection.close()


class PipeEnd(WaitingEnd):
    """An end that never waits.

    The worker's end is a `Connection`, whose form the messages have; processes with different versions of Python
    speak to each other in it.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._descriptor = connection.fileno()
        os.set_blocking(self._descriptor, False)
        self._unsent = memoryview(b"")
        self._size = 0  # of the message that comes, once its length has come
        self._came = bytearray()  # of what comes, until it is whole

    def send(self, message: Any) -> bool:
        """As that of `WaitingEnd`."""
        packed = pickled(message)
        size = len(packed)
        length = _LENGTH.pack(size) if size <= _LONGEST else _LENGTH.pack(-1) + _LONG_LENGTH.pack(size)
        self._unsent = memoryview(length + packed)
        return self.flush()

    def flush(self) -> bool:
        """As that of `WaitingEnd`."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._descriptor, self._unsent) :]
        except BlockingIOError:
            return False
        return True

    def recv(self) -> Any:
        """As that of `WaitingEnd`."""
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
        """As that of `WaitingEnd`."""
        self._descriptor = -1  # the number may soon be another file's
        super().close()

    def _bytes(self, count: int) -> bytearray:
        """So many, or an error if they have not all come; what has come is kept."""
        while len(self._came) < count:
            chunk = os.read(self._descriptor, min(count - len(self._came), _MOST))
            if not chunk:
                raise EOFError
            self._came += chunk
        whole, self._came = self._came, bytearray()
        return whole


def pipe_end(connection: Connection) -> WaitingEnd:
    """The end that does what can be done on this system."""
    return WaitingEnd(connection) if sys.platform == "win32" else PipeEnd(connection)


class Doorbell:
    """Waits for any of several workers, each with a pipe and a descriptor that becomes readable when it dies.

    The list of descriptors is handed to the system once and not at every call, as `multiprocessing.connection.wait`
    does; a step of eight environments waits up to eight times.
    """

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, Connection | None]] = {}  # descriptor: worker, the pipe if it is that one
        self._poll = None if sys.platform == "win32" else select.poll()

    def add(self, index: int, channel: Connection, death: int) -> None:
        """Listen to one more worker."""
        for descriptor, pipe in ((channel.fileno(), channel), (death, None)):
            self._owners[descriptor] = (index, pipe)
            if self._poll is not None:
                self._poll.register(descriptor, select.POLLIN)

    def remove(self, index: int) -> None:
        """Listen to a worker no longer; its pipe and descriptor are still open."""
        for descriptor in [each for each, (owner, _) in self._owners.items() if owner == index]:
            del self._owners[descriptor]
            if self._poll is not None:
                self._poll.unregister(descriptor)

    def wait(self, timeout: float | None) -> Mapping[int, bool]:
        """Wait for the first to ring.

        Args:
            timeout: Seconds; None is for ever.

        Returns:
            Those that have rung, with True if there is something (a message or its end) to be read from the pipe, and
            False if the worker has died though its pipe is silent.
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


#: Seconds that pass at most between two looks at a countdown by a process that runs.
_LONGEST_WAIT = 1.0


class Countdown:
    """Seconds that are left.

    A process that was stopped (Ctrl-Z, a debugger) and goes on finds that it has waited for others, which were
    stopped, too: of the time between two looks a second counts at most.

    Args:
        seconds: The limit; None is for ever.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else float(seconds)
        self._seen = time.monotonic()

    def left(self) -> float:
        """How many there are; none, or fewer, if the time is over."""
        now = time.monotonic()
        self._left -= min(now - self._seen, _LONGEST_WAIT)
        self._seen = now
        return self._left
