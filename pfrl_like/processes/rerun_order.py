"""What a program was started for again: to do something of a run once more, while nothing is written into that run.

`debug.crash_replay` starts it, and tells why; whatever writes looks here where to.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

#: Where the order is found.
VARIABLE = "PFRL_LIKE_RERUN"


class Order(NamedTuple):
    """What a program is started for again.

    Attributes:
        outdir: Directory of the run whose agent is wanted; the program's runs for other directories are passed over.
        scratch: Directory for what the program writes meanwhile.
        crash: Record of the refused update that is to be made again; "" if it is the training that is.
        checkpoint: Checkpoint of the run that the training goes on from; "" for one from the start.
        since: Step after which the trace looks at every step closely.
        until: Step at which the training ends.
    """

    outdir: str
    scratch: str
    crash: str = ""
    checkpoint: str = ""
    since: int = 0
    until: int = 0

    @property
    def answer(self) -> str:
        """File for what was found."""
        return os.path.join(self.scratch, "answer.json")

    @property
    def diverted(self) -> str:
        """Run directory that is written into instead."""
        return os.path.join(self.scratch, "outdir")

    def is_of_run(self, path: str) -> bool:
        """Whether a path lies in the directory of the run."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.outdir))

    def found(self, path: str) -> str:
        """Where something is that the program names; the run of a checkpoint may have been moved since."""
        if not self.checkpoint or not self.is_of_run(path):
            return path
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.outdir))
        return os.path.join(os.path.dirname(self.checkpoint), inside)

    def to_text(self) -> str:
        """As text, which `ordered` reads."""
        return json.dumps(self._asdict())


def ordered() -> Order | None:
    """What this program was started for again; None if it was started to train."""
    text = os.environ.get(VARIABLE)
    return None if text is None else Order(**json.loads(text))
