"""Datasets of Minari: a folder with `data/metadata.json` and `data/main_data.hdf5`, with one group per episode."""

import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfrl_like.batch import combine_nested, first_leaf
from pfrl_like.columns import Field
from pfrl_like.dataset.conventions import actions_of, field_of, flags_of, log_probs_of, numbers_of, table_from_rows
from pfrl_like.dataset.flat import MOST_ACTIONS, looks_discrete
from pfrl_like.dataset.io.hdf5 import Members, h5py_module, new_hdf5, open_hdf5, write_nested
from pfrl_like.dataset.table import Table
from pfrl_like.errors import CheckpointError
from pfrl_like.storage import atomic_write, dump_json, make_directory, read_json

_LOG_PROB = "log_prob"  # key in `infos`, which have an additional first row for the reset
_DATA, _META = "main_data.hdf5", "metadata.json"
#: Limit on the size of the metadata in bytes. The metadata contain all bounds of image spaces.
LARGEST_META = 1 << 26
_EPISODE = re.compile(r"episode_(\d+)")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)*-v\d+")


def check_minari_id(**named: str) -> None:
    """Raise an error if an argument is not a dataset id of Minari, for example because it is a path.

    Raises:
        ValueError: If an id is invalid.
    """
    for name, value in named.items():
        if not _NAME.fullmatch(value) or ".." in value:
            raise ValueError(f"{name}: got {value!r}, expected an id of Minari, such as 'mujoco/hopper/medium-v0'")


def read_minari(directory: Path, max_bytes: int | None = None) -> tuple[Table, bool, int]:
    """Read a dataset as a table. Also return True if actions are discrete, and their minimum number.

    Args:
        directory: The dataset's folder.
        max_bytes: Limit on the memory of the arrays, in bytes. If None, max(`flat.RATIO` * file size, `flat.FLOOR`).

    Raises:
        CheckpointError: If the directory contains no dataset, or the dataset is damaged.
        MissingDependencyError: If h5py is not installed.
    """
    data = directory if (directory / _META).exists() else directory / "data"
    meta = read_json(str(data / _META), LARGEST_META)
    kind = meta.get("data_format", "hdf5")
    if kind != "hdf5":
        raise CheckpointError(data, f"has data_format {kind!r}, expected 'hdf5'")
    image = _image_shape(meta)
    with open_hdf5(str(data / _DATA), max_bytes) as file:
        numbers = sorted(int(found[1]) for name in file if (found := _EPISODE.fullmatch(name)))
        if not numbers:
            raise CheckpointError(data / _DATA, "contains no episodes")
        return *_table([_read_episode(file.subgroup(f"episode_{i}"), image) for i in numbers]), _n_actions(meta)


def _read_episode(episode: Members, image: tuple[int, ...] | None) -> dict[str, Any]:
    parts = {name: episode.read(name) for name in ("actions", "rewards", "terminations", "truncations")}
    if "infos" in episode and _LOG_PROB in (infos := episode.subgroup("infos")):
        parts[_LOG_PROB] = infos.read(_LOG_PROB)
    node = episode.node("observations")
    encoded = image and not hasattr(node, "keys") and node.shape[1:] != image
    parts["observations"] = _decoded(node, image, episode) if encoded and image else episode.read("observations")
    steps = len(parts["rewards"])
    lengths = {name: len(first_leaf(parts[name])) - (name in ("observations", _LOG_PROB)) for name in parts}
    if any(length != steps for length in lengths.values()) or not steps:
        raise ValueError(f"{episode.group.name} has arrays of lengths {lengths}, expected {steps} each, and at least 1")
    if _LOG_PROB in parts:
        parts[_LOG_PROB] = parts[_LOG_PROB][1:]
    return parts


def _table(episodes: list[dict[str, Any]]) -> tuple[Table, bool]:
    common_names = [name for name in episodes[0] if all(name in episode for episode in episodes)]
    arrays = {name: combine_nested(np.concatenate, [episode[name] for episode in episodes]) for name in common_names}
    obs, n_obs = field_of(arrays["observations"])
    ends = np.cumsum([len(episode["rewards"]) for episode in episodes]) - 1
    n = int(ends[-1]) + 1
    discrete = looks_discrete(np.asarray(arrays["actions"]))
    actions, rewards = actions_of(arrays["actions"], n, discrete), numbers_of("rewards", arrays["rewards"], n)
    terminal = flags_of("terminations", arrays["terminations"], n)
    if early := np.setdiff1d(np.flatnonzero(terminal), ends).tolist():
        raise ValueError(f"terminations: set in step {early[0]}, which is not the last step of its episode")
    at = np.delete(np.arange(n_obs), ends + np.arange(1, len(ends) + 1))
    log_prob = log_probs_of(_LOG_PROB, arrays[_LOG_PROB], n, discrete) if _LOG_PROB in arrays else None
    return table_from_rows(
        obs, actions, rewards, terminal[ends], ends, np.ones(len(ends), np.bool_), obs_row=at, end_obs=at[ends] + 1,
        log_prob=log_prob,
    ), discrete  # fmt: skip


def _image_shape(meta: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the shape of image observations, which Minari compresses by default. None if they are not images."""
    space = _space_of(meta, "observation_space")
    shape: Any = space.get("shape")
    known = isinstance(shape, list) and len(shape) == 3 and all(type(size) is int for size in shape)
    is_image = known and space.get("type") == "Box" and space.get("dtype") == "uint8"
    return tuple(shape) if is_image and meta.get("jpeg_encoding", True) else None


def _n_actions(meta: Mapping[str, Any]) -> int:
    """Return the number of actions of a Discrete action space. 0 if it is unknown, or if actions do not start at 0."""
    space = _space_of(meta, "action_space")
    n = space.get("n") if space.get("type") == "Discrete" and space.get("start", 0) == 0 else 0
    return n if type(n) is int and 0 < n <= MOST_ACTIONS else 0


def _space_of(meta: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the description of a space in the metadata. {} if the metadata contain no valid description."""
    try:
        space = json.loads(meta.get(name, "{}"))
    except (ValueError, TypeError, RecursionError):
        return {}
    return space if isinstance(space, dict) else {}


def _decoded(node: Any, shape: tuple[int, ...], episode: Members) -> NDArray[np.uint8]:
    """Return images that are stored as JPEG files, one row of bytes per image."""
    episode.check_readable(node)
    bytes_each = h5py_module().check_vlen_dtype(node.dtype) == np.uint8
    if not (bytes_each or (node.dtype == np.uint8 and node.ndim == 2)):
        raise ValueError(f"{node.name} contains {node.dtype}, expected images")
    episode.budget.spend(len(node) * math.prod(shape), node.name)
    images = np.empty((len(node), *shape), np.uint8)
    for i, content in enumerate(node):
        with Image.open(io.BytesIO(np.asarray(content, np.uint8).tobytes()), formats=["JPEG"]) as image:
            if image.size != (shape[1], shape[0]):
                raise ValueError(f"{node.name}: image {i} has size {image.size}, expected {shape[1::-1]}")
            images[i] = np.asarray(image).reshape(shape)
    return images


def write_minari(table: Table, n_actions: int | None, directory: Path, dataset_id: str, env_spec: str | None) -> None:
    """Write a dataset. The file `metadata.json` is written last, when the dataset is complete.

    Raises:
        ValueError: If `dataset_id` is invalid, or if there are no transitions.
        CheckpointError: If the dataset exists already, or cannot be written.
    """
    check_minari_id(dataset_id=dataset_id)
    data = directory / dataset_id / "data"
    if (data / _META).exists():
        raise CheckpointError(data, "already contains a dataset")
    kept = np.flatnonzero(table.lengths > 0)
    if not len(kept):
        raise ValueError("the dataset has no transitions, expected at least one")
    make_directory(str(data))
    with new_hdf5(data / _DATA, track_order=True) as file:
        for i, number in enumerate(kept.tolist()):
            group = file.create_group(f"episode_{i}")
            for name, values in _episode_arrays(table, number):
                write_nested(group, name, values)
            group.attrs["id"], group.attrs["total_steps"] = i, int(table.lengths[number])
    box = _box(table.action.shape[1:], table.action.dtype)
    discrete = {"type": "Discrete", "dtype": "int64", "start": 0, "n": n_actions}
    meta = {
        "dataset_id": dataset_id, "total_episodes": len(kept), "total_steps": int(table.lengths.sum()),
        "data_format": "hdf5", "jpeg_encoding": False, "minari_version": "0.5.4",
        "observation_space": json.dumps(_nested_space(table.obs, table.obs.structure)),
        "action_space": json.dumps(box if n_actions is None else discrete),
        "dataset_size": round((data / _DATA).stat().st_size / 1e6, 1),
    }  # fmt: skip
    if env_spec is not None:
        meta["env_spec"] = env_spec
    atomic_write(data / _META, dump_json(meta, str(data / _META), LARGEST_META))


def _episode_arrays(table: Table, number: int) -> Iterator[tuple[str, Any]]:
    start, length = int(table.starts[number]), int(table.lengths[number])
    rows = slice(start - 1, start - 1 + length)
    last = np.arange(length) == length - 1
    yield "observations", table.observations(np.arange(start, start + length + 1))
    yield "actions", table.action[rows]
    yield "rewards", table.reward[rows]
    yield "terminations", last & table.terminated[number]
    yield "truncations", last & ~table.terminated[number]
    if table.log_prob is not None:
        yield "infos", {_LOG_PROB: np.append(0.0, table.log_prob[rows])}


def _nested_space(field: Field, structure: Any) -> dict[str, Any]:
    if isinstance(structure, dict):
        return {"type": "Dict", "subspaces": {key: _nested_space(field, part) for key, part in structure.items()}}
    if isinstance(structure, tuple):
        return {"type": "Tuple", "subspaces": [_nested_space(field, part) for part in structure]}
    leaf = field.leaves[structure]
    return _box(leaf.shape, leaf.dtype)


def _box(shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the description of a Box space that contains every array of this shape and dtype."""
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (0, 1)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    bounds = {name: np.full(shape, value).tolist() for name, value in (("low", low), ("high", high))}
    return {"type": "Box", "dtype": str(dtype), "shape": list(shape)} | bounds
