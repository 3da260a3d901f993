"""Workers are watched: their errors come home, their deaths are seen at once, and none outlives its parent."""

import contextlib
import gc
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest
from bare_packages import PROLOGUE
from signal_parts import status_after_sigterm
from time_parts import PATIENCE, is_alive, wait_until

from pfrl_like.errors import WorkerError
from pfrl_like.processes import Failure, Finished, Portable, Workers, supervisor
from pfrl_like.processes.pipe_end import Countdown
from pfrl_like.processes.worker import REPORT_SIGNAL, end_groups

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module
pytestmark = pytest.mark.usefixtures("no_haste")

METHODS = multiprocessing.get_all_start_methods()
QUICK_METHODS = [method for method in METHODS if method != "spawn"]  # which imports everything for every worker
linux_only = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def is_running(pid):
    """Whether there is such a process; a zombie that waits for the system's first process does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def echo(channel, index, *arguments):
    """Answer each message with (index, arguments, message) until the pipe is closed."""
    while True:
        try:
            message = channel.recv()
        except EOFError:
            return
        channel.send((index, arguments, message))


@pytest.fixture
def start():
    """Starts workers, which are closed in the end."""
    started = []

    def start(target=echo, n=1, method="fork", **options):
        arguments = [(f"argument {i}",) if target is echo else () for i in range(n)]
        started.append(Workers(Portable(target), arguments, start_method=method, **options))
        return started[-1]

    yield start
    for workers in started:
        workers.close(hurry=True)


def test_default_start_method_starts_clean_processes(start):
    workers = start(method=None)
    workers.close()
    assert workers.start_method == ("forkserver" if "forkserver" in METHODS else "spawn")


def test_processes_are_named_daemons(start):
    workers = start(name="env")
    assert (workers.processes[0].name, workers.processes[0].daemon) == ("env-0", True)


def test_answers_come_in_the_order_asked_for(start):
    workers = start(n=3)
    for i in range(3):
        workers.send(i, i)
    assert [message for _, _, message in workers.receive([2, 0])] == [2, 0]
    assert [message for _, _, message in workers.receive([1])] == [1]


def test_answer_that_was_not_asked_for_is_kept(start):
    workers = start(n=2)
    workers.send(1, "early")
    assert workers._children[1].channel.connection.poll(PATIENCE)
    workers.send(0, "late")
    workers.receive([0])
    assert workers.wait(PATIENCE) == [(1, (1, ("argument 1",), "early"))]


def test_waiting_returns_nothing_after_its_time(start):
    workers = start()
    assert workers.wait(0.01) == []


def test_worker_that_does_not_answer_in_time_is_named(start):
    workers = start(n=2)
    workers.send(0, "only one is asked")
    with pytest.raises(WorkerError, match="worker 1 has not answered in time"):
        workers.receive([1, 0], timeout=0.1)


def hang(channel, index):
    channel.send("ready")
    while True:
        time.sleep(60)


def hang_without_listening(channel, index):
    """As a library does that computes without end, or whose code catches everything."""
    while True:
        with contextlib.suppress(BaseException):
            hang(channel, index)


@pytest.mark.parametrize("method", QUICK_METHODS)
def test_worker_that_hangs_says_where(start, method):
    workers = start(hang, method=method)
    workers.receive()
    with pytest.raises(WorkerError, match="worker 0 has not answered in time") as caught:
        workers.receive(timeout=0.1)
    assert wait_until(lambda: not workers.processes[0].is_alive())
    workers.close(hurry=True)
    assert "time.sleep" in caught.value.traceback_text
    assert "in hang" in caught.value.traceback_text


@pytest.mark.parametrize("method", QUICK_METHODS)
def test_worker_that_does_not_listen_leaves_its_stack(start, method, monkeypatch):
    workers = start(hang_without_listening, method=method)
    workers.receive()
    left = iter([PATIENCE])  # until it goes on, which it says
    monkeypatch.setattr(supervisor, "Countdown", lambda seconds: SimpleNamespace(left=lambda: next(left, 0.0)))
    stack = workers.end_hanging(0)
    assert wait_until(lambda: not workers.processes[0].is_alive())
    workers.close(hurry=True)
    assert "most recent call first" in stack
    assert "in hang" in stack


def test_a_process_that_was_stopped_has_not_waited(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("pfrl_like.processes.pipe_end.time.monotonic", lambda: now[0])
    countdown = Countdown(10)
    now[0] = 0.5
    assert countdown.left() == 9.5
    now[0] = 3600.0
    assert countdown.left() == 8.5
    assert Countdown(None).left() == float("inf")


def test_sigterm_is_left_to_the_parent_but_ends_what_a_worker_forks(start):
    def serve(channel, index):
        channel.send(status_after_sigterm(os.getpid()))

    workers = start(serve)
    assert workers.receive() == [-signal.SIGTERM]


@pytest.mark.representatives(1)
@pytest.mark.parametrize("method", METHODS)
def test_a_worker_that_has_failed_is_replaced(start, method):
    workers = start(n=2, method=method)
    os.kill(workers.processes[1].pid, signal.SIGKILL)
    workers.send(0, "first")
    with pytest.raises(WorkerError, match="worker 1 was killed"):
        workers.receive()
    workers.restart(1, ("another",))
    workers.send(1, "hello")
    assert workers.receive() == [(0, ("argument 0",), "first"), (1, ("another",), "hello")]
    pids = [process.pid for process in workers.processes]
    workers.close()
    assert [process.exitcode for process in workers.processes] == [0, 0]
    assert not any(is_alive(pid) for pid in pids)


def test_a_worker_that_hangs_is_replaced_and_its_descriptors_closed(start):
    workers = start(hang)
    workers.receive()
    gc.collect()  # which closes those of others
    descriptors = len(os.listdir("/dev/fd"))
    for _ in range(3):
        workers.restart(0, ())
        assert workers.receive() == ["ready"]
    assert len(os.listdir("/dev/fd")) == descriptors


class Mute(Exception):
    """Cannot be told."""

    def __str__(self):
        raise TypeError


def mute(channel, index):
    raise Mute


class Broken:
    """Cannot be unpacked."""

    def __reduce__(self):
        return (eval, ("1 / 0",))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (mute, "raised Mute"),
        (lambda channel, index: sys.exit(3), "raised SystemExit: 3"),
        (lambda channel, index: os._exit(3), r"exit code 3 without an error message \(for example os._exit\)"),
        (lambda channel, index: None, "had finished before it answered"),
        (Broken(), "raised ZeroDivisionError"),
    ],
    ids=["mute", "exit", "hard exit", "end", "broken"],
)
def test_end_of_a_worker_that_should_answer_is_an_error(start, target, words):
    workers = start(target, method=QUICK_METHODS[-1] if isinstance(target, Broken) else "fork")
    with pytest.raises(WorkerError, match=words):
        workers.receive()


def test_only_a_worker_that_never_answered_may_lack_a_main_guard(start):
    def exit_after(channel, index, n_messages):
        for _ in range(n_messages):
            channel.send("hello")
        channel.recv()
        os._exit(3)

    workers = Workers(Portable(exit_after), [(0,), (1,)], start_method=QUICK_METHODS[-1])
    assert workers.receive([1]) == ["hello"]
    reasons = []
    for index in range(2):
        workers.send(index, "exit")
        ((_, failure),) = workers.wait()
        reasons.append(failure.reason)
    workers.close()
    assert ["no main guard" in reason for reason in reasons] == [QUICK_METHODS[-1] != "fork", False]


def test_last_words_of_a_worker_come_before_its_end(start):
    def talk(channel, index):
        channel.send("one")
        channel.send("two")
        return "result"

    workers = start(talk)
    news = [workers.wait()[0] for _ in range(3)]
    assert news == [(0, "one"), (0, "two"), (0, Finished("result"))]
    assert workers.running == frozenset()
    assert workers.wait() == []
    for call in (workers.receive, lambda: workers.send(0, "hello")):
        with pytest.raises(WorkerError, match="had ended before"):
            call()


def test_death_of_another_worker_is_seen_while_one_is_waited_for(start):
    workers = start(n=2)
    os.kill(workers.processes[1].pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="worker 1 was killed by signal 9"):
        workers.receive([0], timeout=PATIENCE)


def test_result_that_cannot_be_sent_is_a_failure(start):
    workers = start(lambda channel, index: lambda: None)
    [(_, news)] = workers.wait()
    assert isinstance(news, Failure)
    assert "pickle" in news.reason


def test_worker_that_does_not_listen_is_forced(start, monkeypatch):
    monkeypatch.setattr(supervisor, "PATIENCE", (0.1, 0.1))

    def ignore_everything(channel, index):
        signal.signal(REPORT_SIGNAL, signal.SIG_IGN)
        channel.send("ready")
        while True:
            time.sleep(1)

    workers = start(ignore_everything)
    workers.receive()
    pid = workers.processes[0].pid
    workers.close()
    workers.close()
    assert not is_alive(pid)


def test_dropped_workers_end():
    workers = Workers(Portable(echo), [(), ()], start_method="fork")
    pids = [process.pid for process in workers.processes]
    del workers
    assert wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_forked_copy_of_the_parent_does_not_end_the_workers(start):
    workers = start()
    child = os.fork()
    if child == 0:
        workers.close()
        os._exit(0)
    os.waitpid(child, 0)
    workers.send(0, "still there?")
    assert workers.receive()[0][2] == "still there?"


SCRIPT = """
import multiprocessing, os, signal, sys, time
multiprocessing.set_forkserver_preload(["types"])
{prologue}
from pfrl_like.processes import Portable, Workers
{before}
def sleep(channel, index):
    {first}
    while True:
        time.sleep(1)
if __name__ == "__main__" or {unguarded}:
    workers = Workers(Portable(sleep), [(), ()], start_method={method!r})
    print(*workers.receive(), flush=True)
    {after}
"""


TELL = "channel.send(os.getpid())"
IMPATIENT = "from pfrl_like.processes import supervisor; supervisor.PATIENCE = (0.1, 1)"


def start_script(tmp_path, after, method="fork", before="", unguarded=False, first=TELL):
    path = tmp_path / "script.py"
    parts = {"after": after, "method": method, "before": before, "unguarded": unguarded, "first": first}
    path.write_text(SCRIPT.format(prologue=PROLOGUE, **parts))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, str(path)], start_new_session=True, **pipes)


def worker_pids(script):
    return [int(pid) for pid in script.stdout.readline().split()]


# Sleep in C code, which lets no other thread run.
IN_C = "import ctypes; time.sleep = lambda seconds: ctypes.PyDLL(None).sleep(6000)"


#: Starts a program, too, and tells both numbers.
WITH_A_PROGRAM = """
import subprocess, threading
def send(channel):
    channel.send(f'{os.getpid()} {subprocess.Popen(["sleep", "6000"]).pid}')
"""


@pytest.mark.representatives(1)
@linux_only
@pytest.mark.parametrize(
    ("before", "first", "n"),
    [("", TELL, 2), (IN_C, TELL, 2), (WITH_A_PROGRAM, "send(channel)", 4)],
    ids=["in Python", "in C", "with a program"],
)
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_and_their_programs_die_with_a_killed_parent(tmp_path, method, before, first, n):
    script = start_script(tmp_path, "time.sleep(6000)", method, before, first=first)
    pids = worker_pids(script)
    script.kill()
    script.wait()
    script.stdout.close()
    script.stderr.close()
    assert len(pids) == n
    assert wait_until(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.representatives(1)
@linux_only
@pytest.mark.parametrize("after", ["", "raise ValueError('in the parent')", "sys.exit(0)"])
def test_workers_end_with_a_parent_that_does_not_close_them(tmp_path, after):
    script = start_script(tmp_path, after, before=IMPATIENT)
    pids = worker_pids(script)
    script.communicate(timeout=PATIENCE)
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.representatives(1)
@linux_only
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_reaches_only_the_parent(tmp_path, method):
    script = start_script(tmp_path, "workers.receive()", method, IMPATIENT)
    pids = worker_pids(script)
    os.killpg(script.pid, signal.SIGINT)  # as a terminal does, to all processes in the foreground
    _, errors = script.communicate(timeout=PATIENCE)
    assert not any(is_alive(pid) for pid in pids)
    assert errors.count("KeyboardInterrupt") == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_script_without_a_main_guard_is_told_what_to_do(tmp_path, method):
    script = start_script(tmp_path, "workers.close()", method, unguarded=True)
    _, errors = script.communicate(timeout=PATIENCE)
    assert script.returncode != 0
    last_line = errors.strip().splitlines()[-1]
    assert 'start_method="fork"' in last_line
    assert "__main__" in last_line


#: The system call that ends one thread.
EXIT_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}


def start_programs(channel, index):
    """Start a program that outlives an error and SIGTERM, another one that does not, and tell their numbers."""
    commands = (["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], ["sh", "-c", "echo; exec sleep 6000"])
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    for program in programs:
        program.stdout.readline()
    channel.send([program.pid for program in programs])
    if channel.recv() == "fail":
        raise ValueError("as told")


@pytest.mark.representatives(2)
@linux_only
@pytest.mark.parametrize("end", ["close", "fail", "kill", "restart"])
def test_programs_that_a_worker_starts_end_with_it(start, end, monkeypatch):
    monkeypatch.setattr(supervisor, "PATIENCE", (PATIENCE, 0.1))
    monkeypatch.setattr(supervisor, "HURRY", (0.1, 0.1))
    workers = start(start_programs)
    (pids,) = workers.receive()
    assert all(is_running(pid) for pid in pids)
    if end == "restart":
        workers.restart(0, ())
        assert wait_until(lambda: not any(is_running(pid) for pid in pids))
        (pids,) = workers.receive()
    elif end == "kill":
        workers.processes[0].kill()
    elif end == "fail":
        workers.send(0, "fail")
        with pytest.raises(WorkerError, match="as told"):
            workers.receive()
    workers.close()
    assert wait_until(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.slow
@linux_only
@pytest.mark.skipif(platform.machine() not in EXIT_OF_A_THREAD, reason="the number of the system call is not known")
def test_workers_and_their_programs_outlive_the_thread_that_started_them_and_not_the_process(tmp_path):
    after = f"""
threading.Thread(target=time.sleep, args=(6000,)).start()
import ctypes
ctypes.CDLL(None).syscall({EXIT_OF_A_THREAD[platform.machine()]}, 0)
"""
    script = start_script(tmp_path, after, before=WITH_A_PROGRAM, first="send(channel)")
    pids = worker_pids(script)
    assert wait_until(lambda: "Z" in Path(f"/proc/{script.pid}/task/{script.pid}/stat").read_text().split()[2])
    time.sleep(0.1)
    assert all(is_running(pid) for pid in pids)
    script.kill()
    assert wait_until(lambda: not any(is_running(pid) for pid in pids))
    script.communicate()


@linux_only
def test_no_group_of_others_is_ended(monkeypatch):
    monkeypatch.setattr(os, "killpg", None)
    end_groups([(0, 0), (os.getppid(), -2)], 0.0)  # a number that is none, and one that another process has by now


def start_workers(results):
    try:
        Workers(Portable(echo), [()], start_method="fork")
    except RuntimeError as error:
        results.send(str(error))


def test_a_daemonic_process_is_told_what_to_do():
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=start_workers, args=(writer,), daemon=True)
    process.start()
    assert "this process is daemonic and may not have children. Use SerialVectorEnv" in reader.recv()
    process.join()
