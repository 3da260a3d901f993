"""Processes that train one seed each: on this machine, or on the nodes of Ray. This module imports nothing heavy."""

import argparse
import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

#: Maximum number of times that a process is started. It is started again if it, its actor or its node is lost.
_MAX_STARTS = 4
#: Environment variables that a process gets from this process. All others are those of the node.
_SENT_VARIABLES = ("PYTHONSAFEPATH",)


@contextlib.contextmanager
def child_process(
    argv: Sequence[str], folder: str | None = None, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator["subprocess.Popen[str]"]:
    """Start a command of `python -m pfrl_like`. Wait for its end at the end of the context.

    Its standard input is a pipe. On Linux, the kernel kills the process when this process is killed, and its end of the
    pipe closes.

    Args:
        argv: Arguments of the command.
        folder: Current directory of the process. None for that of this process.
        variables: Environment variables that replace those of this process.

    Yields:
        The process, whose `stdout` also has what it prints to stderr.
    """
    command = [sys.executable, "-m", "pfrl_like", *argv]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with contextlib.ExitStack() as stack:
        reading, writing = os.pipe()
        stack.callback(os.close, writing)
        with open(reading, "rb") as lifeline:
            process = stack.enter_context(subprocess.Popen(command, env=environ, cwd=folder, stdin=lifeline, **pipes))
            if sys.platform == "linux":
                import fcntl

                fcntl.fcntl(lifeline, fcntl.F_SETOWN, process.pid)
                fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        yield process


@contextlib.contextmanager
def ray_processes(address: str | None, cpus: float) -> Iterator[Callable[[Sequence[str]], "RayProcess"]]:
    """Connect to Ray, or start a private Ray on this machine. At the end, disconnect, and end all processes.

    Args:
        address: Address of a cluster; see `ray_session`.
        cpus: Number of CPUs that Ray reserves for each process. It may be a fraction.

    Yields:
        Function that starts a command of `python -m pfrl_like` on a node, in a folder with the path of this folder.

    Raises:
        argparse.ArgumentError: If this machine has fewer CPUs, and a private Ray was started.
        MissingDependencyError: If Ray is not installed.
        ConnectionError: If no cluster answers at `address`.
    """
    from pfrl_like.experiments.cluster.ray_session import ray_session  # imports torch

    with ray_session(address, purpose="the option --on ray") as (ray, is_private):
        if is_private and cpus > (most := ray.cluster_resources().get("CPU", 0)):
            raise argparse.ArgumentError(None, f"argument --cpus: got {cpus:g}, but this machine has {most:g} CPUs")
        variables = {name: os.environ[name] for name in _SENT_VARIABLES if name in os.environ}
        options = {"num_cpus": cpus, "max_restarts": 0, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}
        make_actor = ray.remote(_ProcessActor).options(**options).remote
        yield lambda argv: RayProcess(ray, functools.partial(make_actor, argv, os.getcwd(), variables))


class _ProcessActor:
    """Actor that starts a process on its node. The kernel kills the process when the actor ends.

    Args:
        argv: Arguments of `python -m pfrl_like`.
        folder: Current directory of the process.
        variables: Environment variables that the process gets in addition to those of the node.
    """

    def __init__(self, argv: Sequence[str], folder: str, variables: Mapping[str, str]) -> None:
        self._start = functools.partial(child_process, argv, folder, variables)

    def output(self) -> Iterator[str | int]:
        """Start the process. Yield an empty text, each line of the output when it is printed, and the exit status."""
        with self._start() as self._child:
            yield ""
            yield from (line for line in self._child.stdout or ())  # Ray calls `send`, which a file does not have
        yield self._child.returncode

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self._child.terminate()


class RayProcess(contextlib.AbstractContextManager["RayProcess"]):
    """A process on a node of Ray, with the part of the interface of `subprocess.Popen` that seeds need.

    Args:
        ray: The module `ray`, with a connection.
        make_actor: Function that makes a `_ProcessActor`. It is called again if the process or the actor is lost.

    Attributes:
        stdout: Lines of the output. The lines of all starts follow each other.
        returncode: Exit status. None before the last line was read, or if the process was ended before it started. 1 if
            it could not be started, or was lost too often; the last line is the reason.
    """

    def __init__(self, ray: Any, make_actor: Callable[[], Any]) -> None:
        self._ray, self._make_actor, self._actor = ray, make_actor, make_actor()
        self._is_started = self._is_ended = False
        self.returncode: int | None = None
        self.stdout = self._lines()

    def __exit__(self, *_: object) -> None:
        """End the actor, and with it a process that still runs."""
        self._ray.kill(self._actor)

    def terminate(self) -> None:
        """Send SIGTERM to the process. If it is not started yet, or was lost, it will not be started."""
        self._is_ended = True
        if self._is_started:
            self._actor.terminate.remote()
        else:
            self._ray.kill(self._actor)

    def _lines(self) -> Iterator[str]:
        """Yield the lines of all starts. Start the process again if it is lost."""
        errors, reason = self._ray.exceptions, ""
        for n_lost in range(_MAX_STARTS):
            if n_lost > 0:
                self._actor = self._make_actor()
            if self._is_ended:  # read after the assignment, so that `terminate` ends each actor
                return
            if n_lost > 0:
                yield f"lost, and started again: {reason}\n"
            try:
                yield from self._output()
                if self.returncode is None or self.returncode >= 0 or self._is_ended:
                    return
                reason = f"a signal has killed the process ({self.returncode})"
            except errors.RayTaskError as error:  # the node cannot start the process
                self.returncode = 1
                yield f"{error.cause}\n"
                return
            except errors.RayError as error:
                reason = " ".join(str(error).split())
            self._is_started, self.returncode = False, None
        self.returncode = 1
        yield f"lost {_MAX_STARTS} times: {reason}\n"

    def _output(self) -> Iterator[str]:
        """Yield the lines of one start, and set the exit status."""
        for ref in self._actor.output.options(num_returns="streaming").remote():
            item = self._ray.get(ref)
            self._is_started = True
            if isinstance(item, int):
                self.returncode = item
            elif item:
                yield item
