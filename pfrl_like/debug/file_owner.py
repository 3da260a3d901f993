"""Whose program a file names."""

import os
import shlex
import sys
from collections.abc import Sequence

from pfrl_like.errors import CheckpointError


def check_owner(path: str, command: Sequence[str], directory: str, advice: str) -> None:
    """Refuse to start what a file of somebody else names; say what is started.

    Args:
        path: The file.
        command: What it names.
        directory: Where that runs.
        advice: What to do if it is somebody else's.

    Raises:
        CheckpointError: If it is.
    """
    if hasattr(os, "getuid") and os.stat(path).st_uid != os.getuid():
        raise CheckpointError(path, f"is another user's file, and names the program {shlex.join(command)}: {advice}")
    print(f"starting {shlex.join(command)} in {directory}", file=sys.stderr)
