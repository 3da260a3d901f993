"""Path of `AlgoBase`, the base class of estimators in d3rlpy before 2.0."""

from pfrl_like.algos.fitting.base import Estimator as AlgoBase

__all__ = ["AlgoBase"]
