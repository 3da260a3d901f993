"""Q-functions."""

from pfrl_like.q_functions.implicit_quantile_q_functions import (
    CosineBasisLinear,
    FullyParametrizedQFunction,
    ImplicitQuantileQFunction,
    RecurrentImplicitQuantileQFunction,
    cosine_basis_functions,
    fqf_parameter_groups,
)
from pfrl_like.q_functions.quantile_q_functions import (
    QuantileFCStateQFunctionWithDiscreteAction,
    QuantileSingleModelStateQFunctionWithDiscreteAction,
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
    "CosineBasisLinear",
    "DiscreteActionValueHead",
    "DistributionalFCStateQFunctionWithDiscreteAction",
    "DistributionalSingleModelStateQFunctionWithDiscreteAction",
    "FCQuadraticStateQFunction",
    "FCStateQFunctionWithDiscreteAction",
    "FullyParametrizedQFunction",
    "ImplicitQuantileQFunction",
    "QuantileFCStateQFunctionWithDiscreteAction",
    "QuantileSingleModelStateQFunctionWithDiscreteAction",
    "RecurrentImplicitQuantileQFunction",
    "SingleModelStateQFunctionWithDiscreteAction",
    "cosine_basis_functions",
    "fqf_parameter_groups",
]
