"""Path of `DynamicsBase`, the base class of models of an environment in d3rlpy before 2.0."""

from pfrl_like.dynamics.mopo import MOPO as DynamicsBase

__all__ = ["DynamicsBase"]
