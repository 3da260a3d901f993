"""Orders to a program that is started again to repeat a part of a run, without writing into the run's directory.

`debug.crash_replay` starts the program with an `Order`. Code that writes files reads the order to find the directory to
write into.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

#: Environment variable that contains the order.
VARIABLE = "PFRL_LIKE_RERUN"


class Order(NamedTuple):
    """The part of a run that a program repeats.

    Attributes:
        outdir: Directory of the run to repeat; the program skips its runs with other directories.
        scratch: Directory for the files that the program writes.
        crash: Record of the rejected update to repeat; "" to repeat training.
        checkpoint: Checkpoint of the run from which training resumes; "" for the start of training.
        since: Step after which the trace records every step in detail.
        until: Step at which training ends.
    """

    outdir: str
    scratch: str
    crash: str = ""
    checkpoint: str = ""
    since: int = 0
    until: int = 0

    @property
    def answer(self) -> str:
        """File for the result of the rerun."""
        return os.path.join(self.scratch, "answer.json")

    @property
    def diverted(self) -> str:
        """Run directory that the program writes into instead of `outdir`."""
        return os.path.join(self.scratch, "outdir")

    def is_of_run(self, path: str) -> bool:
        """True if a path is in the directory of the run."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.outdir))

    def found(self, path: str) -> str:
        """Return the current path of a file that the program names; the checkpoint's run may have been moved."""
        if not self.checkpoint or not self.is_of_run(path):
            return path
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.outdir))
        return os.path.join(os.path.dirname(self.checkpoint), inside)

    def to_text(self) -> str:
        """Return the order as text, which `ordered` reads."""
        return json.dumps(self._asdict())


def ordered() -> Order | None:
    """Return the order of this program; None if the program is not a rerun."""
    text = os.environ.get(VARIABLE)
    return None if text is None else Order(**json.loads(text))
