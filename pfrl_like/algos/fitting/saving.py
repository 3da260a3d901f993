"""Files of estimators: hyperparameters as JSON, models as tensors; reading them executes nothing."""

import contextlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

import numpy as np

from pfrl_like.algos.fitting.scaling import SCALERS, take_scalers
from pfrl_like.augmentation import AugmentationPipeline
from pfrl_like.errors import CheckpointError
from pfrl_like.export import FORMATS, export_policy
from pfrl_like.gpu import Device
from pfrl_like.preprocessing import Scaler, make_scaler
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.budget import bounded_networks
from pfrl_like.storage.json_file import dump_json, parse_json, read_json
from pfrl_like.storage.plain_tensors import tensor_writer
from pfrl_like.storage.tensors import load_tensors
from pfrl_like.utils.described import Described
from pfrl_like.utils.user_warnings import levels_to_the_caller

#: Every estimator by the name of its class, as `params.json` has it.
ESTIMATORS: dict[str, type[Any]] = {}
#: More than any `params.json` takes; scalers of images hold a number for each pixel.
_MAX_JSON = 1 << 28
#: What a model's file holds.
_PARTS = {"attributes": dict, "state": str, "params": str}
#: What every `params.json` tells, beside the hyperparameters.
_TOLD = {"observation_shape", "action_size"}
#: What it may tell beside them, and no constructor takes.
_OF_THE_FILE = {"algorithm", "reward_convention"}
#: What goes wrong where a file tells what cannot be.
_CANNOT_BE = TypeError, ValueError, KeyError, AttributeError, RuntimeError, MemoryError, OverflowError
#: What building changes.
_BUILT = ("impl", "observation_shape_", "action_size_", "_built_with", *SCALERS, *(f"{name}_" for name in SCALERS))


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters as values that JSON has: descriptions of scalers, augmentations and dynamics, numbers of GPUs.

    `impl` is left out. A function of the user's own stands here by its name, from which it cannot be made again.
    """
    return {name: _plain(name, value) for name, value in params.items() if name != "impl"}


def _plain(name: str, value: Any) -> Any:
    if name == "dynamics" and value is not None:  # whose networks have a file of their own
        return value._json_params() if isinstance(value, Saving) else f"{value!r:.200}"
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


@contextlib.contextmanager
def told_by(fname: str | os.PathLike[str]) -> Iterator[None]:
    """Say of what cannot be, or takes too much memory, that a file tells it."""
    try:
        with bounded_networks():
            yield
    except _CANNOT_BE as error:
        if isinstance(error, CheckpointError) and error.path == str(fname):
            raise
        raise CheckpointError(fname, f"tells what cannot be: {error}") from error


def export_greedy(
    agent: Any,
    observation_shape: tuple[int, ...],
    fname: str | os.PathLike[str],
    as_onnx: bool = False,
    action_scaler: Scaler | None = None,
) -> None:
    """Export an agent's greedy policy; arguments and errors are those of `save_policy`.

    Args:
        agent: The agent.
        observation_shape: Shape of its observations, frames stacked.
        fname: The file.
        as_onnx: Whether it is ONNX whatever the name.
        action_scaler: What actions of the file are scaled back by; None for nothing.
    """

    def make_copy() -> Any:
        acting = agent.greedy_copy()
        if action_scaler is None:
            return acting
        act = acting.greedy_actions

        def greedy_actions(*args: Any) -> tuple[Any, Any]:
            action, value = act(*args)
            return action_scaler.reverse_transform(action), value

        acting.greedy_actions = greedy_actions
        return acting

    generator, shape = np.random.default_rng(0), (32, *observation_shape)
    examples = generator.normal(size=shape) if len(observation_shape) == 1 else generator.uniform(0, 255, shape)
    ending = os.path.splitext(fname)[1]
    format = ".onnx" if as_onnx else ending if ending in FORMATS else ".pt"
    export_policy(make_copy, fname, examples.astype(np.float32), format=format)


def made_of(kind: type[Any], params: Mapping[str, Any]) -> Any:
    """The estimator of what its `params.json` holds, built if it was; it warns of `dynamics`, which it has not."""
    given = {name: value for name, value in params.items() if name not in {*_OF_THE_FILE, *_TOLD}}
    if (dynamics := given.pop("dynamics", None)) is not None:
        told = dynamics.get("algorithm") if isinstance(dynamics, Mapping) else dynamics
        warnings.warn(
            f"this {kind.__name__} learnt with a {told} as dynamics, whose networks are in a file of their own: give "
            "it again by set_params(dynamics=...), or it learns without",
            UserWarning,
            stacklevel=levels_to_the_caller(),
        )
    for name, column in SCALERS.items():
        if given.get(name) is not None:
            given[name] = make_scaler(given[name], column)
    if given.get("augmentation"):
        given["augmentation"] = AugmentationPipeline(given["augmentation"])
    made = kind(**given)
    if params["observation_shape"] is not None:
        made.create_impl(params["observation_shape"], params["action_size"])
    return made


class Saving:
    """The saving and loading of estimators, and of their policies alone."""

    impl: Any
    observation_shape_: tuple[int, ...] | None
    action_size_: int | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ESTIMATORS[cls.__name__] = cls

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save all parameters, the states of optimisers included, so that training can go on.

        Raises:
            NotFittedError: Before the agent is built.
            CheckpointError: If the file cannot be written; an old one of this name stays.
        """
        algo: Any = self
        write_model(fname, algo._agent.state_dict(), self._json_params())

    #: What adapters of `pfrl_like.loggers.adapters` save models by.
    save = save_model

    def load_model(self, fname: str | os.PathLike[str]) -> None:
        """Load what `save_model` saved.

        An estimator that is not built yet, or with another scaler, is built anew with the shapes and the scaler saved.

        Raises:
            CheckpointError: If the file is damaged, or the model of another algorithm or of other networks; the
                estimator stays as it was.
        """
        state, params = read_model(fname)
        if params.get("algorithm") != type(self).__name__:
            raise CheckpointError(fname, f"holds a {params.get('algorithm')}, expected a {type(self).__name__}")
        self._take(fname, state, params)

    def _take(self, fname: Any, state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        algo: Any = self
        before = {name: getattr(self, name) for name in _BUILT}
        try:
            own = {name: _plain(name, getattr(self, f"{name}_")) for name in SCALERS}
            if self.impl is None or any(params.get(name) != described for name, described in own.items()):
                with told_by(fname):
                    saved = {name: make_scaler(params.get(name), column) for name, column in SCALERS.items()}
                    take_scalers(algo, saved)
                    algo.create_impl(params["observation_shape"], params["action_size"])
            try:
                self.impl.load_state_dict(state)
            except CheckpointError as error:  # which names the part
                raise CheckpointError(fname, f"does not fit: {error}") from error
        except BaseException:
            vars(self).update(before)
            raise

    def save_policy(self, fname: str | os.PathLike[str], as_onnx: bool = False) -> None:
        """Write the greedy policy into a file that runs without this library; its input is called `input_0`.

        It takes raw observations, as float32 (`frames.astype(np.float32)` of images), and gives actions of the data:
        the scalers are inside, stacking frames is not. Where predicting draws random numbers,
        they are fixed, as `export` of agents has it.

        Args:
            fname: The file. A name that ends in `.onnx` or `.pt2` (for `torch.export`) chooses that format.
            as_onnx: Whether it is ONNX whatever the name; otherwise it is TorchScript.

        Raises:
            NotFittedError: Before the agent is built.
            ExportError: If the policy cannot be put into such a file.
            CheckpointError: If the file cannot be written; an older one stays.
            MissingDependencyError: If a package for the format is not installed.
        """
        algo: Any = self
        export_greedy(algo._agent, algo._stacked_shape, fname, as_onnx, algo.action_scaler_)

    def _json_params(self) -> dict[str, Any]:
        """What `params.json` holds."""
        algo: Any = self
        scalers = {name: getattr(self, f"{name}_") or getattr(self, name) for name in SCALERS}
        params = plain_params(algo.get_params(deep=False) | scalers)
        shapes = {"observation_shape": self.observation_shape_, "action_size": self.action_size_}
        return {"algorithm": type(self).__name__, **params, **shapes}

    @classmethod
    def from_json(cls, fname: str | os.PathLike[str], use_gpu: Any = False) -> Self:
        """An estimator with the hyperparameters of a `params.json`, built, so that it can load a model.

        Called on `Estimator` it makes one of whatever class the file says.

        Args:
            fname: The file.
            use_gpu: As of the constructor.

        Raises:
            CheckpointError: If the file is damaged, or of another algorithm.
        """
        return cls._of_params(fname, params_from_json(fname), use_gpu)

    @classmethod
    def _of_params(cls, fname: Any, params: dict[str, Any], use_gpu: Any) -> Self:
        name = params.get("algorithm")
        kind: Any = cls if cls.__name__ == name else ESTIMATORS.get(str(name))
        if kind is None or not issubclass(kind, cls):
            unknown = f"{cls.__name__}{' or of a class that is imported' if kind is None else ''}"
            raise CheckpointError(fname, f"holds the hyperparameters of {name!r}, expected those of {unknown}")
        with told_by(fname):
            return cast(Self, made_of(kind, {**params, "use_gpu": Device.of(use_gpu)}))


def loaded_estimator(fname: Any, state: Mapping[str, Any], params: dict[str, Any], use_gpu: Any) -> Any:
    """An estimator of whatever class, as `read_model` found it: with its hyperparameters, and what it had learnt.

    Args:
        fname: The file, for errors.
        state: The agent's state.
        params: The hyperparameters.
        use_gpu: As of the constructor.

    Raises:
        CheckpointError: If they do not fit together, or the agent was handed in, which no hyperparameters make again.
    """
    made = ESTIMATORS["Estimator"]._of_params(fname, params, use_gpu)
    made._take(fname, state, params)
    return made
