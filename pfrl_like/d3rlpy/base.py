"""The base classes of configs and of algorithms."""

import dataclasses
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch

from pfrl_like.algos.fitting.saving import errors_about_file
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset.library import as_replay_buffer
from pfrl_like.d3rlpy.files import read_learnable, read_model, write_learnable, write_model
from pfrl_like.d3rlpy.optimizers import OptimizerFactory, OptimizerWrapper
from pfrl_like.d3rlpy.preprocessing import ActionScaler, ObservationScaler, RewardScaler
from pfrl_like.d3rlpy.serializable import Config
from pfrl_like.d3rlpy.types import NDArray, Shape
from pfrl_like.errors import NotFittedError
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.utils.checks import check_counts, levels_to_the_caller
from pfrl_like.utils.contexts import evaluating

#: Device as an argument: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
DeviceArg = bool | int | str | None

#: Maximum number of entries of an observation, and maximum size of an action, in a file.
_MAX_ENTRIES, _MAX_ACTION_SIZE = 1 << 24, 1 << 20


@dataclasses.dataclass
class LearnableConfig(Config, family=True):
    """Base class of configs of algorithms.

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
    """

    batch_size: int = 256
    gamma: float = 0.99
    observation_scaler: ObservationScaler | None = None
    action_scaler: ActionScaler | None = None
    reward_scaler: RewardScaler | None = None
    compile_graph: bool = False

    def create(self, device: DeviceArg = False, enable_ddp: bool = False) -> "LearnableBase":
        """Return a new algorithm with this config.

        Args:
            device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
            enable_ddp: True to average gradients over the processes of PyTorch's default process group.

        Raises:
            NotImplementedError: If the config has no algorithm.
        """
        algorithm = ALGORITHMS.get(type(self))
        if algorithm is None:
            advice = "choose another config of d3rlpy.algos, or pass an FQEConfig to FQE(algo, config)"
            raise NotImplementedError(f"{type(self).__name__} has no algorithm in this library: {advice}")
        return algorithm(self, device=device, enable_ddp=enable_ddp)


@dataclasses.dataclass
class LearnableConfigWithShape(Config):
    """A config, and the shapes from which the networks are built.

    Args:
        observation_shape: Shape of an observation.
        action_size: Number of discrete actions, or size of an action vector.
        config: Config of the algorithm.
    """

    observation_shape: Shape
    action_size: int
    config: LearnableConfig

    def create(self, device: DeviceArg = False) -> "LearnableBase":
        """Return a new algorithm with this config and with networks.

        Args:
            device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.

        Raises:
            NotImplementedError: If the config has no algorithm.
            ValueError: If a shape is too large.
        """
        if n_entries(self.observation_shape) > _MAX_ENTRIES or self.action_size > _MAX_ACTION_SIZE:
            got = f"observation_shape is {self.observation_shape!r:.80} and action_size {self.action_size!r:.80}"
            raise ValueError(f"{got}, expected at most {_MAX_ENTRIES} entries and {_MAX_ACTION_SIZE} actions")
        algorithm = self.config.create(device)
        algorithm.create_impl(self.observation_shape, self.action_size)
        return algorithm


class LearnableBase(ABC):
    """Base class of algorithms.

    A subclass that is declared with `config_class=` is what `create` of these configs returns.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`, but actions are discrete.
        TypeError: If `device` has the wrong type, or if a scaler or factory is a name or a class.
    """

    #: Argument of the agent for each field of the config that is passed unchanged.
    arguments: ClassVar[Mapping[str, str]] = {}
    #: Prefix of the factory of an optimiser, if it is not that of its learning rate.
    factories: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, *, config_class: type[LearnableConfig] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if config_class is not None:
            ALGORITHMS[config_class] = cls

    def __init__(self, config: Any, device: DeviceArg, enable_ddp: bool, impl: Any = None) -> None:
        for name, value in vars(config).items():
            if name.endswith(("_scaler", "_factory")) and isinstance(value, str | type):
                raise TypeError(f"{name} is {value!r:.80}, expected an object, not its name or class")
        if config.action_scaler is not None and self.get_action_type() is ActionSpace.DISCRETE:
            raise ValueError(f"action_scaler is {config.action_scaler}, expected None, because actions are discrete")
        check_counts(batch_size=config.batch_size)
        self._config, self._device, self._enable_ddp = config, device_name(device), enable_ddp
        self._impl, self._grad_step = impl, 0
        self._observation_shape: Shape | None = None
        self._action_size: int | None = None

    @abstractmethod
    def get_action_type(self) -> ActionSpace:
        """Return the kind of actions."""

    def build(self, observation_shape: Shape, action_size: int) -> Any:
        """Return the `Implementation`: the agent with its networks. The arguments are those of `create_impl`.

        Raises:
            NotImplementedError: If the subclass defines neither this method nor `inner_create_impl`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define build(observation_shape, action_size)")

    def inner_create_impl(self, observation_shape: Shape, action_size: int) -> None:
        """Build the agent and store it in `_impl`. The arguments are those of `create_impl`."""
        self._impl = self.build(observation_shape, action_size)
        self._impl.modules.use_scaler(self.observation_scaler)
        for network in self._impl.modules.get_torch_modules().values():
            network.train()  # d3rlpy's targets sample quantiles and have dropout in updates, too

    def module_states(self) -> dict[str, Any]:
        """Return the state dicts of networks and optimisers, keyed by d3rlpy 2's names of the modules."""
        states: dict[str, Any] = self._built.modules.state_dicts()
        return states

    def load_module_states(self, states: dict[str, Any]) -> None:
        """Load the state dicts that `module_states` returned."""
        self._built.modules.load_state_dicts(states)

    def create_impl(self, observation_shape: Shape, action_size: int) -> None:
        """Build the networks. If they exist, a warning says that they are replaced.

        Args:
            observation_shape: Shape of an observation.
            action_size: Number of discrete actions, or size of an action vector.
        """
        if self._impl is not None:
            text = f"create_impl replaces the networks of this {type(self).__name__}"
            warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
        self.inner_create_impl(observation_shape, action_size)
        self._observation_shape, self._action_size = observation_shape, action_size

    def build_with_dataset(self, dataset: Any) -> None:
        """Build the networks for the shapes of a dataset.

        Args:
            dataset: Dataset of the layer, or of `pfrl_like.dataset`, which is converted.

        Raises:
            TypeError: If `dataset` is no dataset.
        """
        dataset = as_replay_buffer(dataset)
        shapes = dataset.sample_transition().observation_signature.shape
        self.create_impl(shapes[0] if len(shapes) == 1 else shapes, dataset.dataset_info.action_size)

    def build_with_env(self, env: Any) -> None:
        """Build the networks for the spaces of an environment.

        Args:
            env: Environment with a Box of observations, and a Box or a Discrete space of actions.

        Raises:
            TypeError: If the environment has other spaces.
        """
        observations, actions = env.observation_space, env.action_space
        if not hasattr(observations, "low") or not (hasattr(actions, "low") or hasattr(actions, "n")):
            got = f"observation_space is {observations} and action_space {actions}"
            raise TypeError(f"{got}, expected a Box, and a Box or a Discrete space")
        action_size = actions.shape[0] if hasattr(actions, "low") else actions.n
        self.create_impl(observations.shape, int(action_size))

    def save(self, fname: str) -> None:
        """Save config, networks and optimisers to a `.d3` file for `load_learnable`, here and in d3rlpy 2.

        Args:
            fname: Path of the file.

        Raises:
            NotFittedError: If the networks are not built.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
        """
        write_learnable(fname, self._config_with_shape().serialize(), self.module_states())

    def save_model(self, fname: str) -> None:
        """Save networks and optimisers to a `.pt` file for `load_model`, here and in d3rlpy 2.

        Args:
            fname: Path of the file.

        Raises:
            NotFittedError: If the networks are not built.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
        """
        self._config_with_shape()
        write_model(fname, self.module_states())

    def load_model(self, fname: str) -> None:
        """Load networks and optimisers from a `.pt` file. Loading runs no code from the file.

        Args:
            fname: Path of a file that `save_model` wrote, here or in d3rlpy 2.

        Raises:
            NotFittedError: If the networks are not built.
            CheckpointError: If the file is damaged or contains other networks.
        """
        self._config_with_shape()
        with errors_about_file(fname, "does not match the algorithm"):
            self.load_module_states(read_model(fname))

    @classmethod
    def from_json(cls, fname: str, device: DeviceArg = False) -> Self:
        """Return a new algorithm, with networks, for the config in a `params.json`.

        Args:
            fname: Path of the file.
            device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.

        Raises:
            CheckpointError: If the file is damaged, or has the config of another algorithm.
        """
        with errors_about_file(fname):
            algorithm = LearnableConfigWithShape.deserialize_from_file(os.fspath(fname)).create(device)
            if not isinstance(algorithm, cls):
                raise TypeError(f"the algorithm is {type(algorithm).__name__}, expected {cls.__name__}")
        return algorithm

    @property
    def config(self) -> Any:
        """Config of the algorithm."""
        return self._config

    @property
    def compiled(self) -> bool:
        """True if the update is compiled."""
        return bool(self._config.compile_graph)

    @property
    def batch_size(self) -> int:
        """Number of transitions per minibatch."""
        return int(self._config.batch_size)

    @property
    def gamma(self) -> float:
        """Discount factor per step."""
        return float(self._config.gamma)

    @property
    def observation_scaler(self) -> ObservationScaler | None:
        """Scaler of observations, or None."""
        scaler: ObservationScaler | None = self._config.observation_scaler
        return scaler

    @property
    def action_scaler(self) -> ActionScaler | None:
        """Scaler of actions, or None."""
        scaler: ActionScaler | None = self._config.action_scaler
        return scaler

    @property
    def reward_scaler(self) -> RewardScaler | None:
        """Scaler of rewards, or None."""
        scaler: RewardScaler | None = self._config.reward_scaler
        return scaler

    @property
    def impl(self) -> Any:
        """Agent that learns. None before the networks are built."""
        return self._impl

    @property
    def observation_shape(self) -> Shape | None:
        """Shape of an observation. None before the networks are built."""
        return self._observation_shape

    @property
    def action_size(self) -> int | None:
        """Number of discrete actions, or size of an action vector. None before the networks are built."""
        return self._action_size

    @property
    def grad_step(self) -> int:
        """Number of updates, over all calls of `fit` and `fit_online`."""
        return self._grad_step

    def set_grad_step(self, grad_step: int) -> None:
        """Set the number of updates, for example to resume the schedule of target networks.

        Args:
            grad_step: Number of updates.
        """
        self._grad_step = grad_step

    def optimizer(self, prefix: str, *modules: torch.nn.Module) -> OptimizerWrapper:
        """Return the optimiser of modules, whose parameters are numbered in their order.

        Args:
            prefix: Beginning of the names of the fields with the factory and the learning rate, for example "actor_".
            modules: The modules.
        """
        members = [each.members if isinstance(each, QFunctionEnsemble) else each for each in modules]
        named = [pair for module in members for pair in module.named_modules()]
        factory: OptimizerFactory = getattr(self.config, f"{self.factories.get(prefix, prefix)}optim_factory")
        return factory.create(named, getattr(self.config, f"{prefix}learning_rate"), self.compiled)

    def options(self) -> dict[str, Any]:
        """Return the agent's arguments: those of the table `arguments`, and those that all agents have."""
        given = {argument: getattr(self.config, field) for field, argument in self.arguments.items()}
        return given | {
            "gamma": self.gamma, "minibatch_size": self.batch_size, "device": torch.device(self._device),
            **({"compile": True} if self.compiled else {}),
        }  # fmt: skip

    def _acted(self, obs: Any, act: Callable[[Any], Any]) -> NDArray:
        acted: NDArray = self._acted_tensor(obs, act).cpu().numpy()
        return acted

    def _acted_tensor(self, obs: Any, act: Callable[[Any], Any]) -> torch.Tensor:
        with torch.no_grad(), self._evaluating():
            actions: torch.Tensor = act(obs)
        return actions if self.action_scaler is None else self.action_scaler.reverse_transform(actions)

    def _evaluating(self) -> Any:
        return evaluating(torch.nn.ModuleList(self._built.modules.get_torch_modules().values()))

    @property
    def _built(self) -> Any:
        """The implementation.

        Raises:
            NotFittedError: If the networks are not built.
        """
        if self._impl is None:
            self._config_with_shape()
        return self._impl

    def _config_with_shape(self) -> LearnableConfigWithShape:
        """Return config and shapes.

        Raises:
            NotFittedError: If the networks are not built.
        """
        if self._observation_shape is None or self._action_size is None:
            advice = "call fit, fit_online, build_with_dataset or build_with_env first"
            raise NotFittedError(f"{type(self).__name__} has no networks: {advice}")
        return LearnableConfigWithShape(self._observation_shape, self._action_size, self._config)


#: Algorithm classes, keyed by the classes of their configs.
ALGORITHMS: dict[type[LearnableConfig], type[LearnableBase]] = {}


def load_learnable(fname: str, device: DeviceArg = None) -> LearnableBase:
    """Return the algorithm in a `.d3` file, with its networks and optimisers. Loading runs no code from the file.

    Args:
        fname: Path of a file that `save` wrote, here or in d3rlpy 2.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.

    Raises:
        CheckpointError: If the file is damaged, is too large, or names unknown classes.
    """
    config, states = read_learnable(fname)
    with errors_about_file(fname):
        algorithm = LearnableConfigWithShape.deserialize(config).create(device)
        algorithm.load_module_states(states)
    return algorithm


def export_ending(fname: str) -> str:
    """Return the file extension of an exported policy, ".pt" or ".onnx".

    Args:
        fname: Path of the file.

    Raises:
        ValueError: If the path has another ending.
    """
    if not fname.endswith((".pt", ".onnx")):
        raise ValueError(f"fname is {fname!r}, expected a name that ends with .pt or .onnx")
    return os.path.splitext(fname)[1]


def device_name(device: DeviceArg) -> str:
    """Return PyTorch's name of a device.

    Args:
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.

    Raises:
        TypeError: If `device` has the wrong type.
        ValueError: If PyTorch has no device of this name.
    """
    if device is None or isinstance(device, bool):
        return "cuda:0" if device else "cpu:0"
    if not isinstance(device, int | str):
        raise TypeError(f"device is {device!r}, expected a bool, the index of a GPU, a name of PyTorch, or None")
    try:
        return str(torch.device(device if isinstance(device, str) else f"cuda:{device}"))
    except RuntimeError as error:
        raise ValueError(f"device is {device!r}, expected the index or the name of a device: {error}") from error


def n_entries(observation_shape: Any) -> int:
    """Return the number of entries of an observation, or of all parts of a tuple observation."""
    if any(isinstance(part, list | tuple) for part in observation_shape):
        return sum(n_entries(part) for part in observation_shape)
    return math.prod(observation_shape)
