"""What fitted Q evaluation is built with, as values that JSON has."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from pfrl_like.algos.fitting.networks import adam, make_q_function
from pfrl_like.encoders import Encoder, make_encoder
from pfrl_like.errors import NotFittedError
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
