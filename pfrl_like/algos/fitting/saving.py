"""Saving, loading and copying of estimators: hyperparameters as JSON, models as tensors; reading executes no code."""

import contextlib
import copy
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim import Optimizer

from pfrl_like.algos.fitting.spaces import SCALERS, take_scalers
from pfrl_like.augmentation import AugmentationPipeline
from pfrl_like.errors import CheckpointError
from pfrl_like.export import FORMATS, export_policy
from pfrl_like.gpu import Device
from pfrl_like.preprocessing import Scaler, make_scaler
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json, parse_json, read_json
from pfrl_like.storage.plain_tensors import tensor_writer
from pfrl_like.storage.tensors import load_tensors
from pfrl_like.utils.checks import levels_to_the_caller
from pfrl_like.utils.copy_param import check_same_form, copy_param
from pfrl_like.utils.plain_values import Configurable

#: Largest numbers of parameters and of tensors in networks that a file of hyperparameters may describe.
MOST_NUMBERS, MOST_TENSORS = 1 << 27, 1 << 12

#: All estimator classes by name; `params.json` contains the name.
ESTIMATORS: dict[str, type[Any]] = {}
#: Largest size of a `params.json` in bytes, more than any needs; scalers of images hold a number for each pixel.
_MAX_JSON = 1 << 28
#: Entries of a model's file, with their types.
_PARTS = {"attributes": dict, "state": str, "params": str}
#: Entries of every `params.json` in addition to the hyperparameters.
_TOLD = {"observation_shape", "action_size"}
#: Entries that a `params.json` may have and no constructor takes.
_OF_THE_FILE = {"algorithm", "reward_convention"}
#: Exceptions raised on invalid contents of a file.
_CANNOT_BE = TypeError, ValueError, KeyError, AttributeError, RuntimeError, MemoryError, OverflowError
#: Attributes that building the agent changes.
_BUILT = ("impl", "observation_shape_", "action_size_", "_built_with", *SCALERS, *(f"{name}_" for name in SCALERS))


def _plain(name: str, value: Any) -> Any:
    if name == "dynamics" and value is not None:  # its networks are saved in another file
        return value._json_params() if isinstance(value, Saving) else f"{value!r:.200}"
    if name == "augmentation":
        return [
            each.describe() if isinstance(each, Configurable) else repr(each) for each in AugmentationPipeline(value)
        ]
    if hasattr(value, "get_id"):
        return value.get_id()
    return value.describe() if isinstance(value, Configurable) else value


def params_from_json(fname: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the hyperparameters in a `params.json`.

    Raises:
        CheckpointError: If the file is damaged or is no `params.json`.
    """
    path = os.fspath(fname)
    return _complete(read_json(path, _MAX_JSON), path)


def _complete(params: dict[str, Any], path: str) -> dict[str, Any]:
    """The hyperparameters, checked to have the shapes of observations and actions.

    Older files of an `FQE` have them under other names: the class as "class", and its configuration as "config".
    """
    if not params.keys() >= _TOLD:
        raise CheckpointError(path, f"holds no hyperparameters of an estimator, which have {', '.join(sorted(_TOLD))}")
    if "class" not in params:
        return params
    with told_by(path):
        told = {"n_frames": 1, "discrete_action": None, **params, **params["config"], "algorithm": params["class"]}
        return told | {"scaler": told["observation_scaler"]}


def write_model(fname: str | os.PathLike[str], state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Write an agent's state, with the hyperparameters that it was built with.

    Raises:
        CheckpointError: If the file cannot be written; an old file of this name stays.
    """
    path = os.fspath(fname)
    content = {
        "attributes": state["attributes"], "state": json.dumps(state["state"]),
        "params": dump_json(params, path).decode(),
    }  # fmt: skip
    atomic_write(path, tensor_writer(content, path))


def read_model(fname: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the agent's state and the hyperparameters.

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
    """Turn errors within the block, caused by invalid contents of a file, into a CheckpointError that names the file.

    Networks larger than `MOST_NUMBERS` or `MOST_TENSORS` are an error while they are made, before their memory is
    written to.
    """
    numbers = tensors = 0

    def count(module: Any, name: str, parameter: Any) -> None:
        nonlocal numbers, tensors
        if parameter is not None:
            numbers, tensors = numbers + parameter.numel(), tensors + 1
        if numbers > MOST_NUMBERS or tensors > MOST_TENSORS:
            raise ValueError(f"its networks have more than {MOST_NUMBERS} parameters in {MOST_TENSORS} tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except _CANNOT_BE as error:
        if isinstance(error, CheckpointError) and error.path == str(fname):
            raise
        raise CheckpointError(fname, f"tells what cannot be: {error}") from error
    finally:
        handle.remove()


def export_greedy(
    agent: Any,
    observation_shape: tuple[int, ...],
    fname: str | os.PathLike[str],
    as_onnx: bool = False,
    action_scaler: Scaler | None = None,
) -> None:
    """Export an agent's greedy policy; errors are those of `save_policy`.

    Args:
        agent: The agent.
        observation_shape: Shape of its observations, frames stacked.
        fname: The file. A name that ends in `.onnx` or `.pt2` (for `torch.export`) chooses that format.
        as_onnx: Whether the format is ONNX for any name; otherwise other names get TorchScript.
        action_scaler: Scaler whose inverse is applied to the actions in the file; None for none.
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
    """Make an estimator from the contents of its `params.json`, built if it was; warns that it has no `dynamics`."""
    given = {name: value for name, value in params.items() if name not in {*_OF_THE_FILE, *_TOLD}}
    if (dynamics := given.pop("dynamics", None)) is not None:
        told = dynamics.get("algorithm") if isinstance(dynamics, Mapping) else dynamics
        warnings.warn(
            f"this {kind.__name__} learnt with {told} as dynamics, whose networks are in a file of their own: give "
            "it again by set_params(dynamics=...), or it learns without",
            UserWarning,
            stacklevel=levels_to_the_caller(),
        )
    for name, column in SCALERS.items():
        if given.get(name) is not None:
            given[name] = make_scaler(given[name], column)
    if given.get("augmentation"):
        given["augmentation"] = AugmentationPipeline(given["augmentation"])
    made = kind._made(given)
    if params["observation_shape"] is not None:
        made.create_impl(params["observation_shape"], params["action_size"])
    return made


class Saving:
    """Saving and loading of estimators, export of their policies, and copying from one estimator to another.

    Parameters of networks and states of optimisers are copied; all are checked before anything is copied.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ESTIMATORS[cls.__name__] = cls

    def save_model(self: Any, fname: str | os.PathLike[str]) -> None:
        """Save all parameters and the states of optimisers, so that training can continue.

        Raises:
            NotFittedError: Before the agent is built.
            CheckpointError: If the file cannot be written; an old file of this name stays.
        """
        write_model(fname, self._agent.state_dict(), self._json_params())

    #: The method that adapters of `pfrl_like.loggers` call to save models.
    save = save_model

    def load_model(self, fname: str | os.PathLike[str]) -> None:
        """Load a model saved by `save_model`.

        An estimator that is not built yet, or has other scalers, is built anew with the saved shapes and scalers.

        Raises:
            CheckpointError: If the file is damaged, or is the model of another algorithm or of other networks; the
                estimator stays unchanged.
        """
        state, params = read_model(fname)
        if params.get("algorithm") != type(self).__name__:
            raise CheckpointError(fname, f"holds {params.get('algorithm')}, expected {type(self).__name__}")
        self._take(fname, state, params)

    def _take(self: Any, fname: Any, state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        before = {name: getattr(self, name) for name in _BUILT}
        try:
            own = {name: _plain(name, getattr(self, f"{name}_")) for name in SCALERS}
            if self.impl is None or any(params.get(name) != described for name, described in own.items()):
                with told_by(fname):
                    saved = {name: make_scaler(params.get(name), column) for name, column in SCALERS.items()}
                    take_scalers(self, saved)
                    self.create_impl(params["observation_shape"], params["action_size"])
            try:
                self._load(state)
            except _CANNOT_BE as error:  # names the part, but not the file
                raise CheckpointError(fname, f"does not fit: {error}") from error
        except BaseException:
            vars(self).update(before)
            raise

    def _load(self: Any, state: Mapping[str, Any]) -> None:
        """Load the state that `save_model` wrote into the agent."""
        self.impl.load_state_dict(state)

    def save_policy(self: Any, fname: str | os.PathLike[str], as_onnx: bool = False) -> None:
        """Export the greedy policy to a file that runs without this library; its input is called `input_0`.

        The input is raw observations, as float32 (`frames.astype(np.float32)` of images), and the output actions of the
        data: the file contains the scalers, but does not stack frames. Random numbers that the policy draws are fixed,
        as in `export` of agents.

        Args:
            fname: The file. A name that ends in `.onnx` or `.pt2` (for `torch.export`) chooses that format.
            as_onnx: Whether the format is ONNX for any name; otherwise other names get TorchScript.

        Raises:
            NotFittedError: Before the agent is built.
            ExportError: If the policy cannot be exported in this format.
            CheckpointError: If the file cannot be written; an old file of this name stays.
            MissingDependencyError: If a package for the format is not installed.
        """
        export_greedy(self._agent, self._stacked_shape, fname, as_onnx, self.action_scaler_)

    def _json_params(self: Any) -> dict[str, Any]:
        """Hyperparameters as JSON values, except `impl`.

        Scalers, augmentations and dynamics are described, GPUs are numbers. A function of the user is given by its
        name, from which it cannot be made again.
        """
        scalers = {name: getattr(self, f"{name}_") or getattr(self, name) for name in SCALERS}
        given = self.get_params(deep=False) | scalers
        params = {name: _plain(name, value) for name, value in given.items() if name != "impl"}
        shapes = {"observation_shape": self.observation_shape_, "action_size": self.action_size_}
        return {"algorithm": type(self).__name__, **params, **shapes}

    @classmethod
    def from_json(cls, fname: str | os.PathLike[str], use_gpu: Any = False) -> Self:
        """Make an estimator with the hyperparameters of a `params.json`, built, so that it can load a model.

        Called on `Estimator` it makes one of the class that the file names.

        Args:
            fname: The file.
            use_gpu: True or the number of a GPU, or a `pfrl_like.gpu.Device`; False for the CPU.

        Raises:
            CheckpointError: If the file is damaged, or of another algorithm.
        """
        return cls._of_params(fname, params_from_json(fname), Device.of(use_gpu))

    @classmethod
    def _made(cls, given: dict[str, Any]) -> Any:
        """Make an estimator with the given hyperparameters."""
        return cls(**given)

    @classmethod
    def _of_params(cls, fname: Any, params: dict[str, Any], use_gpu: Any) -> Self:
        name = params.get("algorithm")
        kind: Any = cls if cls.__name__ == name else ESTIMATORS.get(str(name))
        if kind is None or not issubclass(kind, cls):
            unknown = f"{cls.__name__}{' or of a class that is imported' if kind is None else ''}"
            raise CheckpointError(fname, f"holds the hyperparameters of {name!r}, expected those of {unknown}")
        with told_by(fname):
            return cast(Self, made_of(kind, {**params, "use_gpu": use_gpu}))

    # Copying from another estimator

    def copy_policy_from(self, algo: Any) -> None:
        """Copy the parameters of another estimator's policy, which has the same architecture, to policy and target.

        A target gets the parameters of the other estimator's target, or of its network if it has no target. Scalers,
        through which a network sees observations, actions and rewards, are not copied. If they differ, the network
        behaves differently, and a warning says so; `scaler=algo.scaler_`, and so on, in the constructor makes them the
        same.

        Args:
            algo: The other estimator.

        Raises:
            NotFittedError: If one of the two is not built yet.
            TypeError: If `algo` is no estimator.
            ValueError: If one of the two has no policy, or the networks differ; nothing is copied.
        """
        self._copy(algo, "policy")

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Copy the optimiser state of another estimator's policy, such as running means of gradients.

        Learning rates and other hyperparameters are not copied. Arguments and errors are those of `copy_policy_from`; a
        ValueError is also raised if the optimisers are of different kinds.
        """
        self._copy_states(algo, "policy")

    def copy_q_function_from(self, algo: Any) -> None:
        """Copy the parameters of another estimator's Q-functions; arguments and errors as in `copy_policy_from`."""
        self._copy(algo, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Copy the optimiser state of another estimator's Q-functions; errors as in `copy_policy_optim_from`."""
        self._copy_states(algo, "Q-function")

    def _copy(self: Any, algo: Any, what: str) -> None:
        names = self._shared(algo, what)
        pairs = [pair for each in names for pair in _with_targets(self._agent, algo._agent, *each)]
        copy_networks(pairs, what)
        _warn_of_scalers(self, algo, what)

    def _copy_states(self: Any, algo: Any, what: str) -> None:
        names = self._shared(algo, what)
        ours, theirs = self._agent, algo._agent
        pairs = [(getattr(ours, own), getattr(theirs, other)) for own, other in names]
        take_states_of(ours, theirs, pairs, what)

    def _shared(self: Any, algo: Any, what: str) -> list[tuple[str, str]]:
        """Pairs of names of the networks of a kind: in this estimator's agent and in the other one's."""
        if not isinstance(algo, Saving):
            raise TypeError(f"algo is {type(algo).__name__}, expected an estimator")
        ours, theirs = _names(self._agent, what), _names(algo._agent, what)  # type: ignore[attr-defined]
        if not ours or len(ours) != len(theirs):
            kinds = f"{type(algo).__name__} to {type(self).__name__}"
            raise ValueError(f"{kinds}: expected two estimators that have a {what}")
        return [*zip(ours, theirs, strict=True)]

    def reset_optimizer_states(self: Any) -> None:
        """Reset the states of all optimisers."""
        reset_optimizers(self._agent)


def _owner(param: Tensor, optimizers: Sequence[Optimizer]) -> Optimizer:
    for optimizer in optimizers:
        if any(each is param for group in optimizer.param_groups for each in group["params"]):
            return optimizer
    raise ValueError(f"there is no optimiser of a parameter of shape {tuple(param.shape)}")


def _put(optimizer: Optimizer, new: dict[int, dict[str, Any]]) -> None:
    whole = optimizer.state_dict()
    params = [param for group in optimizer.param_groups for param in group["params"]]
    states = {i: new.get(id(param), whole["state"].get(i)) for i, param in enumerate(params)}
    whole["state"] = {i: state for i, state in states.items() if state}
    with torch.no_grad():
        optimizer.load_state_dict(whole)


def _warn_of_scalers(algo: Any, other: Any, what: str) -> None:
    for name, column in SCALERS.items():
        ours, theirs = (getattr(each, f"{name}_") for each in (algo, other))
        described = [None if each is None else each.describe() for each in (ours, theirs)]
        if described[0] != described[1] and (what, column) != ("policy", "rewards"):
            warnings.warn(
                f"the {what} has learnt from {column} through the {name} {theirs!r:.60}, and sees them through "
                f"{ours!r:.60} here: make the estimator with {name}=algo.{name}_ of the other one",
                UserWarning,
                stacklevel=levels_to_the_caller(),
            )


def _names(agent: Any, what: str) -> list[str]:
    """The names of an agent's attributes that are networks of a kind, "policy" or "Q-function"."""
    names = ("policy",) if what == "policy" else getattr(agent, "critic_arguments", ("model",))
    return [name for name in names if isinstance(getattr(agent, name, None), nn.Module)]


def _with_targets(ours: Any, theirs: Any, name: str, other_name: str) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Pairs of the network to copy to and the network to copy from: the network, then its target if there is one."""
    other = getattr(theirs, other_name)
    yield getattr(ours, name), other
    if (target := getattr(ours, f"target_{name}", None)) is not None:
        yield target, getattr(theirs, f"target_{other_name}", other)


def _optimizers(agent: Any) -> list[Any]:
    return [step.optimizer for step in agent.gradient_steps.values()]


def check_form(own: nn.Module, other: nn.Module, what: str) -> None:
    """Raise an error if the parameters of another network do not fit.

    Raises:
        ValueError: If they have other names or shapes; the message says what the network is.
    """
    try:
        check_same_form(own, other)
    except ValueError as error:
        raise ValueError(f"algo has a {what} of another form: {error}") from error


def copy_networks(pairs: Sequence[tuple[nn.Module, nn.Module]], what: str) -> None:
    """Copy the parameters of other networks; each pair has the own network and the other one.

    Raises:
        ValueError: If the parameters of a pair have other names or shapes; nothing is copied.
    """
    for own, other in pairs:
        check_form(own, other, what)
    for own, other in pairs:
        copy_param(own, other)


def take_states_of(agent: Any, other: Any, networks: Sequence[tuple[nn.Module, nn.Module]], what: str) -> None:
    """Copy the optimiser states of another agent's networks; learning rates and the like are not copied.

    Args:
        agent: The agent.
        other: The other agent.
        networks: Networks of the agent, each with that of the other agent.
        what: Name of the networks in messages.

    Raises:
        ValueError: If the networks differ in names or shapes of parameters, the optimisers differ in class, an
            optimiser is missing, or its state has a tensor that is neither a number nor of the parameter's shape; all
            states stay unchanged.
    """
    for own, theirs in networks:
        check_form(own, theirs, what)
    optimizers, sources = _optimizers(agent), _optimizers(other)
    params = [param for own, _ in networks for param in own.parameters()]
    others = [param for _, theirs in networks for param in theirs.parameters()]
    new: dict[int, dict[str, Any]] = {}
    for param, given in zip(params, others, strict=True):
        own_optimizer, source = _owner(param, optimizers), _owner(given, sources)
        if type(own_optimizer) is not type(source):
            raise ValueError(f"algo learns by {type(source).__name__}, expected {type(own_optimizer).__name__}")
        new[id(param)] = copy.deepcopy(source.state.get(given, {}))
        for name, value in new[id(param)].items():
            if isinstance(value, Tensor) and value.dim() and value.shape != param.shape:
                got, expected = tuple(value.shape), tuple(param.shape)
                raise ValueError(f"algo has an optimiser whose {name} has shape {got}, expected {expected}")
    for optimizer in {id(each): each for each in (_owner(param, optimizers) for param in params)}.values():
        _put(optimizer, new)


def reset_optimizers(agent: Any) -> None:
    """Reset the states of all optimisers of an agent."""
    for optimizer in _optimizers(agent):
        optimizer.state.clear()
