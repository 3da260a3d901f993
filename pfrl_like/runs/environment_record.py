"""The record of a program that trains agents: command, source files, hardware, versions and settings."""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import random
import stat
import subprocess
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pfrl_like.runs.secrets import command_digest, masked_command

#: `_MAX_FILES`: maximum number of files in the record. `_MAX_BYTES`: maximum size of a file in bytes. Other files are
#: omitted.
_MAX_FILES, _MAX_BYTES = 256, 1 << 20
_INSTALL_FOLDERS = {"site-packages", "dist-packages"}
_OTHER_CODE = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")) + (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)  # paths of other packages and of this library


def program_files() -> dict[str, str]:
    """Return the SHA-256 of the started script and of the imported modules of the project, keyed by path.

    The modules of the project are the modules below the directory of the script or below the current directory. Each
    path is relative to the directory that contains the module.
    """
    script = _file_of(sys.modules.get("__main__"))
    roots = [*([os.path.dirname(script)] if script else []), os.getcwd()]
    folders = tuple(os.path.join(root, "") for root in roots)
    files = {os.path.basename(script): script} if script else {}
    for module in list(sys.modules.values()):
        path = _file_of(module, _OTHER_CODE) or ""
        ours = path.startswith(folders) and not path.startswith(_OTHER_CODE)
        if ours and _INSTALL_FOLDERS.isdisjoint(path.split(os.sep)):
            folder = next(folder for folder in folders if path.startswith(folder))
            files[os.path.relpath(path, folder)] = path
    names = sorted(files, key=lambda name: (files[name] != script, name))
    return {name: digest for name in names[:_MAX_FILES] if (digest := _fingerprint_of(files[name])) is not None}


def _file_of(module: object, skipped: tuple[str, ...] = ()) -> str | None:
    """Return the source file of a module, without importing modules. None for a file in one of the skipped folders."""
    file = object.__getattribute__(module, "__dict__").get("__file__") if isinstance(module, types.ModuleType) else None
    return os.path.abspath(file) if isinstance(file, str) and not file.startswith(skipped) else None


def _fingerprint_of(path: str) -> str | None:
    """Return the SHA-256 of a file; None if the file is too large or cannot be read."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES:
            return _fingerprint(path, status.st_ino, status.st_size, status.st_mtime_ns)
    return None


@functools.lru_cache(maxsize=4 * _MAX_FILES)
def _fingerprint(path: str, inode: int, size: int, mtime: int) -> str:
    """Return the SHA-256 of a file. A file whose inode, size and time are unchanged is not read again."""
    return _sha256(Path(path).read_bytes())


#: Packages whose version changes the behaviour of an environment.
_SIMULATORS = ("ale_py", "mujoco")
#: Environment variables that can change the last bits of a result.
VARIABLES = (
    "PYTHONHASHSEED", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES", "ATEN_CPU_CAPABILITY",
)  # fmt: skip


def environment_record() -> dict[str, Any]:
    """Return command, source files, seeds, versions and hardware as JSON values, to explain why two runs differ.

    Secrets in the command line are masked. If the command line contains secrets, the record also contains
    "command_digest". Two command lines are equal if their digests are equal.
    """
    command = masked_command(sys.argv)
    return {
        "command": command,
        **({} if command == sys.argv else {"command_digest": command_digest(tuple(sys.argv))}),
        "started_as": masked_command(sys.orig_argv),
        "directory": os.getcwd(),
        "git_head": git_head(os.getcwd()),
        "files": program_files(),
        "seeds": {
            "torch": torch.initial_seed(),
            # Checksums show if two runs started with the same state, without revealing the seeds.
            "numpy_state": _sha256(pickle.dumps(np.random.get_state(legacy=False))),
            "python_state": _sha256(pickle.dumps(random.getstate())),
        },
        **versions_and_hardware(),
    }


def versions_and_hardware() -> dict[str, dict[str, Any]]:
    """Return the versions, hardware and settings that can change the last bits of a result."""
    return {
        "versions": {
            "pfrl_like": _version("pfrl_like"),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "gymnasium": _version("gymnasium"),
            **{name: _version(name) for name in _SIMULATORS if name in sys.modules},
        },
        "hardware": {
            "machine": platform.machine(),
            "system": platform.platform(),
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "torch_threads": torch.get_num_threads(),
            "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        },
        "settings": {
            **{name: os.environ.get(name) for name in VARIABLES},
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        },
    }


def git(*arguments: str) -> bytes | None:
    """Return the output of a git command; None if git is missing or fails."""
    try:
        result = subprocess.run(["git", *arguments], capture_output=True, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout


@functools.cache
def git_head(directory: str) -> str | None:
    """Return the commit of the current directory, with "-dirty" if tracked files have changed; None without git.

    The commit is read once per process, since the process does not read its source files again.
    """
    head = git("rev-parse", "HEAD")
    if head is None:
        return None
    return head.decode().strip() + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")


def _version(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__version__", None)


@functools.cache
def _cpu() -> str:
    """Return the model name of the processor, if the system provides the name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
