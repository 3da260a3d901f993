"""Saving, loading and copying of estimators.

Hyperparameters are saved as JSON and models as tensors. Loading a file executes no code.
"""

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

from pfrl_like.algos.fitting import d3rlpy_files
from pfrl_like.algos.fitting.spaces import SCALERS, set_scalers
from pfrl_like.augmentation import AugmentationPipeline
from pfrl_like.errors import CheckpointError
from pfrl_like.export.export_policy import FORMATS, TOLERANCE, export_policy
from pfrl_like.gpu import Device
from pfrl_like.preprocessing import Scaler, make_scaler
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json, parse_json, read_json
from pfrl_like.storage.plain_tensors import tensor_writer
from pfrl_like.storage.tensors import load_tensors
from pfrl_like.utils.checks import levels_to_the_caller
from pfrl_like.utils.copy_param import check_same_form, copy_param
from pfrl_like.utils.plain_values import Configurable

PathLike = str | os.PathLike[str]
#: Maximum number of parameters, and of tensors, of the networks that are created from a file.
MAX_PARAMETERS, MAX_TENSORS = 1 << 27, 1 << 12

#: Estimator classes, keyed by class name. `params.json` contains the class name.
ESTIMATORS: dict[str, type[Any]] = {}
#: Maximum size of a `params.json` in bytes. Scalers of images contain one number per pixel.
_MAX_JSON = 1 << 28
#: Entries of a model file; values are the types of the entries.
_PARTS = {"attributes": dict, "state": str, "params": str}
#: Entries of every `params.json` in addition to the hyperparameters.
_SHAPES = {"observation_shape", "action_size"}
#: Entries of a `params.json` that are not constructor arguments.
_NOT_ARGUMENTS = {"algorithm", "reward_convention"}
#: Entries of an agent's state with the steps of running episodes. Model files do not contain them, nor replay buffers.
_STEPS = {"rollout", "context", "memory"}
#: Exceptions that invalid contents of a file cause.
_CONTENT_ERRORS = TypeError, ValueError, KeyError, AttributeError, RuntimeError, MemoryError, OverflowError
#: Attributes that `create_impl` sets.
_BUILT_KEYS = ("impl", "observation_shape_", "action_size_", "_agent_args", *SCALERS, *(f"{name}_" for name in SCALERS))


def _json_value(name: str, value: Any) -> Any:
    if name == "dynamics" and value is not None:  # the networks of the dynamics model are saved in another file
        return value._json_params() if isinstance(value, Saving) else f"{value!r:.200}"
    if name == "augmentation":
        pipeline = AugmentationPipeline(value)
        return [each.describe() if isinstance(each, Configurable) else repr(each) for each in pipeline]
    if hasattr(value, "get_id"):
        return value.get_id()
    return value.describe() if isinstance(value, Configurable) else value


def params_from_json(fname: PathLike) -> dict[str, Any]:
    """Return the hyperparameters in a `params.json`.

    Raises:
        CheckpointError: If the file is damaged or is not a `params.json`.
    """
    path = os.fspath(fname)
    return _with_new_keys(read_json(path, _MAX_JSON), path)


def _with_new_keys(params: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the hyperparameters with the current keys. Raise an error if a shape is missing.

    Older files of an `FQE` have two other keys: "class" (the class name) and "config" (a dict of hyperparameters).
    """
    if "class" not in params and d3rlpy_files.are_later_hyperparameters(params):
        raise CheckpointError(path, d3rlpy_files.OTHER_PARAMS)
    if not params.keys() >= _SHAPES:
        raise CheckpointError(path, f"has no hyperparameters of an estimator, expected {', '.join(sorted(_SHAPES))}")
    if "class" not in params:
        return params
    with errors_about_file(path):
        full = {"n_frames": 1, "discrete_action": None, **params, **params["config"], "algorithm": params["class"]}
        return full | {"scaler": full["observation_scaler"]}


def write_model(fname: PathLike, state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Write the state of an agent and the hyperparameters from which the agent was built.

    The file contains no steps: neither the replay buffer nor the steps that an agent has collected since its last
    update.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
    """
    path = os.fspath(fname)
    owners = state["state"].items()
    kept = {owner: {name: part for name, part in parts.items() if name not in _STEPS} for owner, parts in owners}
    texts = {"state": json.dumps(kept), "params": dump_json(params, path).decode()}
    content = {"attributes": state["attributes"], **texts}
    atomic_write(path, tensor_writer(content, path))


def read_model(fname: PathLike) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state of the agent and the hyperparameters.

    Raises:
        CheckpointError: If the file is damaged or is not a model file.
    """
    return _model_in(_read_tensors(fname), os.fspath(fname))


def _read_tensors(fname: PathLike) -> Any:
    path = os.fspath(fname)
    try:
        return load_tensors(path)
    except CheckpointError as error:
        if os.path.isfile(path) and (message := d3rlpy_files.other_model(path)):
            raise CheckpointError(path, message) from error
        raise


def _model_in(content: Any, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state of the agent and the hyperparameters that a file with this content contains."""
    if not isinstance(content, dict) or {name: type(part) for name, part in content.items()} != _PARTS:
        other = d3rlpy_files.other_model(path, content)
        raise CheckpointError(path, other or "is not a model file that save_model wrote")
    state = {"attributes": content["attributes"], "state": parse_json(content["state"].encode(), path)}
    return state, _with_new_keys(parse_json(content["params"].encode(), path), path)


@contextlib.contextmanager
def errors_about_file(fname: PathLike, problem: str = "has invalid contents") -> Iterator[None]:
    """Context manager that converts errors about the contents of a file to a CheckpointError with the file's name.

    The context also raises a CheckpointError as soon as more than `MAX_PARAMETERS` parameters or `MAX_TENSORS` tensors
    of networks are created. A damaged file therefore cannot exhaust the memory.
    """
    n_params = n_tensors = 0

    def count(module: Any, name: str, parameter: Any) -> None:
        nonlocal n_params, n_tensors
        if parameter is not None:
            n_params, n_tensors = n_params + parameter.numel(), n_tensors + 1
        if n_params > MAX_PARAMETERS or n_tensors > MAX_TENSORS:
            raise ValueError(f"the networks have more than {MAX_PARAMETERS} parameters or {MAX_TENSORS} tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except _CONTENT_ERRORS as error:
        if isinstance(error, CheckpointError) and error.path == str(fname):
            raise
        raise CheckpointError(fname, f"{problem}: {error}") from error
    finally:
        handle.remove()


def export_greedy(
    agent: Any,
    observation_shape: Sequence[Any],
    fname: PathLike,
    as_onnx: bool = False,
    action_scaler: Scaler | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    """Export the greedy policy of an agent to a file. The errors are the same as in `save_policy`.

    Args:
        agent: The agent.
        observation_shape: Shape of one observation with stacked frames, or the shapes of the parts of a tuple.
        fname: Path of the file. The ending `.onnx` selects the ONNX format, and `.pt2` selects the format of
            `torch.export`.
        as_onnx: True to use ONNX for every file name. False to use TorchScript for names with other endings.
        action_scaler: Scaler of actions. The exported policy applies the inverse of the scaler to the actions. If None,
            the exported policy returns the agent's actions.
        tolerance: Maximum difference between actions. For numbers with an absolute value above 1 the difference is
            relative.
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

    generator = np.random.default_rng(0)

    def examples(shape: Sequence[Any]) -> Any:
        if isinstance(shape[0], Sequence):
            return [*zip(*map(examples, shape), strict=True)]
        size = (32, *shape)
        values = generator.normal(size=size) if len(shape) == 1 else generator.uniform(0, 255, size)
        return values.astype(np.float32)

    ending = os.path.splitext(fname)[1]
    format = ".onnx" if as_onnx else ending if ending in FORMATS else ".pt"
    export_policy(make_copy, fname, examples(observation_shape), format=format, tolerance=tolerance)


def create_estimator(kind: type[Any], params: Mapping[str, Any]) -> Any:
    """Create an estimator from the contents of its `params.json`.

    If the saved estimator had an agent, the agent is built. If the saved estimator had a `dynamics` model, a warning is
    issued, because the file does not contain the model.
    """
    given = {name: value for name, value in params.items() if name not in {*_NOT_ARGUMENTS, *_SHAPES}}
    if (dynamics := given.pop("dynamics", None)) is not None:
        model = dynamics.get("algorithm") if isinstance(dynamics, Mapping) else dynamics
        text = f"{model}, the dynamics of this {kind.__name__}, is not in the file: pass it to set_params(dynamics=...)"
        warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
    for name, column in SCALERS.items():
        if given.get(name) is not None:
            given[name] = make_scaler(given[name], column)
    if given.get("augmentation"):
        given["augmentation"] = AugmentationPipeline(given["augmentation"])
    made = kind._create(given)
    if params["observation_shape"] is not None:
        made.create_impl(params["observation_shape"], params["action_size"])
    return made


class Saving:
    """Mixin that saves and loads estimators, exports policies, and copies parameters from other estimators.

    The copy methods check all parameters and optimiser states before the first change.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ESTIMATORS[cls.__name__] = cls

    def save_model(self: Any, fname: PathLike) -> None:
        """Save all parameters and optimiser states, so that training can resume.

        The file contains no steps: neither the replay buffer nor the steps that `PPO` has collected since its last
        update.

        Raises:
            NotFittedError: If the agent is not built yet.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
        """
        write_model(fname, self._agent.state_dict(), self._json_params())

    #: Method that the adapters of `pfrl_like.loggers` call to save models.
    save = save_model

    def load_model(self, fname: PathLike) -> None:
        """Load a model that `save_model` saved, here or in d3rlpy 0.50 to 1.1.1.

        If the agent is not built yet, or its scalers differ from the saved scalers, build the agent with the saved
        shapes and scalers.

        A model of d3rlpy contains neither shapes nor scalers: build the estimator first, by `from_json` from d3rlpy's
        `params.json`. The states of the optimisers are not loaded. They are cleared.

        Raises:
            CheckpointError: If the file is damaged, or is a model of another algorithm, or has other networks, or is a
                model of d3rlpy and the agent is not built yet. The estimator stays unchanged.
        """
        content = _read_tensors(fname)
        if d3rlpy_files.is_model(content):
            with errors_about_file(fname, d3rlpy_files.MODEL):
                d3rlpy_files.load_networks(self, content)
            return
        state, params = _model_in(content, os.fspath(fname))
        if params.get("algorithm") != type(self).__name__:
            raise CheckpointError(fname, f"is a model of {params.get('algorithm')}, expected {type(self).__name__}")
        self._restore_model(fname, state, params)

    def _restore_model(self: Any, fname: Any, state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        before = {name: getattr(self, name) for name in _BUILT_KEYS}
        try:
            own = {name: _json_value(name, getattr(self, f"{name}_")) for name in SCALERS}
            if self.impl is None or any(params.get(name) != described for name, described in own.items()):
                with errors_about_file(fname):
                    saved = {name: make_scaler(params.get(name), column) for name, column in SCALERS.items()}
                    set_scalers(self, saved)
                    self.create_impl(params["observation_shape"], params["action_size"])
            with errors_about_file(fname, "does not match the estimator"):
                self._load(state)
        except BaseException:
            vars(self).update(before)
            raise

    def _load(self: Any, state: Mapping[str, Any]) -> None:
        """Load a state that `save_model` wrote into the agent."""
        self.impl.load_state_dict(state)

    def save_policy(self: Any, fname: PathLike, as_onnx: bool = False) -> None:
        """Export the greedy policy to a file that runs without this library. The name of the input is `input_0`.

        The input is a batch of raw observations as float32 (for images `frames.astype(np.float32)`), with stacked
        frames. The output is a batch of unscaled actions, because the file contains the scalers. If the greedy policy
        uses random numbers, the file contains them as constants, as with an agent's method `export`.

        Args:
            fname: Path of the file. The ending `.onnx` selects the ONNX format, and `.pt2` selects the format of
                `torch.export`.
            as_onnx: True to use ONNX for every file name. False to use TorchScript for names with other endings.

        Raises:
            NotFittedError: If the agent is not built yet.
            ExportError: If the policy cannot be exported in this format.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
            MissingDependencyError: If a package for the format is not installed.
        """
        export_greedy(self._agent, self._stacked_shape, fname, as_onnx, self.action_scaler_)

    def _json_params(self: Any) -> dict[str, Any]:
        """Return the hyperparameters, except `impl`, as JSON values.

        The values of scalers, augmentations and dynamics are descriptions, dicts of JSON values. The value of a GPU is
        the index of the GPU. The value of a user's function is its name. The function cannot be restored from the name.
        """
        scalers = {name: getattr(self, f"{name}_") or getattr(self, name) for name in SCALERS}
        given = self.get_params(deep=False) | scalers
        params = {name: _json_value(name, value) for name, value in given.items() if name != "impl"}
        shapes = {"observation_shape": self.observation_shape_, "action_size": self.action_size_}
        return {"algorithm": type(self).__name__, **params, **shapes}

    @classmethod
    def from_json(cls, fname: PathLike, use_gpu: Any = False) -> Self:
        """Create an estimator with the hyperparameters of a `params.json`, also of d3rlpy 0.40 to 1.1.1, and build it.

        The estimator can then load a model. `Estimator.from_json` returns an estimator of the class that is named in
        the file. If the file names no class, the estimator has the class on which the method is called.

        Args:
            fname: Path of the file.
            use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
                `pfrl_like.gpu.Device`.

        Raises:
            CheckpointError: If the file is damaged or belongs to another algorithm.
        """
        return cls._from_params(fname, params_from_json(fname), Device.of(use_gpu))

    @classmethod
    def _create(cls, given: dict[str, Any]) -> Any:
        """Create an estimator with the given hyperparameters."""
        return cls(**given)

    @classmethod
    def _from_params(cls, fname: Any, params: dict[str, Any], use_gpu: Any) -> Self:
        name = params.get("algorithm", cls.__name__)
        kind: Any = cls if cls.__name__ == name else ESTIMATORS.get(str(name))
        if kind is None or not issubclass(kind, cls):
            expected = f"{cls.__name__}{' or of an imported class' if kind is None else ''}"
            origin = "d3rlpy's " if d3rlpy_files.are_hyperparameters(params) else ""
            problem = f"has hyperparameters of {origin}{name!r}, expected hyperparameters of {expected}"
            raise CheckpointError(fname, problem)
        if d3rlpy_files.are_hyperparameters(params):
            with errors_about_file(fname, d3rlpy_files.PARAMS):
                params = d3rlpy_files.arguments_of(kind, params)
        with errors_about_file(fname):
            return cast(Self, create_estimator(kind, {**params, "use_gpu": use_gpu}))

    # Copying from another estimator

    def copy_policy_from(self, algo: Any) -> None:
        """Copy the policy of another estimator with the same architecture, and the policy's target network.

        The target network gets the parameters of the other estimator's target network. If the other estimator has no
        target network, the target network gets the parameters of the other policy. Scalers are not copied. If the
        estimators have different scalers, the copied policy selects different actions, and a warning is issued. To use
        the same scalers, pass `scaler=algo.scaler_` to the constructor, and `action_scaler` and `reward_scaler` in the
        same way.

        Args:
            algo: Estimator to copy from.

        Raises:
            NotFittedError: If the agent of this estimator, or of `algo`, is not built yet.
            TypeError: If `algo` is not an estimator.
            ValueError: If this estimator or `algo` has no policy, or the networks differ. Nothing is copied.
        """
        self._copy(algo, "policy")

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Copy the optimiser state of another estimator's policy, such as the running means of gradients.

        Learning rates and other hyperparameters are not copied. Arguments and errors are the same as in
        `copy_policy_from`. A ValueError is also raised if the optimisers have different classes.
        """
        self._copy_states(algo, "policy")

    def copy_q_function_from(self, algo: Any) -> None:
        """Copy the parameters of another estimator's Q-functions, as `copy_policy_from` copies the policy.

        Arguments and errors are the same as in `copy_policy_from`.
        """
        self._copy(algo, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Copy the optimiser state of another estimator's Q-functions.

        Arguments and errors are the same as in `copy_policy_optim_from`.
        """
        self._copy_states(algo, "Q-function")

    def _copy(self: Any, algo: Any, kind: str) -> None:
        names, agent, other = self._network_names(algo, kind), self._agent, algo._agent
        pairs = [(getattr(agent, own_name), getattr(other, name)) for own_name, name in names]
        for own_name, name in names:
            if (target := getattr(agent, f"target_{own_name}", None)) is not None:
                pairs.append((target, getattr(other, f"target_{name}", getattr(other, name))))
        copy_networks(pairs, kind)
        _warn_of_scalers(self, algo, kind)

    def _copy_states(self: Any, algo: Any, kind: str) -> None:
        names, agent, other = self._network_names(algo, kind), self._agent, algo._agent
        pairs = [(getattr(agent, own_name), getattr(other, name)) for own_name, name in names]
        copy_optimizer_states(agent, other, pairs, kind)

    def _network_names(self: Any, algo: Any, kind: str) -> list[tuple[str, str]]:
        """Return the attribute names of networks: pairs (name in this agent, name in the agent of `algo`)."""
        if not isinstance(algo, Saving):
            raise TypeError(f"algo is {type(algo).__name__}, expected an estimator")
        names, other_names = _names(self._agent, kind), _names(algo._agent, kind)  # type: ignore[attr-defined]
        if not names or len(names) != len(other_names):
            estimators = f"{type(algo).__name__} to {type(self).__name__}"
            raise ValueError(f"cannot copy from {estimators}: expected two estimators that have a {kind}")
        return [*zip(names, other_names, strict=True)]

    def reset_optimizer_states(self: Any) -> None:
        """Clear the states of all optimisers."""
        for step in self._agent.gradient_steps.values():
            step.optimizer.state.clear()


def _warn_of_scalers(algo: Any, other: Any, kind: str) -> None:
    for name, column in SCALERS.items():
        scaler, other_scaler = (getattr(each, f"{name}_") for each in (algo, other))
        descriptions = [None if each is None else each.describe() for each in (scaler, other_scaler)]
        if descriptions[0] != descriptions[1] and (kind, column) != ("policy", "rewards"):
            text = f"the copied {kind} was trained with the {name} {other_scaler!r:.60}, but this estimator has"
            text = f"{text} {scaler!r:.60}: construct this estimator with {name}=algo.{name}_"
            warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())


def _names(agent: Any, kind: str) -> list[str]:
    """Return the attribute names of an agent's policy (`kind` "policy") or critics (`kind` "Q-function")."""
    names = ("policy",) if kind == "policy" else getattr(agent, "critic_arguments", ("model",))
    return [name for name in names if isinstance(getattr(agent, name, None), nn.Module)]


def check_form(own: nn.Module, other: nn.Module, kind: str) -> None:
    """Raise an error if the parameters of two networks have different names or shapes.

    Raises:
        ValueError: If names or shapes differ. The message contains `kind`, the name of the networks.
    """
    try:
        check_same_form(own, other)
    except ValueError as error:
        raise ValueError(f"algo has a {kind} with different parameters: {error}") from error


def copy_networks(pairs: Sequence[tuple[nn.Module, nn.Module]], kind: str) -> None:
    """Copy parameters between networks. Each pair is (network to copy to, network to copy from).

    Raises:
        ValueError: If the parameters of a pair have different names or shapes. Nothing is copied.
    """
    for own, other in pairs:
        check_form(own, other, kind)
    for own, other in pairs:
        copy_param(own, other)


def copy_optimizer_states(agent: Any, other: Any, networks: Sequence[tuple[nn.Module, nn.Module]], kind: str) -> None:
    """Copy the optimiser states of another agent's networks. Learning rates and other settings are not copied.

    Args:
        agent: Agent to copy to.
        other: Agent to copy from.
        networks: Pairs (network of `agent`, network of `other`).
        kind: Name of the networks in messages.

    Raises:
        ValueError: If the networks differ in names or shapes of parameters, the classes of the optimisers differ, an
            optimiser is missing, or a tensor of an optimiser state is neither a scalar nor of the parameter's shape.
            All states stay unchanged.
    """
    optimizers, other_optimizers = _optimizers(agent), _optimizers(other)
    changed: dict[int, Any] = {}
    states: dict[int, dict[str, Any]] = {}
    for own, theirs in networks:
        check_form(own, theirs, kind)
        for param, other_param in zip(own.parameters(), theirs.parameters(), strict=True):
            optimizer: Any = optimizers.get(param)
            source: Any = other_optimizers.get(other_param)
            if source is None or type(optimizer) is not type(source):
                raise ValueError(f"algo has the optimiser {type(source).__name__}, expected {type(optimizer).__name__}")
            changed[id(optimizer)] = optimizer
            states[id(param)] = state = copy.deepcopy(source.state.get(other_param, {}))
            for name, value in state.items():
                if isinstance(value, Tensor) and value.dim() and value.shape != param.shape:
                    shapes = f"{tuple(value.shape)}, expected {tuple(param.shape)}"
                    raise ValueError(f"algo has an optimiser state {name!r} of shape {shapes}")
    for optimizer in changed.values():
        params = [param for group in optimizer.param_groups for param in group["params"]]
        content = optimizer.state_dict()
        new = {i: states.get(id(param), content["state"].get(i)) for i, param in enumerate(params)}
        content["state"] = {i: state for i, state in new.items() if state}
        with torch.no_grad():
            optimizer.load_state_dict(content)


def _optimizers(agent: Any) -> dict[Tensor, Any]:
    """Return the optimiser of each parameter of an agent."""
    optimizers = [step.optimizer for step in agent.gradient_steps.values()]
    return {param: each for each in optimizers for group in each.param_groups for param in group["params"]}
