"""Files of estimators: hyperparameters as JSON, models as tensors; reading them executes nothing."""

import json
import os
from collections.abc import Mapping
from typing import Any

from pfrl_like.augmentation import AugmentationPipeline
from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json, parse_json, read_json
from pfrl_like.storage.plain_tensors import tensor_writer
from pfrl_like.storage.tensors import load_tensors
from pfrl_like.utils.described import Described

#: More than any `params.json` takes; scalers of images hold a number for each pixel.
_MAX_JSON = 1 << 28
#: What a model's file holds.
_PARTS = {"attributes": dict, "state": str, "params": str}
#: What every `params.json` tells, beside the hyperparameters.
_TOLD = {"observation_shape", "action_size"}


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters as values that JSON has: descriptions of scalers and augmentations, numbers of GPUs.

    Models have files of their own: `dynamics` is None here, and `impl` left out. A function of the user's own stands
    here by its name, from which it cannot be made again.
    """
    return {name: _plain(name, value) for name, value in params.items() if name != "impl"}


def _plain(name: str, value: Any) -> Any:
    if name == "dynamics":
        return None
    if name == "augmentation":
        return [each.describe() if isinstance(each, Described) else repr(each) for each in AugmentationPipeline(value)]
    if hasattr(value, "get_id"):
        return value.get_id()
    return value.describe() if isinstance(value, Described) else value


def params_from_json(fname: str | os.PathLike[str]) -> dict[str, Any]:
    """What `params.json` holds.

    Raises:
        CheckpointError: If it is no such file.
    """
    path = os.fspath(fname)
    return _complete(read_json(path, _MAX_JSON), path)


def _complete(params: dict[str, Any], path: str) -> dict[str, Any]:
    """The hyperparameters, which tell of the shapes."""
    if not params.keys() >= _TOLD:
        raise CheckpointError(path, f"holds no hyperparameters of an estimator, which have {', '.join(sorted(_TOLD))}")
    return params


def write_model(fname: str | os.PathLike[str], state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Write an agent's state, with the hyperparameters that it was built with.

    Raises:
        CheckpointError: If it cannot be written; an old file stays.
    """
    path = os.fspath(fname)
    content = {
        "attributes": state["attributes"], "state": json.dumps(state["state"]),
        "params": dump_json(params, path).decode(),
    }  # fmt: skip
    atomic_write(path, tensor_writer(content, path))


def read_model(fname: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The agent's state and the hyperparameters.

    Raises:
        CheckpointError: If the file is damaged, or is no model.
    """
    path = os.fspath(fname)
    content = load_tensors(path)
    if not isinstance(content, dict) or {name: type(part) for name, part in content.items()} != _PARTS:
        raise CheckpointError(path, "holds no model that save_model wrote")
    state = {"attributes": content["attributes"], "state": parse_json(content["state"].encode(), path)}
    return state, _complete(parse_json(content["params"].encode(), path), path)
