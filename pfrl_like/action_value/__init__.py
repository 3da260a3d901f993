"""What a Q-function says of a state: the value of every action, in one of several forms.

Each form also says how it is learnt: `td_loss` compares the values of the actions taken with targets made of the
next states' values. Everything works on a batch.
"""

from pfrl_like.action_value.base import ActionValue as ActionValue
from pfrl_like.action_value.discrete import DiscreteActionValue as DiscreteActionValue
from pfrl_like.action_value.distributional import DistributionalDiscreteActionValue as DistributionalDiscreteActionValue
from pfrl_like.action_value.ensemble import EnsembleActionValue as EnsembleActionValue
from pfrl_like.action_value.fully_parametrized import FullyParametrizedActionValue as FullyParametrizedActionValue
from pfrl_like.action_value.implicit_quantile import ImplicitQuantileActionValue as ImplicitQuantileActionValue
from pfrl_like.action_value.implicit_quantile import QuantileThresholds as QuantileThresholds
from pfrl_like.action_value.least import least_of as least_of
from pfrl_like.action_value.least import soft_least_of as soft_least_of
from pfrl_like.action_value.quadratic import QuadraticActionValue as QuadraticActionValue
from pfrl_like.action_value.quantile import QuantileDiscreteActionValue as QuantileDiscreteActionValue
from pfrl_like.action_value.single import SingleActionValue as SingleActionValue
