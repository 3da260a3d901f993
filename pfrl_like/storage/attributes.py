"""Saving and loading of objects with `saved_attributes` in one directory, atomically.

An attribute with its own saved attributes is flattened (`obs_normalizer.model-7f3a91c2.pt`), so that one manifest lists
all files. Copies are stored under PFRL's names (`obs_normalizer/model.pt`). The owner's attribute `composition`, if it
has one, is the file `composition.json`. No method reads it into an existing owner.
"""

import contextlib
import glob
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol, runtime_checkable

import torch

from pfrl_like.errors import CheckpointError, NonFiniteError, PfrlLikeError
from pfrl_like.storage.atomic import Writer
from pfrl_like.storage.checks import check_like, checked_optimizer_state, nan_state, non_finite_parameter
from pfrl_like.storage.directory import has_manifest, load_directory, orphan_state_files, save_directory
from pfrl_like.storage.json_file import dump_json, plain_json
from pfrl_like.storage.manifest import MANIFEST, PREVIOUS
from pfrl_like.storage.plain_tensors import plain_tensors, tensor_writer, tensors_in
from pfrl_like.storage.tensors import load_tensors

#: Key of the file that contains the tensors of the state.
STATE_TENSORS = "state-tensors.pt"  # no attribute can have this name
#: Key of the file that contains the composition of the owner, and its maximum size in bytes.
COMPOSITION, MAX_COMPOSITION = "composition.json", 1 << 22
#: Maximum depth of values that are split: one level more than JSON files may have. Deeper values raise an error when
#: the JSON is written.
_MAX_DEPTH = 33


def split_state(state: Any) -> tuple[Any, list[Any]]:
    """Return a copy of a state with None for each tensor, and a list of [path, tensor].

    A path is a list of keys and indices.
    """
    tensors: list[Any] = []
    return _without(state, [], tensors), tensors


def _without(value: Any, path: list[Any], tensors: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append([path, value])
        return None
    if len(path) <= _MAX_DEPTH and isinstance(value, Mapping):
        return {key: _without(part, [*path, key], tensors) for key, part in value.items()}
    if len(path) <= _MAX_DEPTH and isinstance(value, list | tuple):
        return [_without(part, [*path, i], tensors) for i, part in enumerate(value)]
    return value


def join_state(state: dict[str, Any], tensors: Any, source: str) -> None:
    """Insert the tensors that `split_state` returned into the state.

    Args:
        state: The state as JSON values. It is changed in place.
        tensors: The [path, tensor] pairs that were loaded from a file.
        source: The file, for error messages.

    Raises:
        CheckpointError: If there is no None at a path of the state, or a value is not a tensor.
    """
    try:
        for path, tensor in tensors:
            *inner, last = path
            owner: Any = state
            for step in inner:
                owner = owner[step]
            if owner[last] is not None or not isinstance(tensor, torch.Tensor):
                raise ValueError(f"the state has no tensor at {path}")
            owner[last] = tensor
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise CheckpointError(source, f"does not match the state in the same directory: {error!r:.200}") from error


KIND = "agent"

# `_FACTOR` limits the memory for loading a file, as a multiple of the live tensors. LBFGS has 200 vectors per
# parameter, and each tensor is counted twice: in the file and as the loaded tensor.
_MAX_STATE_TENSORS = 1 << 36  # in bytes, for rollouts and similar tensors of the state
_BASE_BYTES = 1 << 26
_FACTOR = 512


@runtime_checkable
class Owner(Protocol):
    """An object whose attributes can be saved; see `AttributeSavingMixin`."""

    @property
    def saved_attributes(self) -> tuple[str, ...]: ...

    def saved_state(self) -> dict[str, Any]: ...

    def restore_state(self, state: dict[str, Any]) -> None: ...


class _Parts:
    """The saved attributes of an owner and of the owners among its attributes, keyed by dotted name.

    `owners` contains the owners. `leaves` contains the other attributes, which have `state_dict`.
    """

    def __init__(self, owner: Owner, path: object) -> None:
        self.path = path
        self.owners: dict[str, Owner] = {}
        self.leaves: dict[str, Any] = {}
        self.replacements: dict[str, str] = {}
        self._collect(owner, "", ())

    def _collect(self, owner: Owner, prefix: str, ancestors: tuple[Owner, ...]) -> None:
        if any(owner is ancestor for ancestor in ancestors):
            raise CheckpointError(self.path, f"cannot store the attribute {prefix}, which contains itself")
        self.owners[prefix] = owner
        for attribute in owner.saved_attributes:
            name = f"{prefix}.{attribute}" if prefix else attribute
            value = _unwrapped(getattr(owner, attribute, None))
            if not hasattr(owner, attribute) or hasattr(value, "__set__"):  # a descriptor of the class
                reason = f"{type(owner).__name__}.__init__ has not set it"
                raise CheckpointError(self.path, f"cannot store the attribute {name}: {reason}")
            if attribute in (other := getattr(owner, "saved_instead", {})):
                self.replacements[name] = name.removesuffix(attribute) + other[attribute]
            if isinstance(value, Owner):
                self._collect(value, name, (*ancestors, owner))
            elif value is not None:
                if not hasattr(value, "state_dict") or not hasattr(value, "load_state_dict"):
                    reason = f"{type(value).__name__} has no state_dict"
                    raise CheckpointError(self.path, f"cannot store the attribute {name}: {reason}")
                self.leaves[name] = value

    def states(self) -> dict[str, Any]:
        """Return the state of every owner, by dotted name: JSON values and tensors."""
        states = {f"saved_state of {name or 'the agent'}": owner.saved_state() for name, owner in self.owners.items()}
        plain = (plain_json(state, self.path, text, kept=(torch.Tensor,)) for text, state in states.items())
        return dict(zip(self.owners, plain, strict=True))


def save_attributes(owner: Owner, dirname: str | os.PathLike[str]) -> None:
    """Save an owner's attributes into a directory. At each time the directory contains the whole old or new state.

    Raises:
        CheckpointError: If an attribute cannot be saved or written. The old state in the directory is then unchanged.
        NonFiniteError: If a parameter is NaN or infinite. The old state in the directory is then unchanged.
    """
    parts = _Parts(owner, os.fspath(dirname))
    files: dict[str, Writer] = {}
    for name, leaf in parts.leaves.items():
        state = leaf.state_dict()
        if (fault := _non_finite(leaf, state)) is not None:
            message = f"{name}.{fault} is NaN or infinite; expected finite numbers: nothing was saved to {dirname}"
            raise NonFiniteError(f"{name}.{fault}", message)
        files[f"{name}.pt"] = _writer(leaf, state, f"{parts.path} ({name})")
    states, tensors = split_state(parts.states())
    if (composition := getattr(owner, "composition", None)) is not None:
        files[COMPOSITION] = dump_json(composition, f"{parts.path} (composition)", MAX_COMPOSITION)
    if tensors:
        files[STATE_TENSORS] = tensor_writer(tensors, f"{parts.path} (state)")
    aliases = {f"{name.replace('.', '/')}.pt": f"{name}.pt" for name in parts.leaves}
    info = {"saved_attributes": list(owner.saved_attributes), "t": states[""].get("t")}
    kind = f"{type(owner).__module__}.{type(owner).__qualname__}"
    options: dict[str, Any] = {"aliases": aliases, "info": info, "other_keys": (STATE_TENSORS, COMPOSITION)}
    save_directory(dirname, files, states, kind=KIND, class_name=kind, **options)


def limits_of(owner: Owner, dirname: str | os.PathLike[str]) -> dict[str, int]:
    """Return the maximum size in bytes of each file of an owner's saved attributes, keyed by the file's key.

    Raises:
        CheckpointError: If the owner has attributes that cannot be saved.
    """
    return {STATE_TENSORS: _MAX_STATE_TENSORS, **_limits(_Parts(owner, os.fspath(dirname)))}


def _limits(parts: _Parts) -> dict[str, int]:
    # The file of a module contains tensors of the same shapes as the live module.
    factors = {name: 2 if isinstance(leaf, torch.nn.Module) else _FACTOR for name, leaf in parts.leaves.items()}
    return {f"{name}.pt": _bound(leaf, factors[name]) for name, leaf in parts.leaves.items()}


def load_attributes(owner: Owner, dirname: str | os.PathLike[str], *, modules_only: bool = False) -> None:
    """Load attributes that `save_attributes` or PFRL saved. All checks are done before the first change.

    A directory of PFRL contains only networks and optimisers. Counters therefore stay unchanged.

    Args:
        owner: The object whose attributes are loaded.
        dirname: The directory.
        modules_only: True to load the modules, but neither the optimisers nor the state, such as counters.

    Raises:
        CheckpointError: If the directory contains no complete saved state, or if the saved attributes have different
            names or shapes than the attributes of `owner`. `owner` is then unchanged. Classes are not compared.
    """
    directory = os.fspath(dirname)
    parts = _Parts(owner, directory)
    known = {STATE_TENSORS, COMPOSITION, *(f"{name}.pt" for name in parts.leaves)}
    if modules_only:
        parts.leaves = {name: leaf for name, leaf in parts.leaves.items() if isinstance(leaf, torch.nn.Module)}
    states: dict[str, Any] | None = None
    names = {name: parts.replacements.get(name, name) for name in parts.leaves}
    copies = {name: os.path.join(directory, *old.split(".")) + ".pt" for name, old in names.items()}
    has_copies = all(map(os.path.lexists, copies.values()))
    if has_manifest(directory):
        try:
            others = {COMPOSITION: MAX_COMPOSITION} if modules_only else {STATE_TENSORS: _MAX_STATE_TENSORS}
            snapshot = load_directory(directory, kind=KIND, limits=_limits(parts) | others)
        except CheckpointError as error:
            if error.path != directory or not copies or not has_copies:
                raise
            advice = f"To load files under PFRL's names, unverified, without counters, remove {MANIFEST} and {PREVIOUS}"
            raise CheckpointError(directory, f"{error.reason}. {advice}") from error
        if extra := [key for key in snapshot.keys if key not in known]:
            raise CheckpointError(directory, f"contains {', '.join(extra)}, which this agent does not have")
        paths = {
            name: snapshot.open(f"{name if f'{name}.pt' in snapshot.keys else old}.pt") for name, old in names.items()
        }
        states = None if modules_only else dict(snapshot.state)
        if states is not None and STATE_TENSORS in snapshot.keys:
            path = snapshot.open(STATE_TENSORS)
            join_state(states, load_tensors(path), path)
    else:
        paths = copies
        if not has_copies:
            missing = [os.path.relpath(path, directory) for path in paths.values()]
            raise CheckpointError(directory, _reason_empty(directory, missing))
        if state_files := orphan_state_files(directory):
            warnings.warn(
                f"{directory} contains {state_files[-1]} of an earlier save, but no {MANIFEST}: only the files under "
                f"PFRL's names are loaded: {', '.join(map(os.path.basename, paths.values()))}, without counters like t",
                stacklevel=3,
            )
    loaded = {name: load_tensors(paths[name], max_bytes=_bound(leaf)) for name, leaf in parts.leaves.items()}
    checked = {name: _checked_state(leaf, loaded[name], paths[name]) for name, leaf in parts.leaves.items()}
    _apply(parts, checked, states)


def _reason_empty(directory: str, names: list[str]) -> str:
    """Return the reason why no agent can be loaded. It lists the subfolders that contain the files `names`."""
    if not os.path.lexists(directory):
        outdir, name = os.path.split(os.path.abspath(directory))
        moved = sorted(glob.glob(f"earlier-*/{glob.escape(name)}", root_dir=outdir))  # by a later run
        return "; ".join(["does not exist", *(f"{outdir}/{each} exists" for each in moved)])
    if not os.path.isdir(directory):
        return "is a file, expected the directory of a saved agent"
    folders = sorted(glob.glob("*", root_dir=directory))
    places = {folder: [os.path.join(directory, folder, name) for name in names] for folder in folders}
    subfolders = [folder for folder, paths in places.items() if all(map(os.path.lexists, paths))]
    reason = f"contains no saved agent; expected {', '.join([MANIFEST, PREVIOUS, *names])}"
    return f"{reason}. Its folders {', '.join(subfolders)} contain saved agents" if subfolders else reason


def attributes_state(owner: Owner) -> dict[str, Any]:
    """Return all that `save_attributes` saves, as {"attributes": {...}, "state": {...}}; tensors are not copied."""
    parts = _Parts(owner, "state_dict")
    return {"attributes": {name: leaf.state_dict() for name, leaf in parts.leaves.items()}, "state": parts.states()}


def load_attributes_state(owner: Owner, state: Mapping[str, Any]) -> None:
    """Load the result of `attributes_state` completely, or not at all. `owner` keeps no reference to `state`.

    Raises:
        CheckpointError: If the state belongs to a different agent. `owner` is then unchanged.
    """
    parts = _Parts(owner, "state_dict")
    if set(state) != {"attributes", "state"} or set(state["attributes"]) != set(parts.leaves):
        raise CheckpointError("state_dict", f"is of a different agent: expected attributes {', '.join(parts.leaves)}")
    loaded = {}
    for name, leaf in parts.leaves.items():
        path = f"state_dict ({name})"
        loaded[name] = _checked_state(leaf, plain_tensors(state["attributes"][name], path), path)
    _apply(parts, loaded, plain_json(state["state"], "state_dict", kept=(torch.Tensor,)))


def _apply(parts: _Parts, loaded: Mapping[str, Any], states: Mapping[str, Any] | None) -> None:
    """Change the live objects. If one of them raises an error, restore the state of all objects."""
    if states is not None and (set(states) != set(parts.owners) or not all(type(s) is dict for s in states.values())):
        names = ", ".join(name or "the agent" for name in parts.owners)
        raise CheckpointError(parts.path, f"contains the state of a different agent; expected the state of {names}")
    before = {name: plain_tensors(leaf.state_dict(), parts.path) for name, leaf in parts.leaves.items()}
    states_before = parts.states() if states is not None else None
    try:
        for name, leaf in parts.leaves.items():
            leaf.load_state_dict(loaded[name])
        for name, state in (states or {}).items():
            parts.owners[name].restore_state(state)
    except BaseException as error:
        # Restore as many objects as possible. An object that rejects its previous state was not changed.
        for name, leaf in parts.leaves.items():
            with contextlib.suppress(Exception):
                leaf.load_state_dict(before[name])
        for name, state in (states_before or {}).items():
            with contextlib.suppress(Exception):
                parts.owners[name].restore_state(state)
        if isinstance(error, PfrlLikeError) or not isinstance(error, Exception):
            raise
        raise CheckpointError(parts.path, f"was rejected by the agent: {type(error).__name__}: {error}") from error


def _checked_state(leaf: Any, loaded: Any, path: str) -> Any:
    """Return the checked state for `leaf.load_state_dict`."""
    if isinstance(leaf, torch.nn.Module):
        check_like(loaded, leaf.state_dict(), path)
    elif isinstance(leaf, torch.optim.Optimizer):
        loaded = checked_optimizer_state(loaded, leaf, path)
    if (fault := _non_finite(leaf, loaded)) is not None:
        raise CheckpointError(path, f"contains NaN or infinity in {fault}; expected finite numbers")
    return loaded


def _non_finite(leaf: Any, state: Any) -> str | None:
    if isinstance(leaf, torch.nn.Module):
        return non_finite_parameter(leaf, state)
    return nan_state(state) if isinstance(leaf, torch.optim.Optimizer) else None


def _writer(leaf: Any, state: Any, path: str) -> Callable[[BinaryIO], None]:
    """Return a function that writes a leaf to a stream. Raise an error if loading the leaf would exceed `_bound`."""
    writer = tensor_writer(state, path)
    needed, bound = 2 * sum(tensor.nbytes for tensor in tensors_in(state)), _bound(leaf)
    if needed > bound:
        raise CheckpointError(path, f"cannot be written: loading it needs {needed} bytes, the limit is {bound}")
    return writer


def _bound(leaf: Any, factor: int = _FACTOR) -> int:
    """Return the memory limit for loading a leaf: `factor` times the bytes of the live leaf, plus a constant."""
    optimizer = isinstance(leaf, torch.optim.Optimizer)
    live: Any = [group["params"] for group in leaf.param_groups] if optimizer else leaf.state_dict()
    return _BASE_BYTES + factor * sum(tensor.nbytes for tensor in tensors_in(live))


def _unwrapped(value: Any) -> Any:
    """Return the module inside distributing or compiling wrappers, so that files do not depend on the wrappers."""
    while True:
        if isinstance(value, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            value = value.module
        elif isinstance(value, torch.nn.Module) and isinstance(getattr(value, "_orig_mod", None), torch.nn.Module):
            value = value._orig_mod
        else:
            return value
