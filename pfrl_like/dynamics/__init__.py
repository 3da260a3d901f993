"""Dynamics models: models of an environment that are learnt from data, and rollouts with them."""

from pfrl_like.dynamics.dynamics_model import DynamicsModel, ProbabilisticEnsemble
from pfrl_like.dynamics.mopo import MOPO
from pfrl_like.dynamics.rollouts import ModelRollouts

__all__ = [
    "DynamicsModel",
    "MOPO",
    "ModelRollouts",
    "ProbabilisticEnsemble",
]
