"""Crash records of refused updates, `crash-<t>/` in the run directory, and replay of these updates.

A record contains the agent in the form of `save`, `batch.pt`, `gradients.pt` and, written last, `crash.json`: the
error, the first part with numbers that are not finite, the random streams before the update, and the environment record
of the run.
"""

import contextlib
import dataclasses
import glob
import logging
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pfrl_like.batch import Batch, Continuation, map_nested
from pfrl_like.errors import CheckpointError, NonFiniteError, PfrlLikeError
from pfrl_like.processes.rerun_order import VARIABLE, Order, ordered
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.runs.environment_record import VARIABLES, circumstances
from pfrl_like.runs.secrets import MASK, masked_text
from pfrl_like.storage import atomic_write, dump_json, load_tensors, make_directory, read_json, tensor_writer
from pfrl_like.storage.atomic import refused

#: Names of the files in a record.
AGENT, BATCH, GRADIENTS, CRASH = "agent", "batch.pt", "gradients.pt", "crash.json"
_LARGEST = 1 << 24  # largest size of crash.json and of an answer, in bytes


def record_crash(error: BaseException, agent: Any, t: int, outdir: str, logger: logging.Logger) -> None:
    """Write the crash record of a refused update into a run directory; does nothing for other errors.

    Args:
        error: The exception that ended training; only a `NonFiniteError` with a batch is recorded.
        agent: The agent that refused the update; without a method `diagnose` only `bad_batch-<t>.pt` is written.
        t: Step of the run.
        outdir: Run directory.
        logger: Logger of the paths of the files.
    """
    batch = error.batch if isinstance(error, NonFiniteError) else None
    if not isinstance(batch, Batch):
        return
    tensors = _tensors_of(batch)
    path = os.path.join(outdir, f"bad_batch-{t}.pt")
    atomic_write(path, tensor_writer(tensors, path))
    logger.error("The minibatch of the refused update is in %s", path)
    if not hasattr(agent, "diagnose"):
        return
    streams = agent.guard.streams_before()
    folder = os.path.join(outdir, f"crash-{t}")
    make_directory(folder)
    not_saved = None
    try:
        agent.save(os.path.join(folder, AGENT))
    except PfrlLikeError as failure:  # for instance a parameter that is not finite
        not_saved = masked_text(str(failure))
    found = agent.diagnose(batch, streams)
    for name, content in ((BATCH, tensors), (GRADIENTS, found.gradients)):
        path = os.path.join(folder, name)
        atomic_write(path, tensor_writer(content, path))
    path = os.path.join(folder, CRASH)
    record = {
        "error": masked_text(str(error)), "t": t, "agent": type(agent).__name__, "device": str(agent.device),
        **described(found), "agent_not_saved": not_saved, "streams": streams.to_plain(),
        "outdir": os.path.realpath(outdir), **circumstances(),
    }  # fmt: skip
    atomic_write(path, dump_json(record, path, _LARGEST))
    again = f"without the agent, which could not be saved ({not_saved})," if not_saved else "and how to make it again,"
    logger.error("What is known of it, %s is in %s: %s", again, folder, in_words(record))


def replay_crash(agent: Any, directory: str | os.PathLike[str]) -> Any:
    """Repeat an update that was refused in a run.

    Args:
        agent: An agent made like that of the run; its state is loaded from the record, and the update does not change
            it.
        directory: The record, `crash-<t>` in the run directory.

    Returns:
        A `Diagnosis`; its `error` is the error of the repeated update, or None if it was not refused this time.

    Raises:
        CheckpointError: If the record is damaged, or is that of another agent.
    """
    record = read_crash(directory)
    if record.get("agent_not_saved"):
        raise CheckpointError(directory, f"has no agent: {record['agent_not_saved']}")
    batch = _read_batch(os.path.join(directory, BATCH))
    agent.load(os.path.join(directory, AGENT))
    with refused(os.path.join(directory, CRASH), "holds no random streams"):
        streams = GlobalStreams.from_plain(record["streams"])
    return agent.diagnose(batch, streams)


def read_crash(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of `crash.json`.

    Raises:
        CheckpointError: If the file is missing or damaged; the error names records in the directory.
    """
    if not os.path.lexists(os.path.join(directory, CRASH)):
        records = ", ".join(sorted(glob.glob("crash-*", root_dir=directory))) or "none"
        raise CheckpointError(
            directory, f"has no {CRASH}, expected the directory crash-<t> of a run; in this one there are: {records}"
        )
    return read_json(os.path.join(directory, CRASH), _LARGEST)


def described(found: Any) -> dict[str, Any]:
    """A `Diagnosis` as JSON, with the norms of the gradients."""
    gradients = {name: _size(grad) for name, grad in found.gradients.items()}
    again = None if found.error is None else masked_text(found.error)
    return {"error_again": again, "layer": found.layer, "parameters": found.parameters, "gradients": gradients}


def in_words(record: Mapping[str, Any]) -> str:
    """A sentence that names the first layer, parameters or gradients with numbers that are not finite."""
    layer, parameters = record["layer"], record["parameters"]
    bad = [name for name, size in record["gradients"].items() if size["not_finite"]]
    if parameters:
        return f"the parameters {', '.join(parameters)} are not finite"
    if layer is None:
        whose = f", of which the gradients of {', '.join(bad)} are not finite" if bad else ""
        return f"the outputs of all layers are finite, so that it is the loss or its derivative{whose}"
    given = "finite" if not any(part["not_finite"] for part in layer["input"]) else "not finite either"
    ranges = ", ".join(f"{part['range'][0]:.4g} to {part['range'][1]:.4g}" for part in layer["input"] if part["range"])
    return (
        f"the output of {layer['name']} ({layer['class']}) is the first that is not finite; its input is {given}"
        f"{f' ({ranges})' if ranges else ''}"
    )


def _size(gradient: torch.Tensor) -> dict[str, Any]:
    bad = gradient.numel() - int(torch.isfinite(gradient).sum())
    return {"norm": None if bad else gradient.double().norm().item(), "not_finite": bad}


def _tensors_of(batch: Batch | Continuation) -> dict[str, Any]:
    """The fields of a minibatch as tensors that load without unpickling code; columns of objects are left out."""
    tensors = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # a column of objects
            if isinstance(value, Continuation):
                tensors[field.name] = _tensors_of(value)
            elif value is not None:
                tensors[field.name] = map_nested(torch.as_tensor, value)
    return tensors


def _read_batch(path: str) -> Batch:
    tensors = load_tensors(path)
    with refused(path, "holds no minibatch that could be learnt from"):
        if "future" in tensors:  # name of the field in older records
            tensors["continuation"] = tensors.pop("future")
        if "continuation" in tensors:
            tensors["continuation"] = Continuation(**tensors["continuation"])
        return Batch(**tensors)


def check_owner(path: str, record: Mapping[str, Any], advice: str) -> None:
    """Print the program that is about to be started; refuse it if another user's file names it.

    Args:
        path: The file.
        record: The content of the file.
        advice: End of the error message: what to do with another user's file.

    Raises:
        CheckpointError: If the file belongs to another user.
        RerunError: If the command line has secrets, which are not recorded.
    """
    command = shlex.join(command_of(record))
    if hasattr(os, "getuid") and os.stat(path).st_uid != os.getuid():
        raise CheckpointError(path, f"is another user's file, and names the program {command}: {advice}")
    print(f"starting {command} in {record['directory']}", file=sys.stderr)


_LAST_WORDS = 2000  # bytes of a failed program's output that are shown


class RerunError(PfrlLikeError, RuntimeError):
    """Raised if a program that was started again fails, or ends before it has done its task."""


def checkpoint() -> str | None:
    """The checkpoint from which a rerun resumes training; None if the program begins as usual.

    Nothing is written into the run of this checkpoint.
    """
    order = ordered()
    return None if order is None else order.checkpoint or None


def is_passed_over(agent: Any, outdir: str | os.PathLike[str]) -> bool:
    """True if this process should skip the run, since it was started again for another one.

    If the process was started to replay a crash of this run, the crash is replayed and the process ends.

    Args:
        agent: The agent of the run.
        outdir: Run directory.

    Raises:
        SystemExit: Once the crash has been replayed.
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
    """Start the program of a run again to replay a crash, with the recorded settings, and return its answer.

    Args:
        record: The result of `circumstances`.
        outdir: Run directory.
        crash: Record of the refused update that is to be repeated.
        command: Command line to start instead of the recorded one.

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
    """Start the program of a run again to repeat a part of its training; its run directory is `order.diverted`.

    Args:
        record: The result of `circumstances`.
        order: The part of the training to repeat. Its `scratch` directory is made, and gets the program's output.

    Raises:
        RerunError: If it cannot be started, or ends before it trains.
    """
    os.makedirs(order.scratch)
    with open(os.path.join(order.scratch, "output.txt"), "w+b") as output:
        code = _start(record, order, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        output.seek(0)
        words = output.read()[-_LAST_WORDS:].decode(errors="replace")
    if code or not os.path.isdir(order.diverted):
        when = "" if os.path.isdir(order.diverted) else f" before it trained an agent in {order.outdir}"
        raise RerunError(f"{' '.join(command_of(record))} has ended with code {code}{when}; it said last:\n{words}")


def _start(record: Mapping[str, Any], order: Order, command: Sequence[str] = (), **streams: Any) -> int:
    """Run a program with an order; returns its exit code."""
    started = command_of(record, command)
    set_then = {name: value for name, value in record["settings"].items() if name in VARIABLES}  # only these are set
    now = {name: value for name, value in os.environ.items() if name not in set_then}
    then = {name: value for name, value in set_then.items() if isinstance(value, str)}
    env = {**now, **then, VARIABLE: order.to_text()}
    try:
        return subprocess.run(started, cwd=record["directory"], env=env, check=False, **streams).returncode
    except OSError as error:
        raise RerunError(f"{' '.join(started)} cannot be started: {error}") from error


def place_of(record: Mapping[str, Any], outdir: str) -> str:
    """The run directory into which the recorded program wrote; the run may have been moved since."""
    return os.path.realpath(record.get("outdir") or outdir)


def command_of(record: Mapping[str, Any], command: Sequence[str] = ()) -> list[str]:
    """The command line to start again: `command`, or the recorded one.

    Raises:
        RerunError: If the recorded command line has secrets, which are not recorded.
    """
    started = [*command] or [sys.executable, *record["started_as"][1:]]
    if not command and any(MASK in argument for argument in started):
        raise RerunError(
            f"{' '.join(started)} cannot be started: the secrets of its command line are not recorded; let "
            "the program take them from the environment, or give it, for replay-crash, after --"
        )
    return started
