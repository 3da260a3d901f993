"""How worker processes are started."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from typing import Any

from pfrl_like.processes.worker import run_worker

GUARD_HINT = (
    'put the part of the script that starts workers under `if __name__ == "__main__":`, or pass start_method="fork"'
)
#: What to do in a daemonic process.
DAEMON_HINT = (
    "worker processes cannot be started here: this process is daemonic, and may have no children. Use SerialVectorEnv "
    "in it, in the place of MultiprocessVectorEnv, or start it with daemon=False"
)


def context_of(start_method: str | None, target: Callable[..., Any]) -> Any:
    """The context of a start method that can start workers from here; None is the best one.

    Raises:
        ValueError: If there is none of this name.
        RuntimeError: If this process can start none.
    """
    start_method = chosen_method(start_method)
    if multiprocessing.current_process().daemon:
        raise RuntimeError(DAEMON_HINT)
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"this script starts worker processes while a worker is importing it; {GUARD_HINT}")
    context = multiprocessing.get_context(start_method)
    if start_method == "forkserver":
        _preload_fork_server(target)
    return context


def chosen_method(start_method: str | None) -> str:
    """The name of a start method; None is the best one.

    Raises:
        ValueError: If there is none of this name.
    """
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        return "forkserver" if "forkserver" in available else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method is {start_method!r}, expected one of {available}")
    return start_method


def _preload_fork_server(target: Callable[..., Any]) -> None:
    """Have the fork server import what its workers need, once for all, unless the user has chosen what it imports."""
    from multiprocessing import forkserver

    server = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_preload_modules", None) == ["__main__"]:
        modules = {run_worker.__module__, getattr(target, "__module__", run_worker.__module__)}
        forkserver.set_forkserver_preload(["__main__", *sorted(modules)])
    forkserver.ensure_running()  # now and not while Ctrl-C is held back, which all its children would inherit


@contextlib.contextmanager
def interrupt_blocked() -> Iterator[None]:
    """Hold back Ctrl-C, so that a starting child inherits the block and does not die of it with a long traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
