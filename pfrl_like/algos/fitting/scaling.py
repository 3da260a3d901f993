"""Scalers of estimators: how they are made, fitted and shown, and how minibatches pass them."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.batch import Batch
from pfrl_like.errors import NotFittedError
from pfrl_like.preprocessing import MinMaxActionScaler, Scaler, make_scaler

#: Hyperparameters that are scalers, and the columns of data that they are of.
SCALERS = {"scaler": "observations", "action_scaler": "actions", "reward_scaler": "rewards"}


class BatchScaling:
    """Gives a minibatch with its actions and rewards scaled, and changed further: what an agent learns from.

    Args:
        action_scaler: Fitted scaler of actions; None leaves them.
        reward_scaler: Fitted scaler of rewards; None leaves them.
        augment: What changes the scaled minibatch; None for nothing.
    """

    def __init__(
        self,
        action_scaler: Scaler | None,
        reward_scaler: Scaler | None,
        augment: Callable[[Batch], Batch] | None = None,
    ) -> None:
        self.action_scaler, self.reward_scaler, self.augment = action_scaler, reward_scaler, augment

    def __call__(self, batch: Batch) -> Batch:
        if self.action_scaler is not None:
            following = batch.next_action
            batch = batch.replace(
                action=self.action_scaler.transform(batch.action),
                next_action=None if following is None else self.action_scaler.transform(following),
            )
        if self.reward_scaler is not None:
            future = batch.future
            if future is not None:
                future = dataclasses.replace(future, reward=self.reward_scaler.transform(future.reward))
            batch = batch.replace(reward=self.reward_scaler.transform(batch.reward), future=future)
        return batch if self.augment is None else self.augment(batch)


def made_scalers(algo: Any, fitted: bool = False) -> dict[str, Scaler | None]:
    """The scalers of an estimator as it was given them, by name, copied, fitted or not.

    Args:
        algo: The estimator.
        fitted: Whether those that it has fitted already stay.

    Raises:
        ValueError: On an unknown name, or if discrete actions are to be scaled.
        TypeError: On what is no scaler.
    """
    if algo.discrete_action and algo.action_scaler is not None:
        raise ValueError(
            f"action_scaler is {algo.action_scaler!r:.80}, but {type(algo).__name__} has discrete actions: leave it out"
        )
    # Before the first fit the attribute is what was given, as an object, which its user may have fitted.
    given = {name: getattr(algo, name) for name in SCALERS if getattr(algo, f"{name}_") is None}
    given = algo.get_params(deep=False) | given
    made = {name: copy.deepcopy(make_scaler(given[name], column)) for name, column in SCALERS.items()}
    return {name: fitted and getattr(algo, f"{name}_") or scaler for name, scaler in made.items()}


def take_scalers(algo: Any, made: dict[str, Scaler | None]) -> None:
    """Let fitted scalers be those of an estimator, and its attributes; what it was given stays its hyperparameters.

    Raises:
        NotFittedError: If one has no statistics yet.
    """
    for name, scaler in made.items():
        if scaler is not None and not scaler.fitted:
            given = algo.get_params(deep=False)[name]
            raise NotFittedError(f"{name} is {given!r}, which is not fitted: fit does it, or fit_scaler")
    for name, scaler in made.items():
        vars(algo).update({name: scaler, f"{name}_": scaler})


def check_scalers_taken(algo: Any) -> None:
    """Refuse scalers of an estimator whose agent was handed in, which learns without them.

    Raises:
        ValueError: Naming the scaler.
    """
    for name in SCALERS:
        if (given := getattr(algo, name)) is not None and getattr(algo, f"{name}_") is None:
            handed_in = "the agent was handed in as impl and learns without: leave it out"
            raise ValueError(f"{name} is {given!r:.80}, but {handed_in}")


def fit_to_space(scaler: Scaler | None, action_space: Any) -> None:
    """Fit a scaler of actions by extremes to the bounds of an environment's, if it is not fitted yet.

    Raises:
        NonFiniteError: If the environment has no bounds.
    """
    if isinstance(scaler, MinMaxActionScaler) and not scaler.fitted:
        scaler.fit(np.stack([action_space.low, action_space.high]).astype(np.float64))


def check_single_rewards(reward_scaler: Any, data: Any) -> None:
    """Refuse a buffer of n-step returns for a scaler of single rewards.

    Raises:
        ValueError: If there are both.
    """
    if reward_scaler is not None and (num_steps := getattr(data, "num_steps", 1)) > 1:
        raise ValueError(
            f"the buffer has num_steps {num_steps}, whose sums of rewards a reward_scaler of single rewards does "
            "not fit: use num_steps=1, or no reward_scaler"
        )
