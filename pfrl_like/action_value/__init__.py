"""Action values: outputs of Q-functions that represent the values of all actions of a state.

The method `td_loss` of each class compares the values of the executed actions with targets. The targets are computed
from the values of the next states. All methods process batches.
"""

from pfrl_like.action_value.base import ActionValue
from pfrl_like.action_value.continuous import QuadraticActionValue, SingleActionValue
from pfrl_like.action_value.discrete import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.action_value.ensemble import EnsembleActionValue, min_of, soft_min_of
from pfrl_like.action_value.quantile import (
    FullyParametrizedActionValue,
    ImplicitQuantileActionValue,
    QuantileDiscreteActionValue,
    QuantileThresholds,
)

__all__ = [
    "ActionValue", "DiscreteActionValue", "DistributionalDiscreteActionValue", "EnsembleActionValue",
    "FullyParametrizedActionValue", "ImplicitQuantileActionValue", "QuadraticActionValue",
    "QuantileDiscreteActionValue", "QuantileThresholds", "SingleActionValue", "min_of", "soft_min_of",
]  # fmt: skip
