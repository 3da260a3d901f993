"""A copy of the package and its tests in a temporary folder, for scripts that put mistakes into it."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def package_copy() -> Iterator[Path]:
    """A temporary folder that contains `pfrl_like`, `tests` and `pyproject.toml`, removed at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = Path(folder)
        for name in ("pfrl_like", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        yield copy


def start_pytest(
    copy: Path, *arguments: str, environ: dict[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start pytest in a copy, on one thread; it names the tests that fail.

    Args:
        copy: Folder of `package_copy`.
        arguments: Of pytest, after the common ones.
        environ: More variables of its environment.
        options: Of `subprocess.Popen`.
    """
    environ = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", **(environ or {})}
    command = [sys.executable, "-m", "pytest", "--tb=no", "-rfE", "-p", "no:cacheprovider", *arguments]
    return subprocess.Popen(command, cwd=copy, env=environ, text=True, **options)


def failed_in(output: str) -> list[str]:
    """The tests, or files that could not be collected, that an output of pytest names as failed."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return [line.split(" ", 1)[1].split(" - ")[0] for line in lines]
