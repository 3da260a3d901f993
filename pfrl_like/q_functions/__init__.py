"""Q-functions."""

from pfrl_like.q_functions.dueling_dqn import DistributionalDuelingDQN, DuelingDQN
from pfrl_like.q_functions.state_action_q_functions import (
    FCBNLateActionSAQFunction,
    FCBNSAQFunction,
    FCLateActionSAQFunction,
    FCLSTMSAQFunction,
    FCSAQFunction,
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
    "DiscreteActionValueHead",
    "DistributionalDuelingDQN",
    "DistributionalFCStateQFunctionWithDiscreteAction",
    "DistributionalSingleModelStateQFunctionWithDiscreteAction",
    "DuelingDQN",
    "FCBNLateActionSAQFunction",
    "FCBNSAQFunction",
    "FCLSTMSAQFunction",
    "FCLateActionSAQFunction",
    "FCQuadraticStateQFunction",
    "FCSAQFunction",
    "FCStateQFunctionWithDiscreteAction",
    "SingleModelStateActionQFunction",
    "SingleModelStateQFunctionWithDiscreteAction",
]
