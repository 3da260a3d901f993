"""Q-functions of observations, Q(s, .), and of pairs of observation and action, Q(s, a)."""

from pfrl_like.q_functions.distributional_state_action_q_functions import (
    DistributionalFCSAQFunction,
    FullyParametrizedFCSAQFunction,
    ImplicitQuantileFCSAQFunction,
    QuantileFCSAQFunction,
)
from pfrl_like.q_functions.dueling_dqn import DistributionalDuelingDQN, DuelingDQN, DuelingStreams
from pfrl_like.q_functions.quantile_q_functions import (
    CosineBasisLinear,
    FullyParametrizedQFunction,
    ImplicitQuantileQFunction,
    QuantileFCStateQFunctionWithDiscreteAction,
    QuantileSingleModelStateQFunctionWithDiscreteAction,
    RecurrentImplicitQuantileQFunction,
    cosine_basis_functions,
    fqf_parameter_groups,
)
from pfrl_like.q_functions.state_action_q_functions import (
    DropoutFCSAQFunction,
    FCBNLateActionSAQFunction,
    FCBNSAQFunction,
    FCLateActionSAQFunction,
    FCLSTMSAQFunction,
    FCSAQFunction,
    QFunctionEnsemble,
    SingleModelStateActionQFunction,
)
from pfrl_like.q_functions.state_q_functions import (
    DiscreteActionValueHead,
    DistributionalFCStateQFunctionWithDiscreteAction,
    DistributionalSingleModelStateQFunctionWithDiscreteAction,
    FCQuadraticStateQFunction,
    FCStateQFunctionWithDiscreteAction,
    SingleModelStateQFunctionWithDiscreteAction,
)

__all__ = [
    "CosineBasisLinear", "DiscreteActionValueHead", "DistributionalDuelingDQN",
    "DistributionalFCStateQFunctionWithDiscreteAction", "DistributionalSingleModelStateQFunctionWithDiscreteAction",
    "DistributionalFCSAQFunction", "DropoutFCSAQFunction", "DuelingDQN", "DuelingStreams", "FCBNLateActionSAQFunction",
    "FCBNSAQFunction", "FCLSTMSAQFunction", "FCLateActionSAQFunction", "FCQuadraticStateQFunction", "FCSAQFunction",
    "FCStateQFunctionWithDiscreteAction", "SingleModelStateActionQFunction", "FullyParametrizedFCSAQFunction",
    "FullyParametrizedQFunction", "ImplicitQuantileFCSAQFunction", "ImplicitQuantileQFunction", "QFunctionEnsemble",
    "QuantileFCSAQFunction", "QuantileFCStateQFunctionWithDiscreteAction",
    "QuantileSingleModelStateQFunctionWithDiscreteAction", "RecurrentImplicitQuantileQFunction",
    "SingleModelStateQFunctionWithDiscreteAction", "cosine_basis_functions", "fqf_parameter_groups",
]  # fmt: skip
