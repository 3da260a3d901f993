"""The poller of an agent whose actors are other processes: a thread that takes in what they send."""

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from typing import Any

from pfrl_like.distributed.actor import LISTENING
from pfrl_like.distributed.agent_proxy import AgentProxy, FairLock
from pfrl_like.distributed.learner import FailureEvent, Learner
from pfrl_like.processes import SharedArrays, send

#: Seconds that the poller, asked to stop, goes on listening to actors that have not hung up.
GRACE = 2.0


class Poller:
    """Body of the poller's thread: stores what the actors send, and does what they ask for.

    Args:
        representative: The agent.
        lock: What keeps the learner from it meanwhile.
        server: Where actors connect.
        key: What they have to know.
        learner: Told of news.
        stop_event: Ends the thread, once all actors have hung up or some seconds have passed.
        failure: Told of errors.
        counts: Arrays shared with the actors; LISTENING is set while the poller listens.
        release: Called at the end.
    """

    def __init__(
        self,
        representative: AgentProxy,
        lock: FairLock,
        server: socket.socket,
        key: bytes,
        learner: Learner,
        stop_event: threading.Event,
        failure: FailureEvent,
        counts: SharedArrays,
        release: Callable[[], Any],
    ) -> None:
        self.representative, self.lock, self.server, self.key = representative, lock, server, key
        self.learner, self.stop_event, self.failure = learner, stop_event, failure
        self.counts, self.release = counts, release
        self.actors: dict[Connection, int] = {}
        self.had_actors = False

    def run(self) -> None:
        """Listen until asked to stop; after an error, until the last actor has gone."""
        try:
            self.counts.arrays[LISTENING][0] = 1
            asked_at: float | None = None
            while True:
                if self._is_over and asked_at is None:
                    asked_at = time.monotonic()
                if asked_at is not None and (not self.actors or time.monotonic() > asked_at + GRACE):
                    return
                for source in wait([self.server, *self.actors], timeout=0.05):
                    if source is self.server:
                        self._welcome()
                    elif isinstance(source, Connection):
                        self._read(source)
        except BaseException as error:
            self.failure.fail(error)
        finally:
            self.counts.arrays[LISTENING][0] = 0
            for channel in self.actors:
                channel.close()
            self.server.close()
            self.release()

    @property
    def _is_over(self) -> bool:
        return self.stop_event.is_set() or (self.failure.is_set() and self.had_actors and not self.actors)

    def _welcome(self) -> None:
        channel = Connection(self.server.accept()[0].detach())
        try:
            deliver_challenge(channel, self.key)
            answer_challenge(channel, self.key)
            self.actors[channel] = channel.recv()
            self.had_actors = True
        except (OSError, EOFError):  # it died, or was no actor
            channel.close()

    def _read(self, channel: Connection) -> None:
        index = self.actors[channel]
        try:
            kind, content = channel.recv()
        except (OSError, EOFError):  # it has hung up, or died, perhaps in the middle of a message
            del self.actors[channel]
            channel.close()
            with self.lock:
                self.representative.agent.replay_buffer.stop_current_episode(index)
            return
        if kind == "rows":
            with self.lock:
                if not self.representative.over.is_set():
                    self._store(index, content)
        elif kind == "stop_episode":
            with self.lock:
                self.representative.agent.replay_buffer.stop_current_episode(index)
        else:
            send(channel, self._answer(kind, content))
        self.learner.news.set()

    def _store(self, index: int, columns: Any) -> None:
        agent = self.representative.agent
        for obs, action, reward, next_obs, terminated, truncated, extra in zip(*columns, strict=True):
            further = {name: [value] for name, value in extra.items()}
            agent.replay_buffer.append_batch(
                [obs], [action], [reward], [next_obs], [terminated], [truncated], [index], **further
            )
            agent.count_step()
            self.learner.pace.step()

    def _answer(self, kind: str, content: Any) -> tuple[bool, Any]:
        if kind == "hang_up":
            return True, None
        try:
            method = getattr(self.representative, kind)
            return True, method() if content is None else method(content)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"


def listen(n_actors: int) -> tuple[socket.socket, str | bytes, Callable[[], Any]]:
    """A socket, its address, and what removes the address, at the latest at exit.

    On Linux the address is a name that ends with the process, however it ends; elsewhere a file in a folder of its own.
    """
    server = socket.socket(socket.AF_UNIX)
    if sys.platform == "linux":
        server.bind(b"")  # the kernel finds a free name
        remove: Callable[[], Any] = _nothing_to_remove
    else:
        folder = tempfile.mkdtemp(prefix="pl_")
        remove = weakref.finalize(server, _remove_folder, folder, os.getpid())
        server.bind(os.path.join(folder, "actors"))
    server.listen(n_actors)
    return server, server.getsockname(), remove


def _nothing_to_remove() -> None:
    """The address is in no file system."""


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked copy
        shutil.rmtree(folder, ignore_errors=True)
