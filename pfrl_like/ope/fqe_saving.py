"""Configuration and files of fitted Q evaluation; reading them executes nothing."""

import copy
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from pfrl_like.algos.fitting.base import ESTIMATORS, Estimator
from pfrl_like.algos.fitting.networks import adam, make_q_function
from pfrl_like.algos.fitting.saving import (
    export_greedy,
    loaded_estimator,
    made_of,
    params_from_json,
    read_model,
    told_by,
    write_model,
)
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.encoders import Encoder, make_encoder
from pfrl_like.errors import NotFittedError
from pfrl_like.gpu import resolve_device
from pfrl_like.ope.policies import agent_of
from pfrl_like.preprocessing import Scaler, make_scaler
from pfrl_like.utils.checks import check_counts, check_numbers

#: The scalers of a configuration, and the columns of data that they are of.
SCALERS = {"observation_scaler": "observations", "action_scaler": "actions", "reward_scaler": "rewards"}


@dataclasses.dataclass
class FQEConfig:
    """Hyperparameters of fitted Q evaluation.

    Args:
        learning_rate: Of the critics.
        batch_size: Transitions of a minibatch.
        gamma: Discount factor per step.
        n_critics: Number of critics, each of which follows its own target.
        target_update_interval: Updates between those of the targets.
        encoder_params: As of `pfrl_like.encoders.make_encoder`.
        q_func_type: What the critics give: "mean" (a number), "qr", "iqn" or "fqf" (quantiles).
        observation_scaler: What observations pass on their way into the critics: a name, a `Scaler`, or None. The
            evaluated policy gets them as they are.
        action_scaler: The same of continuous actions.
        reward_scaler: The same of rewards; values are then those of scaled rewards.
    """

    learning_rate: float = 1e-4
    batch_size: int = 100
    gamma: float = 0.99
    n_critics: int = 1
    target_update_interval: int = 100
    encoder_params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    q_func_type: str = "mean"
    observation_scaler: Any = None
    action_scaler: Any = None
    reward_scaler: Any = None

    def check(self, discrete_action: bool) -> None:
        """Refuse numbers that cannot be, and scalers of what is not scaled.

        Raises:
            ValueError: With the value got.
            TypeError: If a count is no integer, or another one no number.
        """
        check_counts(
            batch_size=self.batch_size, n_critics=self.n_critics, target_update_interval=self.target_update_interval
        )
        check_numbers(0, learning_rate=self.learning_rate)
        check_numbers(0, 1, gamma=self.gamma)
        if discrete_action and self.action_scaler is not None:
            raise ValueError(f"action_scaler is {self.action_scaler!r}, but actions are discrete: leave it out")

    def made_scalers(self) -> dict[str, Scaler | None]:
        """The scalers by their names here, of which those chosen by name are yet to be fitted."""
        return {name: copy.deepcopy(make_scaler(getattr(self, name), column)) for name, column in SCALERS.items()}

    def described(self, scalers: Mapping[str, Scaler | None]) -> dict[str, Any]:
        """As values that JSON has, with scalers as they were fitted."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return values | {name: None if scaler is None else scaler.describe() for name, scaler in scalers.items()}

    @classmethod
    def from_described(cls, values: Mapping[str, Any]) -> Self:
        """What `described` gave."""
        return cls(**values)


def config_of(config: FQEConfig | None, **otherwise: Any) -> FQEConfig:
    """A configuration; None stands for one of these values.

    Raises:
        TypeError: If it is something else.
    """
    if config is not None and not isinstance(config, FQEConfig):
        raise TypeError(f"config is {config!r:.80} ({type(config).__name__}), expected an FQEConfig, or None")
    return FQEConfig(**otherwise) if config is None else config


class ActionScaled(nn.Module):
    """An encoder of pairs whose actions are scaled first.

    Args:
        encoder: The encoder.
        scaler: The scaler.
    """

    def __init__(self, encoder: Encoder, scaler: Scaler) -> None:
        super().__init__()
        self.encoder, self.scaler, self.feature_size = encoder, scaler, encoder.feature_size

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        """The features."""
        obs, action = pair
        features: Tensor = self.encoder((obs, self.scaler.transform(action)))
        return features


def make_critics(
    config: FQEConfig, scalers: Mapping[str, Scaler | None], shape: tuple[int, ...], action_size: int, discrete: bool
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """The critics, one module, and their optimiser.

    Args:
        config: The configuration.
        scalers: Fitted scalers.
        shape: Of observations.
        action_size: Numbers of an action, or how many discrete actions there are.
        discrete: Whether actions are.

    Raises:
        NotFittedError: If a scaler has no statistics.
    """
    for name, scaler in scalers.items():
        if scaler is not None and not scaler.fitted:
            raise NotFittedError(f"{name} is {scaler!r}, which has no statistics: build_with_dataset or fit does it")
    scaler, of_actions = scalers["observation_scaler"], scalers["action_scaler"]

    def encoder() -> Any:
        made = make_encoder(shape, config.encoder_params, action_size=0 if discrete else action_size, scaler=scaler)
        return made if of_actions is None else ActionScaled(made, of_actions)

    critics = make_q_function(
        config.q_func_type, encoder, action_size if discrete else 1, n_critics=config.n_critics, pool="mean"
    )
    return critics, adam(critics, config.learning_rate, 1e-8)


#: The classes that files name.
SAVED: dict[str, type["SavedFQE"]] = {}


class SavedFQE:
    """What of fitted Q evaluation goes into files, and comes out of them."""

    discrete_action: bool | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SAVED[cls.__name__] = cls

    def params(self: Any) -> dict[str, Any]:
        """What it is made of, as values that JSON has: class, configuration, shapes, and the estimator evaluated.

        An agent that is evaluated cannot be made anew from a file, and is None there.
        """
        algo = self.algo
        estimator = isinstance(algo, Estimator)
        return {
            "class": type(self).__name__, "config": self.config.described(self.scalers),
            "observation_shape": None if self.observation_shape is None else list(self.observation_shape),
            "action_size": self.action_size, "discrete_action": self.discrete_action, "n_frames": self.n_frames,
            "algo": algo._json_params() if estimator else None,
        }  # fmt: skip

    @classmethod
    def of_params(cls, params: Mapping[str, Any], device: Any, algo: Any = None) -> Self:
        """What `params` was made of, built if it was; an estimator that was evaluated is made anew unless one is given.

        Raises:
            ValueError: If these are no such values.
        """
        known: Any = SAVED.get(str(params.get("class")))
        if known is None or not isinstance(params.get("config"), Mapping):
            raise ValueError(f"class is {params.get('class')!r}, expected one of {', '.join(SAVED)}")
        shape, size = params["observation_shape"], params["action_size"]
        if algo is None and params["algo"] is not None:
            algo = made_of(ESTIMATORS[params["algo"]["algorithm"]], params["algo"])
        config = FQEConfig.from_described(params["config"])
        made = known(algo, config, device)
        made.n_frames = params.get("n_frames", 1)
        made.take_kind(params.get("discrete_action"))
        if shape is not None:
            made.create_impl(tuple(shape), size)
        return cast(Self, made)

    @classmethod
    def from_json(cls, fname: str | os.PathLike[str], device: int | str | bool = False) -> Self:
        """Make it from `params.json`, with networks that have learnt nothing.

        Args:
            fname: The file.
            device: As of the constructor.

        Raises:
            CheckpointError: If it is no such file.
        """
        with told_by(fname):
            return cls.of_params(params_from_json(fname), device)

    def save(self: Any, fname: str | os.PathLike[str]) -> None:
        """Save all that `load_learnable` makes it of again, the parameters of an evaluated estimator included.

        Raises:
            NotFittedError: Before it is built.
            CheckpointError: If the file cannot be written; an old one of this name stays.
        """
        state = self.agent.state_dict()
        policy = agent_of(self.algo).state_dict()["attributes"] if isinstance(self.algo, Estimator) else {}
        critics = {name: value for name, value in state["attributes"].items() if name != "policy"}
        attributes = {"critics": critics, "policy": policy}
        write_model(fname, {"attributes": attributes, "state": state["state"]}, self.params())

    _json_params = params

    #: As estimators call it; of such a file `load_model` takes the parameters alone.
    save_model = save

    def load_model(self: Any, fname: str | os.PathLike[str]) -> None:
        """Load the parameters that `save_model` or `save` saved; the evaluated policy stays what it is.

        Raises:
            CheckpointError: If the file is damaged, or of other networks.
        """
        state, params = read_model(fname)
        if self.impl is None:
            with told_by(fname):
                self.build_as(params)
        self._take(fname, state)

    def save_policy(self: Any, fname: str | os.PathLike[str]) -> None:
        """Export the evaluated policy; the format is that of the file's ending, such as ".onnx", otherwise TorchScript.

        Raises:
            NotFittedError: Before it is built, or if the algorithm is not known.
            TypeError: If it cannot be exported.
        """
        if self.algo is None or self.observation_shape is None:
            raise NotFittedError("fitted Q evaluation is not built yet, or does not know the algorithm: give algo")
        if hasattr(self.algo, "save_policy"):
            self.algo.save_policy(fname)
            return
        agent = agent_of(self.algo)
        if not hasattr(agent, "export"):
            raise TypeError(f"algo is a {type(agent).__name__}, expected an agent or an estimator to export")
        export_greedy(agent, stacked_shape(self.observation_shape, self.n_frames), fname)

    def build_as(self: Any, params: Mapping[str, Any]) -> None:
        """Build the agent for the shapes of what `params` gave, with its fitted scalers."""
        self.scalers = FQEConfig.from_described(params["config"]).made_scalers()
        self.take_kind(params.get("discrete_action"))
        self.create_impl(tuple(params["observation_shape"]), params["action_size"])

    def _take(self: Any, fname: Any, state: Mapping[str, Any]) -> None:
        own = self.agent.state_dict()["attributes"]
        policy = {name: value for name, value in own.items() if name == "policy"}
        with told_by(fname):
            attributes = {**policy, **state["attributes"]["critics"]}
            self.agent.load_state_dict({"attributes": attributes, "state": state["state"]})


def load_learnable(
    fname: str | os.PathLike[str], *, device: int | str | torch.device | bool = False, algo: Any = None
) -> Any:
    """What `save` of an estimator or of `FQE` saved; reading it executes nothing.

    Args:
        fname: The file.
        device: False for the CPU, True for the first GPU, the number of one, or a name that torch knows, such
            as "cpu:0" or "cuda:1".
        algo: What an `FQE` evaluates; None for the estimator that was. An agent is in no file: without it values are
            known, actions are not.

    Returns:
        An estimator, or an `FQE`, which goes on as the one that was saved.

    Raises:
        CheckpointError: If the file is damaged or holds something else.
        TypeError: If `algo` is given, but the file holds an estimator.
        ValueError: If the device is not there, or an estimator cannot use one of its kind.
    """
    state, params = read_model(fname)
    if "algorithm" in params:
        if algo is not None:
            holds = f"{fname} holds a {params['algorithm']}"
            raise TypeError(f"algo is a {type(algo).__name__}, but {holds}, expected None")
        return loaded_estimator(fname, state, params, _gpu_of(device))
    with told_by(fname):
        made: Any = SavedFQE.of_params(params, device, algo)
        made._take(fname, state)
        policy = state["attributes"]["policy"]
        if algo is None and policy:
            agent: Any = made.algo.impl
            agent.load_state_dict({**agent.state_dict(), "attributes": policy})
    return made


def _gpu_of(device: int | str | torch.device | bool) -> int | bool:
    """The device as estimators take it."""
    if not isinstance(device, str | torch.device):
        return device
    named = resolve_device(None, device)
    if named.type not in {"cpu", "cuda"}:
        raise ValueError(f"device is {device!r}, expected 'cpu' or 'cuda:<number>' for an estimator")
    return False if named.index is None else named.index
