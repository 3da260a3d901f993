"""Algorithms that learn from transitions, and their configs."""

from pfrl_like.d3rlpy.algos.configs import DoubleDQNConfig, DQNConfig, NFQConfig, SACConfig
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.value_based import DQN, NFQ, DoubleDQN

__all__ = ["DQN", "NFQ", "DQNConfig", "DoubleDQN", "DoubleDQNConfig", "NFQConfig", "QLearningAlgoBase", "SACConfig"]
