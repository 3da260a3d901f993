"""Messages that do not go through a pipe at once come whole, and nobody waits for who has stopped in the middle."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import pytest
from pipe_parts import views_of
from time_parts import PATIENCE, wait_until

from pfrl_like.errors import WorkerError
from pfrl_like.processes import Portable, Workers, pipe_end, supervisor
from pfrl_like.processes.pipe_end import UNFINISHED, PipeEnd, WaitingEnd

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module
pytestmark = pytest.mark.usefixtures("no_haste")

#: More than any pipe holds.
LARGE = bytes(range(256)) * 40_000
METHODS = [method for method in multiprocessing.get_all_start_methods() if method != "spawn"]


@pytest.fixture
def ends() -> Iterator[tuple[PipeEnd, Connection]]:
    """The parent's end and a worker's."""
    parent, worker = multiprocessing.Pipe()
    yield PipeEnd(parent), worker
    parent.close()
    worker.close()


def packed(message: Any, limit: int = 0x7FFFFFFF) -> bytes:
    """A message as it goes through the pipe."""
    data = pickle.dumps(message)
    length = struct.pack("!i", len(data)) if len(data) <= limit else struct.pack("!iQ", -1, len(data))
    return length + data


@pytest.mark.parametrize("limit", [0x7FFFFFFF, 0])
def test_message_that_comes_in_parts_comes_whole(ends: tuple[PipeEnd, Connection], limit: int) -> None:
    parent, worker = ends
    message = {"a": 1}
    data = packed(message, limit)
    for cut in range(len(data)):
        os.write(worker.fileno(), data[:cut])
        assert parent.recv() is UNFINISHED
        os.write(worker.fileno(), data[cut:] + data[:2])
        assert parent.recv() == message
        assert parent.recv() is UNFINISHED
        os.write(worker.fileno(), data[2:])
        assert parent.recv() == message


@pytest.mark.parametrize("limit", [0x7FFFFFFF, 0])
def test_message_that_goes_in_parts_arrives_whole(
    ends: tuple[PipeEnd, Connection], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe_end, "_MAX_SHORT_LENGTH", limit)
    parent, worker = ends
    assert parent.send("small")
    assert not parent.send(LARGE)
    assert not parent.flush()
    with ThreadPoolExecutor(1) as pool:
        came = pool.submit(lambda: [worker.recv(), worker.recv()])
        assert wait_until(parent.flush)
        assert came.result(PATIENCE) == ["small", LARGE]


def test_end_in_the_middle_of_a_message_is_an_end(ends: tuple[PipeEnd, Connection]) -> None:
    parent, worker = ends
    os.write(worker.fileno(), packed("hello")[:-1])
    assert parent.recv() is UNFINISHED
    worker.close()
    with pytest.raises(EOFError):
        parent.recv()


def test_closed_end_reads_and_writes_no_other_file(ends: tuple[PipeEnd, Connection]) -> None:
    parent, _ = ends
    number = parent.connection.fileno()
    parent.close()
    other, further = os.pipe()
    try:
        assert number in (other, further)
        for call in (parent.recv, lambda: parent.send("hello")):
            with pytest.raises(OSError, match="Bad file descriptor"):
                call()
    finally:
        os.close(other)
        os.close(further)


def echo(channel: Any, index: int) -> None:
    with contextlib.suppress(EOFError):
        while True:
            channel.send(channel.recv())


@contextlib.contextmanager
def running(target: Callable[..., Any], method: str = "fork") -> Iterator[Workers]:
    workers = Workers(Portable(target), [()], start_method=method)
    try:
        yield workers
    finally:
        workers.close(hurry=True)


@pytest.mark.parametrize("kind", [PipeEnd, WaitingEnd])
@pytest.mark.parametrize("method", METHODS)
def test_large_messages_go_there_and_back(method: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "pipe_end", kind)
    with running(echo, method) as workers:
        for message in (LARGE, "small", LARGE):
            workers.send(0, message, PATIENCE)
            assert workers.receive(timeout=PATIENCE) == [message]


def stop(workers: Workers) -> None:
    """As Ctrl-Z does, or a machine that is short of memory."""
    os.kill(workers.processes[0].pid or 0, signal.SIGSTOP)


@pytest.mark.usefixtures("few_words")
def test_worker_that_is_stopped_takes_no_message_in_time() -> None:
    with running(echo) as workers:
        stop(workers)
        with pytest.raises(WorkerError, match="worker 0 has not answered in time"):
            workers.send(0, LARGE, timeout=0.1)
        assert wait_until(lambda: not workers.processes[0].is_alive())


def say_much(channel: Any, index: int) -> None:
    channel.send(LARGE)


@pytest.mark.usefixtures("few_words")
def test_worker_that_is_stopped_in_the_middle_of_its_answer_is_late() -> None:
    with running(say_much) as workers:
        assert workers._children[0].channel.connection.poll(PATIENCE)
        stop(workers)
        assert workers.wait(PATIENCE) == []
        with pytest.raises(WorkerError, match="worker 0 has not answered in time"):
            workers.receive(timeout=0.1)


def leave_a_child(channel: Any, index: int) -> None:
    child = os.fork()
    if child == 0:
        time.sleep(10 * PATIENCE)  # outlives its parent, with its pipe
        os._exit(0)
    channel.send(child)
    channel.send(LARGE)


@pytest.mark.parametrize("ask", [lambda workers: workers.receive(), lambda workers: workers.send(0, LARGE)])
def test_death_in_the_middle_of_a_message_is_seen_though_another_process_holds_the_pipe(ask: Any) -> None:
    with running(leave_a_child) as workers:
        (child,) = workers.receive()
        try:
            assert workers._children[0].channel.connection.poll(PATIENCE)
            workers.processes[0].kill()
            with pytest.raises(WorkerError, match="worker 0 was killed by signal 9"):
                ask(workers)
        finally:
            os.kill(child, signal.SIGKILL)


def test_worker_that_hangs_instead_of_listening_says_where() -> None:
    def hang(channel: Any, index: int) -> None:
        channel.send("ready")
        time.sleep(10 * PATIENCE)

    with running(hang) as workers:
        workers.receive()
        with pytest.raises(WorkerError, match="has not answered in time") as caught:
            workers.send(0, LARGE, timeout=0.1)
    assert "in hang" in caught.value.traceback_text


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is told of errors that nobody can catch."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: told.append(args.exc_value))
    return told


@pytest.mark.slow
def test_errors_of_sends_to_a_dead_worker_may_be_kept_and_collected(unraisable: list[Any]) -> None:
    with running(echo) as workers:
        workers.processes[0].kill()
        workers.processes[0].join(PATIENCE)
        with pytest.raises(WorkerError, match="worker 0 was killed by signal 9") as caught:
            workers.send(0, "hello")
    failed = caught.value.__context__
    assert isinstance(failed, OSError) and views_of(failed) <= {"bytes"}
    failed.args = (failed,)
    del caught, failed
    gc.collect()
    assert unraisable == []


class Unsendable:
    def __reduce__(self) -> Any:
        raise OSError("no such device")


def local_object() -> Any:
    return lambda: 0


@pytest.mark.parametrize("message", [local_object(), Unsendable()], ids=["lambda", "OSError"])
def test_message_that_cannot_be_pickled_is_refused_and_the_worker_goes_on(message: Any) -> None:
    with running(echo) as workers:
        with pytest.raises(pickle.PicklingError, match="message cannot be pickled: .*(local object|no such device)"):
            workers.send(0, ["something", message])
        workers.send(0, "hello")
        assert workers.receive(timeout=PATIENCE) == ["hello"]
