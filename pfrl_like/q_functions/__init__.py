"""Q-functions."""

from pfrl_like.q_functions.state_q_functions import (
    DiscreteActionValueHead,
    DistributionalFCStateQFunctionWithDiscreteAction,
    DistributionalSingleModelStateQFunctionWithDiscreteAction,
    FCQuadraticStateQFunction,
    FCStateQFunctionWithDiscreteAction,
    SingleModelStateQFunctionWithDiscreteAction,
)

__all__ = [
    "DiscreteActionValueHead",
    "DistributionalFCStateQFunctionWithDiscreteAction",
    "DistributionalSingleModelStateQFunctionWithDiscreteAction",
    "FCQuadraticStateQFunction",
    "FCStateQFunctionWithDiscreteAction",
    "SingleModelStateQFunctionWithDiscreteAction",
]
