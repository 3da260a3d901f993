"""Starting the program of a run again, so that it makes the agent of that run, for something else than the training.

Nobody but the program knows how its agent is made. What it is to do then travels in an environment variable, which
`train` looks at; what the program would write into run directories goes into a temporary one meanwhile.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from pfrl_like.errors import PfrlLikeError
from pfrl_like.experiments.crash import described, in_words, replay_crash
from pfrl_like.storage import atomic_write, dump_json, read_json

#: Where the order is found.
VARIABLE = "PFRL_LIKE_RERUN"
_LARGEST = 1 << 24  # of an answer, in bytes


class RerunError(PfrlLikeError, RuntimeError):
    """A program that was started again and did not do what it was started for."""


class Order(NamedTuple):
    """What a program is started for again.

    Attributes:
        outdir: Directory of the run whose agent is wanted; the program's runs for other directories are passed over.
        scratch: Directory for what the program writes meanwhile.
        crash: Record of the refused update that is to be made again.
    """

    outdir: str
    scratch: str
    crash: str

    @property
    def answer(self) -> str:
        """File for what was found."""
        return os.path.join(self.scratch, "answer.json")

    @classmethod
    def of_text(cls, text: str) -> Self:
        """What `to_text` gave."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """As text."""
        return json.dumps(self._asdict())


def ordered() -> Order | None:
    """What this program was started for again; None if it was started to train."""
    text = os.environ.get(VARIABLE)
    return None if text is None else Order.of_text(text)


def diverted(outdir: str) -> str:
    """Where what is meant for a run directory goes: elsewhere in a program that was started again."""
    order = ordered()
    return outdir if order is None else os.path.join(order.scratch, "outdir")


def is_passed_over(agent: Any, outdir: str | os.PathLike[str]) -> bool:
    """Whether a run is none of this program's business; the run that it was started for ends the program.

    Args:
        agent: The agent of the run.
        outdir: Its directory.

    Raises:
        SystemExit: Once the order has been carried out.
    """
    order = ordered()
    if order is None:
        return False
    if os.path.realpath(os.fsdecode(outdir)) != os.path.realpath(order.outdir):
        return True
    found = described(replay_crash(agent, order.crash))
    atomic_write(order.answer, dump_json({**found, "in_words": in_words(found)}, order.answer))
    raise SystemExit(0)


def start_again(record: Mapping[str, Any], outdir: str, *, crash: str, command: Sequence[str] = ()) -> dict[str, Any]:
    """Start the program of a run again, in the circumstances that its record tells, and return what it found.

    Args:
        record: What `circumstances` gave.
        outdir: Directory of the run.
        crash: See `Order`.
        command: What to start instead of the program that the record names.

    Raises:
        RerunError: If it cannot be started, or ends without an answer.
    """
    command = [*command] or [sys.executable, *record["started_as"][1:]]
    settings = {name: value for name, value in record["settings"].items() if isinstance(value, str) and name.isupper()}
    with tempfile.TemporaryDirectory() as scratch:
        order = Order(os.path.realpath(outdir), scratch, os.path.realpath(crash))
        try:
            code = subprocess.run(
                command, cwd=record["directory"], env={**os.environ, **settings, VARIABLE: order.to_text()}, check=False
            ).returncode
        except OSError as error:
            raise RerunError(f"{' '.join(command)} cannot be started: {error}") from error
        if not os.path.exists(order.answer):
            raise RerunError(
                f"{' '.join(command)} has ended with code {code} before it trained an agent in {outdir}; if it makes "
                "that agent in another way now, load it yourself with pfrl_like.experiments.replay_crash"
            )
        return read_json(order.answer, _LARGEST)
