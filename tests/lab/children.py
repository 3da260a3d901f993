"""Modules of the lab that run in a process of their own."""

import os
import subprocess
import sys


def finished(module: str, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """The process in which a module has run to its end, without an error."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"lab.{module}", *arguments], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, timeout=timeout, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return child
