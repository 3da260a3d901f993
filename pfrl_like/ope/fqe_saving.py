"""Configuration and files of fitted Q evaluation; reading them executes nothing."""

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

#: The scalers of a configuration, and the columns of data that they are of.
SCALERS = {"observation_scaler": "observations", "action_scaler": "actions", "reward_scaler": "rewards"}


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


def config_of(config: FQEConfig | None, **otherwise: Any) -> FQEConfig:
    """A configuration; None stands for one of these values.

    Raises:
        TypeError: If it is something else.
    """
    if config is not None and not isinstance(config, FQEConfig):
        raise TypeError(f"config is {config!r:.80} ({type(config).__name__}), expected an FQEConfig, or None")
    return FQEConfig(**otherwise) if config is None else config


#: The classes that files name.
SAVED: dict[str, Any] = {}


def device_of(device: bool | int | str | torch.device) -> torch.device:
    """The device that is meant: False is the CPU, True the first GPU, a number that one."""
    if isinstance(device, bool):
        return resolve_device(0 if device else None)
    return resolve_device(device) if isinstance(device, int) else resolve_device(None, device)


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
