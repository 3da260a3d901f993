"""Action values with quantiles at any fraction, defined in `pfrl_like.action_value`."""

from pfrl_like.action_value import FullyParametrizedActionValue as FullyParametrizedActionValue
from pfrl_like.action_value import ImplicitQuantileActionValue as ImplicitQuantileActionValue
from pfrl_like.action_value import QuantileThresholds as QuantileThresholds
