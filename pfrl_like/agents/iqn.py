"""Implicit Quantile Networks (Dabney et al. 2018, arXiv:1806.06923)."""

from typing import Any

from torch import Tensor

from pfrl_like.action_value import ImplicitQuantileActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.functions.losses import quantile_huber_of_pairs, weighted_mean
from pfrl_like.q_functions.quantile_q_functions import CosineBasisLinear as CosineBasisLinear
from pfrl_like.q_functions.quantile_q_functions import ImplicitQuantileQFunction as ImplicitQuantileQFunction
from pfrl_like.q_functions.quantile_q_functions import (
    RecurrentImplicitQuantileQFunction as RecurrentImplicitQuantileQFunction,
)
from pfrl_like.q_functions.quantile_q_functions import cosine_basis_functions as cosine_basis_functions


class IQN(DQN):
    """DQN with a Q-function that gives an `ImplicitQuantileActionValue`, which computes the loss.

    Args:
        args: As `DQN`; the Q-function is or holds an `ImplicitQuantileQFunction`, for which the numbers below are set.
        quantile_thresholds_N: Number of fractions drawn for the quantiles that are learnt. None keeps the number that
            the Q-function was made with, 64 by default.
        quantile_thresholds_N_prime: Number of fractions drawn for the quantiles of the next state. None keeps the
            number that the Q-function was made with, 64 by default.
        quantile_thresholds_K: Number of fractions drawn for the greedy action. None keeps the number that the
            Q-function was made with, 32 by default.
        act_deterministically: In evaluation act on K evenly spaced fractions, (i + 0.5) / K, instead of random ones.
        kwargs: As `DQN`; `clip_delta` is without effect.

    Raises:
        ValueError: If one of the numbers is below 1, or on values outside those that `DQN` names, with the value got.
        TypeError: If a number is given for a Q-function that draws no fractions, if the Q-function gives something else
            (at the first observation or update), if the parts do not fit together, or on an unknown keyword.
    """

    value_type = ImplicitQuantileActionValue

    def __init__(
        self,
        *args: Any,
        quantile_thresholds_N: int | None = None,
        quantile_thresholds_N_prime: int | None = None,
        quantile_thresholds_K: int | None = None,
        act_deterministically: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.act_deterministically = act_deterministically
        counts = {"N": quantile_thresholds_N, "N_prime": quantile_thresholds_N_prime, "K": quantile_thresholds_K}
        given = {name: count for name, count in counts.items() if count is not None}
        parts = [*self.model.modules(), *self.target_model.modules()]
        drawing = [part for part in parts if isinstance(part, ImplicitQuantileQFunction)]
        if given and not drawing:
            raise TypeError(
                f"quantile_thresholds_{next(iter(given))} is given, but q_function is {type(self.model).__name__}, "
                "which holds no ImplicitQuantileQFunction"
            )
        for part in drawing:
            part.set_thresholds(**given)

    def _value(self, obs: Any, active: Any = None) -> Any:
        value = super()._value(obs, active)
        return value.at_even_fractions() if self.act_deterministically and not self.training else value


# PFRL's functions, for code that was written for PFRL


def compute_eltwise_huber_quantile_loss(y: Tensor, t: Tensor, taus: Tensor) -> Tensor:
    """Quantile Huber losses of all pairs, [B, N, N'], by `quantile_huber_of_pairs`.

    Args:
        y: Predicted quantiles, [B, N].
        t: Quantiles of the target, [B, N'].
        taus: Fractions of the predicted quantiles, [B, N].
    """
    return quantile_huber_of_pairs(y, t, taus)


def compute_value_loss(eltwise_loss: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """Losses [B, N, N'] averaged over N' and summed over N, with their "mean" or "sum" over the minibatch.

    Raises:
        ValueError: If `batch_accumulator` is something else.
    """
    return weighted_mean(eltwise_loss.mean(2).sum(1), None, batch_accumulator)


def compute_weighted_value_loss(eltwise_loss: Tensor, weights: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """`compute_value_loss` with importance weights, [B].

    Raises:
        ValueError: If `batch_accumulator` is something else.
    """
    return weighted_mean(eltwise_loss.mean(2).sum(1), weights, batch_accumulator)
