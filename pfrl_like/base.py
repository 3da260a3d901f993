"""Path of `LearnableBase`, the base class of all estimators in d3rlpy 0.50 to 1.1."""

from pfrl_like.algos.fitting.base import Estimator as LearnableBase

__all__ = ["LearnableBase"]
