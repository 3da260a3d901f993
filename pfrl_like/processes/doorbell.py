"""`Doorbell`: waits until a worker has sent something or died."""

import select
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait


class Doorbell:
    """Waits for any of several workers, each with a pipe and a descriptor that becomes readable when it dies.

    The list of descriptors is handed to the system once and not at every call, as `multiprocessing.connection.wait`
    does; a step of eight environments waits up to eight times.
    """

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, bool]] = {}  # descriptor: worker, whether it is the pipe
        self._channels: dict[int, Connection] = {}
        self._deaths: dict[int, int] = {}
        self._poll = None if sys.platform == "win32" else select.poll()

    def add(self, index: int, channel: Connection, death: int) -> None:
        """Listen to one more worker."""
        self._channels[index], self._deaths[index] = channel, death
        for descriptor, is_pipe in ((channel.fileno(), True), (death, False)):
            self._owners[descriptor] = (index, is_pipe)
            if self._poll is not None:
                self._poll.register(descriptor, select.POLLIN)

    def remove(self, index: int) -> None:
        """Listen to a worker no longer; its pipe and descriptor are still open."""
        for descriptor in (self._channels.pop(index).fileno(), self._deaths.pop(index)):
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
        rung: dict[int, bool] = {}
        for descriptor in self._readable(timeout):
            index, is_pipe = self._owners[descriptor]
            rung[index] = is_pipe or rung.get(index, False)
        return rung

    def _readable(self, timeout: float | None) -> list[int]:
        if self._poll is not None:
            return [descriptor for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000)]
        ready = wait([*self._channels.values(), *self._deaths.values()], timeout)
        return [item if isinstance(item, int) else item.fileno() for item in ready]
