"""The success of a command."""

import subprocess
from collections.abc import Sequence


def is_return_code_zero(args: Sequence[str] | str) -> bool:
    """Run a command and return True if its exit status is 0. The output of the command is discarded.

    Args:
        args: Name of the program and its arguments.

    Returns:
        False if the exit status is not 0, or if the program does not exist or cannot be run.
    """
    try:
        return subprocess.run(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False
