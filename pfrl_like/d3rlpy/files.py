"""Files of algorithms: `.d3`, a pickle of three values, and `.pt`, the states of networks and optimisers.

A `.d3` file is read without unpickling: only the instructions of a dict of strings and bytes are accepted.
"""

import io
import os
import pickle
import pickletools
import tempfile
from typing import Any

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write, read_bounded
from pfrl_like.storage.plain_tensors import tensor_writer
from pfrl_like.storage.tensors import load_tensors

#: Release of d3rlpy whose formats this library writes.
VERSION = "2.8.1"
#: Maximum size of a `.d3` file in bytes.
MAX_BYTES = 1 << 32

_KEYS = {"torch": bytes, "config": str, "version": str}
#: Names of the instructions that put a string or bytes on the stack, and of the others that describe a dict.
_VALUES = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"}
_OTHERS = {"PROTO", "FRAME", "EMPTY_DICT", "MEMOIZE", "BINPUT", "LONG_BINPUT", "MARK", "SETITEM", "SETITEMS", "STOP"}


def write_model(fname: str | os.PathLike[str], states: dict[str, Any]) -> None:
    """Write the states of modules to a `.pt` file, which d3rlpy 2 can load.

    Args:
        fname: Path of the file.
        states: State dicts, keyed by d3rlpy 2's names of the modules.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
    """
    atomic_write(fname, tensor_writer(states, fname))


def read_model(fname: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the states of modules in a `.pt` file. Reading runs no code from the file.

    Raises:
        CheckpointError: If the file is damaged or contains other values.
    """
    states = load_tensors(os.fspath(fname))
    if not isinstance(states, dict) or not all(isinstance(state, dict) for state in states.values()):
        raise CheckpointError(fname, "is not a model, expected a dict of state dicts")
    return states


def write_learnable(fname: str | os.PathLike[str], config: str, states: dict[str, Any]) -> None:
    """Write a `.d3` file, which d3rlpy 2 can load.

    Args:
        fname: Path of the file.
        config: Config with shapes, JSON text.
        states: State dicts, keyed by d3rlpy 2's names of the modules.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
    """
    model = io.BytesIO()
    tensor_writer(states, fname)(model)
    atomic_write(fname, pickle.dumps({"torch": model.getvalue(), "config": config, "version": VERSION}, protocol=4))


def read_learnable(fname: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return the config, JSON text, and the states of modules in a `.d3` file. Reading runs no code from the file.

    Raises:
        CheckpointError: If the file is damaged, is too long, or contains other values.
    """
    content = _pickled_values(read_bounded(os.fspath(fname), MAX_BYTES), fname)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(fname))
        atomic_write(path, content["torch"], durable=False)
        return content["config"], read_model(path)


def _pickled_values(content: bytes, fname: object) -> dict[str, Any]:
    """Return the values of `_KEYS` in a pickle."""
    values: list[Any] = []
    try:
        for instruction, argument, _ in pickletools.genops(content):
            if instruction.name in _VALUES:
                values.append(argument)
            elif instruction.name not in _OTHERS:
                raise ValueError(f"it has the instruction {instruction.name}")
    except Exception as error:  # a damaged pickle may raise anything
        raise CheckpointError(fname, f"is not a file of an algorithm: {error}; load_model loads models") from error
    found = dict(zip(values[::2], values[1::2], strict=False))
    if len(values) != 2 * len(_KEYS) or {key: type(value) for key, value in found.items()} != _KEYS:
        raise CheckpointError(fname, f"is not a file of an algorithm, expected a dict of {', '.join(_KEYS)}")
    return found
