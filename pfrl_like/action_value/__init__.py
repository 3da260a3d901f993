"""What a Q-function says of a state: the value of every action, in one of several forms.

Each form also says how it is learnt: `td_loss` compares the values of the actions taken with targets made of the
next states' values. Everything works on a batch.
"""

from pfrl_like.action_value.base import ActionValue
from pfrl_like.action_value.discrete import DiscreteActionValue
from pfrl_like.action_value.distributional import DistributionalDiscreteActionValue
from pfrl_like.action_value.ensemble import EnsembleActionValue
from pfrl_like.action_value.fully_parametrized import FullyParametrizedActionValue
from pfrl_like.action_value.implicit_quantile import ImplicitQuantileActionValue, QuantileThresholds
from pfrl_like.action_value.least import least_of, soft_least_of
from pfrl_like.action_value.quadratic import QuadraticActionValue
from pfrl_like.action_value.quantile import QuantileDiscreteActionValue
from pfrl_like.action_value.single import SingleActionValue

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
