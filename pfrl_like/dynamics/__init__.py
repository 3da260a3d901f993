"""Models that learn to predict the steps of an environment, and rollouts of these models."""

from pfrl_like.dynamics.base import DynamicsBase
from pfrl_like.dynamics.dynamics_model import DynamicsModel, ProbabilisticEnsemble
from pfrl_like.dynamics.mopo import MOPO
from pfrl_like.dynamics.rollouts import ModelRollouts

__all__ = ["DynamicsBase", "DynamicsModel", "MOPO", "ModelRollouts", "ProbabilisticEnsemble"]
