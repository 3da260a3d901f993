"""Modules and functions of the lab that run in a process of their own."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def forked(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a forked process, which has all modules and need not import them for seconds."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(function(*arguments)))
    child.start()
    writer.close()
    result = reader.recv()  # EOFError if the function has failed
    child.join()
    return result


def finished(module: str, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """The process in which a module has run to its end, without an error."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"lab.{module}", *arguments], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, timeout=timeout, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return child
