"""Starting the program of a run again, so that it makes the agent of that run, for something else than the training.

Nobody but the program knows how its agent is made. What it is to do then travels in an environment variable, which
`train` looks at; what the program would write into run directories and persistent buffers goes into a temporary
directory meanwhile.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from pfrl_like.debug.crash_replay import described, in_words, replay_crash
from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.processes.rerun_order import VARIABLE, Order, ordered
from pfrl_like.runs.environment_record import VARIABLES
from pfrl_like.runs.secrets import MASK
from pfrl_like.storage import atomic_write, dump_json, read_json


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


_LARGEST = 1 << 24  # of an answer, in bytes
_LAST_WORDS = 2000  # bytes of what a program that failed has printed


class RerunError(PfrlLikeError, RuntimeError):
    """A program that was started again and did not do what it was started for."""


def checkpoint() -> str | None:
    """The checkpoint that training has to go on from, which belongs to a run that nothing is written into.

    None for one that begins as the program says.
    """
    order = ordered()
    return None if order is None else order.checkpoint or None


def is_passed_over(agent: Any, outdir: str | os.PathLike[str]) -> bool:
    """Whether a run is none of this program's business; the one that it was started for to replay a crash ends it.

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
    if not order.crash:
        return False
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
    with tempfile.TemporaryDirectory() as scratch:
        place = os.path.realpath(outdir) if command else place_of(record, outdir)
        order = Order(place, scratch, os.path.realpath(crash))
        code = _start(record, order, command)
        if not os.path.exists(order.answer):
            raise RerunError(
                f"{' '.join(command_of(record, command))} has ended with code {code} before it trained an agent in "
                f"{place}; if it makes that agent in another way now, load it yourself with "
                "pfrl_like.experiments.replay_crash"
            )
        return read_json(order.answer, _LARGEST)


def train_again(record: Mapping[str, Any], order: Order) -> None:
    """Start the program of a run again, which trains as far as it is told; what it leaves is in `order.diverted`.

    Args:
        record: What `circumstances` gave.
        order: How far. `scratch` is made; what the program prints goes there, too.

    Raises:
        RerunError: If it cannot be started, or ends before it trains.
    """
    os.makedirs(order.scratch)
    said = os.path.join(order.scratch, "output.txt")
    with open(said, "wb") as output:
        code = _start(record, order, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    if code or not os.path.isdir(order.diverted):
        with open(said, "rb") as output:
            words = output.read()[-_LAST_WORDS:].decode(errors="replace")
        when = "" if os.path.isdir(order.diverted) else f" before it trained an agent in {order.outdir}"
        raise RerunError(f"{' '.join(command_of(record))} has ended with code {code}{when}; it said last:\n{words}")


def _start(record: Mapping[str, Any], order: Order, command: Sequence[str] = (), **streams: Any) -> int:
    """Run a program with an order; returns its exit code."""
    started = command_of(record, command)
    set_then = {name: value for name, value in record["settings"].items() if name in VARIABLES}  # and no others
    now = {name: value for name, value in os.environ.items() if name not in set_then}
    then = {name: value for name, value in set_then.items() if isinstance(value, str)}
    try:
        return subprocess.run(
            started, cwd=record["directory"], env={**now, **then, VARIABLE: order.to_text()},
            check=False, **streams,
        ).returncode  # fmt: skip
    except OSError as error:
        raise RerunError(f"{' '.join(started)} cannot be started: {error}") from error


def place_of(record: Mapping[str, Any], outdir: str) -> str:
    """The run directory that the program of a record has written into; the run may have been moved since."""
    return os.path.realpath(record.get("outdir") or outdir)


def command_of(record: Mapping[str, Any], command: Sequence[str] = ()) -> list[str]:
    """What is started again for a record, if nothing else is asked for.

    Raises:
        RerunError: If that has secrets, which are not recorded.
    """
    started = [*command] or [sys.executable, *record["started_as"][1:]]
    if not command and any(MASK in argument for argument in started):
        raise RerunError(
            f"{' '.join(started)} cannot be started: the secrets of its command line are not recorded; let "
            "the program take them from the environment, or give it, for replay-crash, after --"
        )
    return started
