"""Configuration and files of fitted Q evaluation; reading executes no code."""

import copy
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.algos.fitting.saving import (
    loaded_estimator,
    read_model,
    told_by,
)
from pfrl_like.encoders import Encoder
from pfrl_like.gpu import resolve_device
from pfrl_like.preprocessing import Scaler, make_scaler
from pfrl_like.utils.checks import check_counts, check_numbers

#: The scalers of a configuration, each with the column of data that it scales.
SCALERS = {"observation_scaler": "observations", "action_scaler": "actions", "reward_scaler": "rewards"}


class ActionScaled(nn.Module):
    """An encoder of pairs of observation and action that scales the actions first.

    Args:
        encoder: Encoder of pairs with scaled actions.
        scaler: Fitted scaler of actions.
    """

    def __init__(self, encoder: Encoder, scaler: Scaler) -> None:
        super().__init__()
        self.encoder, self.scaler, self.feature_size = encoder, scaler, encoder.feature_size

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        """The features."""
        obs, action = pair
        features: Tensor = self.encoder((obs, self.scaler.transform(action)))
        return features


@dataclasses.dataclass
class FQEConfig:
    """Hyperparameters of fitted Q evaluation.

    Args:
        learning_rate: Learning rate of the critics.
        batch_size: Transitions of a minibatch.
        gamma: Discount factor per step.
        n_critics: Number of critics; each learns from its own target network.
        target_update_interval: Updates between updates of the target networks.
        encoder_params: Sizes of the encoder: for vectors "hidden_units", the sizes of the layers; for images "filters",
            a list of (channels, kernel size, stride), and "feature_size", the size of the linear layer after them.
        q_func_type: Output of the Q-functions: "mean" (a number), "qr" (quantiles), "iqn" (quantiles at random
            fractions) or "fqf" (quantiles at fractions proposed by a network).
        observation_scaler: Scaler of the critics' observations: a name, a `Scaler`, or None. The evaluated policy gets
            unscaled observations.
        action_scaler: Scaler of the critics' continuous actions: a name, a `Scaler`, or None.
        reward_scaler: Scaler of the rewards: a name, a `Scaler`, or None. Values are then those of scaled rewards.
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
        """Raise an error if a number is out of range, or discrete actions have a scaler.

        Raises:
            ValueError: If a number is out of range, or discrete actions have a scaler; with the value got.
            TypeError: If a count is no integer, or another hyperparameter no number.
        """
        check_counts(
            batch_size=self.batch_size, n_critics=self.n_critics, target_update_interval=self.target_update_interval
        )
        check_numbers(0, learning_rate=self.learning_rate)
        check_numbers(0, 1, gamma=self.gamma)
        if discrete_action and self.action_scaler is not None:
            raise ValueError(f"action_scaler is {self.action_scaler!r}, but actions are discrete: leave it out")

    def made_scalers(self) -> dict[str, Scaler | None]:
        """The scalers by the names of their hyperparameters; those that are given by a text are not fitted."""
        return {name: copy.deepcopy(make_scaler(getattr(self, name), column)) for name, column in SCALERS.items()}

    def described(self, scalers: Mapping[str, Scaler | None]) -> dict[str, Any]:
        """The hyperparameters as JSON values, with the fitted scalers described."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return values | {name: None if scaler is None else scaler.describe() for name, scaler in scalers.items()}


def config_of(config: FQEConfig | None, **otherwise: Any) -> FQEConfig:
    """The configuration; None stands for an `FQEConfig` with the values `otherwise`.

    Raises:
        TypeError: If `config` is neither an `FQEConfig` nor None.
    """
    if config is not None and not isinstance(config, FQEConfig):
        raise TypeError(f"config is {config!r:.80} ({type(config).__name__}), expected an FQEConfig, or None")
    return FQEConfig(**otherwise) if config is None else config


#: Classes by the names that files contain.
SAVED: dict[str, Any] = {}


def device_of(device: bool | int | str | torch.device) -> torch.device:
    """The device for an argument: False is the CPU, True the first GPU, a number a GPU; others as in torch."""
    if isinstance(device, bool):
        return resolve_device(0 if device else None)
    return resolve_device(device) if isinstance(device, int) else resolve_device(None, device)


def load_learnable(
    fname: str | os.PathLike[str], *, device: int | str | torch.device | bool = False, algo: Any = None
) -> Any:
    """Load an estimator or `FQE` saved by its method `save`; reading executes no code.

    Args:
        fname: The file.
        device: False for the CPU, True for the first GPU, the number of a GPU, or a name that torch knows, such
            as "cpu:0" or "cuda:1".
        algo: The algorithm that an `FQE` evaluates; None for the estimator in the file. An agent is not saved in the
            file: without `algo` the `FQE` then has values, but no actions.

    Returns:
        An estimator, or an `FQE`, with the state of the saved one.

    Raises:
        CheckpointError: If the file is damaged or holds something else.
        TypeError: If `algo` is given, but the file holds an estimator.
        ValueError: If the device does not exist, or an estimator cannot use a device of its kind.
    """
    state, params = read_model(fname)
    if "algorithm" in params:
        if algo is not None:
            holds = f"{fname} holds {params['algorithm']}"
            raise TypeError(f"algo is {type(algo).__name__}, but {holds}, expected None")
        named = device_of(device)
        if named.type not in {"cpu", "cuda"}:
            raise ValueError(f"device is {device!r}, expected 'cpu' or 'cuda:<number>' for an estimator")
        return loaded_estimator(fname, state, params, False if named.index is None else named.index)
    with told_by(fname):
        made = SAVED["FQE"].of_params(params, device, algo)
        made._take(state)
        policy = state["attributes"]["policy"]
        if algo is None and policy:
            agent = made.algo.impl
            agent.load_state_dict({**agent.state_dict(), "attributes": policy})
    return made
