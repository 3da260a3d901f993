"""Python programs in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path


def output_of(*words: str, folder: Path, path: str | None = None, timeout: float | None = None) -> str:
    """The output of a program that ends without an error.

    Args:
        words: The words after `python`.
        folder: The current directory of the program.
        path: Folders of the modules that it can import; None for those of this process.
        timeout: Seconds that it may take.
    """
    path = os.pathsep.join(filter(None, sys.path)) if path is None else path
    options = {"env": {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, "cwd": folder, "timeout": timeout}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, **options)  # type: ignore
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)
