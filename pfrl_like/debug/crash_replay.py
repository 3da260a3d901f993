"""The record of an update that was refused, `crash-<t>/` in the run directory, and making the update again.

It holds the agent as `save` saves it, `batch.pt`, `gradients.pt` and, written last, `crash.json`: the error, where
the numbers went wrong, the random streams before the update, and the circumstances.
"""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

import torch

from pfrl_like.batch import Batch, Future, map_nested
from pfrl_like.errors import CheckpointError, NonFiniteError, PfrlLikeError
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.runs.environment_record import circumstances
from pfrl_like.runs.secrets import masked_text
from pfrl_like.storage import atomic_write, dump_json, load_tensors, make_directory, read_json, tensor_writer

#: Names in a record.
AGENT, BATCH, GRADIENTS, CRASH = "agent", "batch.pt", "gradients.pt", "crash.json"
_LARGEST = 1 << 24  # of crash.json, in bytes


def record_crash(error: BaseException, agent: Any, t: int, outdir: str, logger: logging.Logger) -> None:
    """Leave what is known of a refused update in a run directory; nothing if the error is another one.

    Args:
        error: What ended training.
        agent: What refused the update; only its batch, `bad_batch-<t>.pt`, is written of one without `diagnose`.
        t: Step.
        outdir: Run directory.
        logger: Told where it is.
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
    streams = agent.streams_before()
    folder = os.path.join(outdir, f"crash-{t}")
    make_directory(folder)
    not_saved = None
    try:
        agent.save(os.path.join(folder, AGENT))
    except PfrlLikeError as failure:  # such as a parameter that is not finite
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
    """Make an update again that was refused in a run.

    Args:
        agent: An agent made as that of the run was; it becomes what that one was, and is not changed by the update.
        directory: The record, `crash-<t>` in the run directory.

    Returns:
        A `Diagnosis`, whose `error` is what the update says now; None if it was not refused this time.

    Raises:
        CheckpointError: If the record is damaged, or is that of another agent.
    """
    record = read_crash(directory)
    if record.get("agent_not_saved"):
        raise CheckpointError(directory, f"has no agent: {record['agent_not_saved']}")
    batch = _read_batch(os.path.join(directory, BATCH))
    agent.load(os.path.join(directory, AGENT))
    return agent.diagnose(batch, _streams(record, directory))


def read_crash(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of `crash.json`.

    Raises:
        CheckpointError: If there is none, or it is damaged.
    """
    return read_json(os.path.join(directory, CRASH), _LARGEST)


def described(found: Any) -> dict[str, Any]:
    """A `Diagnosis` as JSON takes it, of the gradients their norms."""
    gradients = {name: _size(grad) for name, grad in found.gradients.items()}
    again = None if found.error is None else masked_text(found.error)
    return {"error_again": again, "layer": found.layer, "parameters": found.parameters, "gradients": gradients}


def in_words(record: Mapping[str, Any]) -> str:
    """What a person wants to know first: where the numbers went wrong."""
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


def _tensors_of(batch: Batch | Future) -> dict[str, Any]:
    """What a minibatch holds, as tensors that load without unpickling code; columns of objects are left out."""
    tensors = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # a column of objects
            if isinstance(value, Future):
                tensors[field.name] = _tensors_of(value)
            elif value is not None:
                tensors[field.name] = map_nested(torch.as_tensor, value)
    return tensors


def _read_batch(path: str) -> Batch:
    tensors = load_tensors(path)
    try:
        if "future" in tensors:
            tensors["future"] = Future(**tensors["future"])
        return Batch(**tensors)
    except TypeError as error:
        raise CheckpointError(path, f"holds no minibatch that could be learnt from: {error}") from error


def _streams(record: Mapping[str, Any], directory: str | os.PathLike[str]) -> GlobalStreams:
    try:
        return GlobalStreams.from_plain(record["streams"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(os.path.join(directory, CRASH), f"holds no random streams: {error}") from error
