"""Crash records of rejected updates (`crash-<t>/` in the run directory), and programs that repeat such an update.

A record contains the saved agent, `batch.pt`, `gradients.pt` and `crash.json`. `crash.json` is written last.
`crash.json` contains the error, the first layer or parameters with NaN or infinity, the random streams before the
update, and the record of the program's environment.
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
from pfrl_like.processes.rerun_request import VARIABLE, RerunRequest, rerun_request
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.runs.environment_record import VARIABLES, environment_record
from pfrl_like.runs.secrets import MASK, masked_text
from pfrl_like.storage import atomic_write, dump_json, load_tensors, make_directory, read_json, tensor_writer
from pfrl_like.storage.atomic import read_errors

#: Names of the files in a record.
AGENT, BATCH, GRADIENTS, CRASH = "agent", "batch.pt", "gradients.pt", "crash.json"
_MAX_BYTES = 1 << 24  # maximum size of crash.json and of a result file, in bytes


def record_crash(error: BaseException, agent: Any, t: int, outdir: str, logger: logging.Logger) -> None:
    """Write the crash record of a rejected update into a run directory. If another error ended training, do nothing.

    Args:
        error: Exception that ended training. Only a `NonFiniteError` with a batch is recorded.
        agent: Agent that rejected the update. If it has no method `diagnose`, only `bad_batch-<t>.pt` is written.
        t: Step of the run.
        outdir: Run directory.
        logger: Logger that gets the paths of the files.
    """
    batch = error.batch if isinstance(error, NonFiniteError) else None
    if not isinstance(batch, Batch):
        return
    tensors = _tensors_of(batch)
    path = os.path.join(outdir, f"bad_batch-{t}.pt")
    atomic_write(path, tensor_writer(tensors, path))
    logger.error("The minibatch of the rejected update is in %s", path)
    if not hasattr(agent, "diagnose"):
        return
    streams = agent.guard.streams_before()
    folder = os.path.join(outdir, f"crash-{t}")
    make_directory(folder)
    not_saved = None
    try:
        agent.save(os.path.join(folder, AGENT))
    except PfrlLikeError as failure:  # for instance because a parameter is not finite
        not_saved = masked_text(str(failure))
    diagnosis = agent.diagnose(batch, streams)
    for name, content in ((BATCH, tensors), (GRADIENTS, diagnosis.gradients)):
        path = os.path.join(folder, name)
        atomic_write(path, tensor_writer(content, path))
    path = os.path.join(folder, CRASH)
    record = {
        "error": masked_text(str(error)), "t": t, "agent": type(agent).__name__, "device": str(agent.device),
        **diagnosis_record(diagnosis), "agent_not_saved": not_saved, "streams": streams.to_plain(),
        "outdir": os.path.realpath(outdir), **environment_record(),
    }  # fmt: skip
    atomic_write(path, dump_json(record, path, _MAX_BYTES))
    agent_text = f" (without the agent, which could not be saved: {not_saved})" if not_saved else ""
    logger.error("The crash record of the rejected update%s is in %s: %s", agent_text, folder, diagnosis_text(record))


def replay_crash(agent: Any, directory: str | os.PathLike[str]) -> Any:
    """Repeat an update that was rejected in a run.

    Args:
        agent: Agent that was constructed in the same way as in the run. Its state is loaded from the record. The
            repeated update does not change it further.
        directory: Directory of the record, `crash-<t>` in the run directory.

    Returns:
        A `Diagnosis`. Its `error` is the error of the repeated update, or None if the update was not rejected.

    Raises:
        CheckpointError: If the record is damaged, or if it belongs to a different agent.
    """
    record = read_crash(directory)
    if record.get("agent_not_saved"):
        raise CheckpointError(directory, f"contains no agent: {record['agent_not_saved']}")
    batch = _read_batch(os.path.join(directory, BATCH))
    agent.load(os.path.join(directory, AGENT))
    with read_errors(os.path.join(directory, CRASH), "contains no valid random streams"):
        streams = GlobalStreams.from_plain(record["streams"])
    return agent.diagnose(batch, streams)


def read_crash(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of `crash.json`.

    Raises:
        CheckpointError: If the file is missing or damaged. If it is missing, the message names the records in
            `directory`.
    """
    if not os.path.lexists(os.path.join(directory, CRASH)):
        records = ", ".join(sorted(glob.glob("crash-*", root_dir=directory))) or "none"
        raise CheckpointError(
            directory, f"contains no {CRASH}, expected the directory crash-<t> of a run; records in it: {records}"
        )
    return read_json(os.path.join(directory, CRASH), _MAX_BYTES)


def diagnosis_record(diagnosis: Any) -> dict[str, Any]:
    """Return a `Diagnosis` as JSON values, with the norms of the gradients."""
    gradients = {name: _gradient_summary(grad) for name, grad in diagnosis.gradients.items()}
    again = None if diagnosis.error is None else masked_text(diagnosis.error)
    return {"error_again": again, "layer": diagnosis.layer, "parameters": diagnosis.parameters, "gradients": gradients}


def diagnosis_text(record: Mapping[str, Any]) -> str:
    """Return a sentence that names the first layer, parameters or gradients with NaN or infinity."""
    layer, parameters = record["layer"], record["parameters"]
    bad = [name for name, size in record["gradients"].items() if size["not_finite"]]
    if parameters:
        return f"the parameters {', '.join(parameters)} are not finite"
    if layer is None:
        whose = f"; the gradients of {', '.join(bad)} are not finite" if bad else ""
        return f"the outputs of all layers are finite: the loss or its derivative is not finite{whose}"
    given = "finite" if not any(part["not_finite"] for part in layer["input"]) else "not finite, too"
    ranges = ", ".join(f"{part['range'][0]:.4g} to {part['range'][1]:.4g}" for part in layer["input"] if part["range"])
    return (
        f"the output of {layer['name']} ({layer['class']}) is the first that is not finite; its input is {given}"
        f"{f' ({ranges})' if ranges else ''}"
    )


def _gradient_summary(gradient: torch.Tensor) -> dict[str, Any]:
    bad = gradient.numel() - int(torch.isfinite(gradient).sum())
    return {"norm": None if bad else gradient.double().norm().item(), "not_finite": bad}


def _tensors_of(batch: Batch | Continuation) -> dict[str, Any]:
    """Return the fields of a minibatch as tensors.

    Columns that contain other objects are omitted, because a pickled object can run code when it is loaded.
    """
    tensors = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # the column contains other objects
            if isinstance(value, Continuation):
                tensors[field.name] = _tensors_of(value)
            elif value is not None:
                tensors[field.name] = map_nested(torch.as_tensor, value)
    return tensors


def _read_batch(path: str) -> Batch:
    tensors = load_tensors(path)
    with read_errors(path, "contains no valid minibatch"):
        if "future" in tensors:  # older records use this name
            tensors["continuation"] = tensors.pop("future")
        if "continuation" in tensors:
            tensors["continuation"] = Continuation(**tensors["continuation"])
        return Batch(**tensors)


def check_owner(path: str, record: Mapping[str, Any], advice: str) -> None:
    """Print the program that will be started. Raise an error if the file belongs to another user.

    Args:
        path: File that contains the command line of the program.
        record: Content of the file.
        advice: End of the error message if the file belongs to another user.

    Raises:
        CheckpointError: If the file belongs to another user.
        RerunError: If the command line contains secrets, because secrets are not recorded.
    """
    command = shlex.join(command_of(record))
    if hasattr(os, "getuid") and os.stat(path).st_uid != os.getuid():
        raise CheckpointError(path, f"belongs to another user and contains the program {command}: {advice}")
    print(f"starting {command} in {record['directory']}", file=sys.stderr)


_MAX_OUTPUT = 2000  # maximum size in bytes of a failed program's output in an error


class RerunError(PfrlLikeError, RuntimeError):
    """A program that repeats a part of a run fails or ends too early."""


def checkpoint() -> str | None:
    """Return the checkpoint from which this process repeats training.

    The result is None if the process does not repeat training, or if it repeats training from the beginning.

    The process writes nothing into the run directory of this checkpoint.
    """
    request = rerun_request()
    return None if request is None else request.checkpoint or None


def is_skipped(agent: Any, outdir: str | os.PathLike[str]) -> bool:
    """True if this process must skip the run, because the process was started to repeat another run.

    If the process was started to replay a crash of this run, the crash is replayed, and the process ends.

    Args:
        agent: The agent of the run.
        outdir: Run directory.

    Raises:
        SystemExit: After the crash was replayed.
    """
    request = rerun_request()
    if request is None:
        return False
    if os.path.realpath(os.fsdecode(outdir)) != os.path.realpath(request.outdir):
        return True
    if not request.crash:
        return False
    diagnosis = diagnosis_record(replay_crash(agent, request.crash))
    result = {**diagnosis, "diagnosis_text": diagnosis_text(diagnosis)}
    atomic_write(request.result_path, dump_json(result, request.result_path))
    raise SystemExit(0)


def rerun_crash(record: Mapping[str, Any], outdir: str, *, crash: str, command: Sequence[str] = ()) -> dict[str, Any]:
    """Start the program of a run with the recorded settings, to repeat a rejected update. Return the result.

    Args:
        record: Result of `environment_record`.
        outdir: Run directory.
        crash: Directory of the record of the rejected update.
        command: Command line to start instead of the recorded command line.

    Raises:
        RerunError: If the program cannot be started, or if it ends without a result.
    """
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = os.path.realpath(outdir) if command else recorded_outdir(record, outdir)
        request = RerunRequest(run_dir, scratch, os.path.realpath(crash))
        code = _start(record, request, command)
        if not os.path.exists(request.result_path):
            text = f"{' '.join(command_of(record, command))} has ended with code {code} before it trained an agent in"
            advice = "if the program has changed, construct the agent and call pfrl_like.experiments.replay_crash"
            raise RerunError(f"{text} {run_dir}; {advice}")
        return read_json(request.result_path, _MAX_BYTES)


def rerun_training(record: Mapping[str, Any], request: RerunRequest) -> None:
    """Start the program of a run again to repeat a part of its training. It writes into `request.rerun_outdir`.

    Args:
        record: Result of `environment_record`.
        request: Part of the training to repeat. The directory `request.scratch` is created. It contains the output of
            the program.

    Raises:
        RerunError: If the program cannot be started, or if it ends before it trains.
    """
    os.makedirs(request.scratch)
    with open(os.path.join(request.scratch, "output.txt"), "w+b") as output:
        code = _start(record, request, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        output.seek(0)
        words = output.read()[-_MAX_OUTPUT:].decode(errors="replace")
    if code or not os.path.isdir(request.rerun_outdir):
        when = "" if os.path.isdir(request.rerun_outdir) else f" before it trained an agent in {request.outdir}"
        raise RerunError(f"{' '.join(command_of(record))} has ended with code {code}{when}; last output:\n{words}")


def _start(record: Mapping[str, Any], request: RerunRequest, command: Sequence[str] = (), **streams: Any) -> int:
    """Run a program that carries out `request`, and return its exit code."""
    started = command_of(record, command)
    recorded = {name: value for name, value in record["settings"].items() if name in VARIABLES}
    env = {**os.environ, **recorded, VARIABLE: request.to_text()}
    # None means that the variable was not set in the run. It is then not set in the rerun either.
    env = {name: value for name, value in env.items() if isinstance(value, str)}
    try:
        return subprocess.run(started, cwd=record["directory"], env=env, check=False, **streams).returncode
    except OSError as error:
        raise RerunError(f"{' '.join(started)} cannot be started: {error}") from error


def recorded_outdir(record: Mapping[str, Any], outdir: str) -> str:
    """Return the path of the run directory at the time of the run. The directory may have been moved since then."""
    return os.path.realpath(record.get("outdir") or outdir)


def command_of(record: Mapping[str, Any], command: Sequence[str] = ()) -> list[str]:
    """Return the command line to start: `command`, or the recorded command line if `command` is empty.

    Raises:
        RerunError: If the recorded command line contains secrets, because secrets are not recorded.
    """
    started = [*command] or [sys.executable, *record["started_as"][1:]]
    if not command and any(MASK in argument for argument in started):
        raise RerunError(
            f"{' '.join(started)} cannot be started: the secrets of its command line are not recorded; pass "
            "secrets in environment variables or, for replay-crash, pass the command line after --"
        )
    return started
