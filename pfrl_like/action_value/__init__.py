"""What a Q-function says of a state: the value of every action, in one of several forms.

Each form also says how it is learnt: `td_loss` compares the values of the actions taken with targets made of the
next states' values. Everything works on a batch.
"""

from pfrl_like.action_value.base import ActionValue
from pfrl_like.action_value.continuous import QuadraticActionValue, SingleActionValue
from pfrl_like.action_value.discrete import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.action_value.ensemble import EnsembleActionValue, least_of, soft_least_of
from pfrl_like.action_value.quantile import (
    FullyParametrizedActionValue,
    ImplicitQuantileActionValue,
    QuantileDiscreteActionValue,
    QuantileThresholds,
)

__all__ = [
    "ActionValue",
    "DiscreteActionValue",
    "DistributionalDiscreteActionValue",
    "EnsembleActionValue",
    "FullyParametrizedActionValue",
    "ImplicitQuantileActionValue",
    "QuadraticActionValue",
    "QuantileDiscreteActionValue",
    "QuantileThresholds",
    "SingleActionValue",
    "least_of",
    "soft_least_of",
]
