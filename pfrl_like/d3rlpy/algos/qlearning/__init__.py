"""The base class of algorithms that learn from transitions; and configs at the paths where programs find them."""

from pfrl_like.d3rlpy.algos.configs import DQNConfig, SACConfig
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase

__all__ = ["DQNConfig", "QLearningAlgoBase", "SACConfig"]
