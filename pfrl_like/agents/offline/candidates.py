"""The choice of the action that a critic values most, among some that were drawn."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import map_nested
from pfrl_like.distributions import DeltaVector
from pfrl_like.functions.chunked import apply_in_chunks
from pfrl_like.learning.critics import mean_value
from pfrl_like.learning.policy_acting import at_rows
from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.utils.direct_call import call


class ChosenAction(DeltaVector):
    """The actions that were chosen among several for their values.

    Args:
        loc: The actions, [N, A].
        score: Gives the values, [N], of any actions in the same states, so that others can be told to be as good.
    """

    def __init__(self, loc: Tensor, score: Callable[[Tensor], Tensor]) -> None:
        super().__init__(loc)
        self.score = score


def chosen(actions: Tensor, values: Tensor) -> Tensor:
    """Of several actions in each state, [M, N, A], those of the largest of their values, [M, N]; [N, A]."""
    return actions[values.argmax(0), torch.arange(values.shape[1], device=values.device)]


def most_valued(critic: Any, obs: Any, actions: Tensor) -> ChosenAction:
    """Of several actions in each state, [M, N, A], that which a critic values most."""
    score = functools.partial(_value, critic)
    return ChosenAction(chosen(actions, apply_in_chunks(score, obs, actions)), functools.partial(score, obs))


def chosen_for_active(choose: Callable[[Any], DeltaVector], obs: Any, active: Any) -> DeltaVector:
    """What is chosen for observations, [k]; of environments that are not active it is zeros, and costs no draw."""
    if active is None or np.all(active):
        return choose(obs)
    if not np.any(active):
        with isolated_rng():
            return DeltaVector(torch.zeros_like(choose(obs).mode))
    rows = torch.from_numpy(np.flatnonzero(active))
    some = choose(map_nested(lambda leaf: leaf[rows.to(leaf.device)], obs)).mode
    return DeltaVector(at_rows(some, rows, len(active)))


def _value(critic: Any, obs: Any, action: Tensor) -> Tensor:
    value: Any = call(critic, (obs, action))
    return value.reshape(-1) if isinstance(value, Tensor) else mean_value(value)
