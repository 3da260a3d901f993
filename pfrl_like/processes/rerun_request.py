"""Request to a program that is started again: repeat a part of a run without writing into the run's directory.

`debug.crash_replay` starts the program with a `RerunRequest` in an environment variable. Code that writes files reads
the request, and writes into another directory.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

#: Name of the environment variable that contains the request.
VARIABLE = "PFRL_LIKE_RERUN"


class RerunRequest(NamedTuple):
    """The part of a run that a program repeats.

    Attributes:
        outdir: Directory of the run to repeat. The program skips its runs with other directories.
        scratch: Directory for the files that the program writes.
        crash: Directory of the crash record of the rejected update to repeat. If empty, training is repeated.
        checkpoint: Checkpoint from which training resumes. If empty, training starts from the beginning.
        since: First step at which the trace contains a line with the checksums of all tensors.
        until: Step at which training ends.
    """

    outdir: str
    scratch: str
    crash: str = ""
    checkpoint: str = ""
    since: int = 0
    until: int = 0

    @property
    def result_path(self) -> str:
        """Path of the file for the result of the rerun."""
        return os.path.join(self.scratch, "answer.json")

    @property
    def rerun_outdir(self) -> str:
        """Path of the run directory that the program uses instead of `outdir`."""
        return os.path.join(self.scratch, "outdir")

    def is_of_run(self, path: str) -> bool:
        """True if a path is in `outdir`."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.outdir))

    def current_path(self, path: str) -> str:
        """Return the current path of a file that the program opens, because the run directory may have been moved."""
        if not self.checkpoint or not self.is_of_run(path):
            return path
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.outdir))
        return os.path.join(os.path.dirname(self.checkpoint), inside)

    def to_text(self) -> str:
        """Return the request as text. `rerun_request` reads this text."""
        return json.dumps(self._asdict())


def rerun_request() -> RerunRequest | None:
    """Return the request to this program. None if the program is not a rerun."""
    text = os.environ.get(VARIABLE)
    return None if text is None else RerunRequest(**json.loads(text))
