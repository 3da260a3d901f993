"""Algorithms that learn from transitions, and their configs."""

from pfrl_like.d3rlpy.algos.configs import DQNConfig, SACConfig
from pfrl_like.d3rlpy.algos.qlearning.actor_critics import AWAC, CRR, DDPG, IQL, TD3, ReBRAC, TD3PlusBC
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.imitation import BC, DiscreteBC
from pfrl_like.d3rlpy.algos.qlearning.value_based import DQN, NFQ, DiscreteCQL, DoubleDQN

__all__ = [
    "AWAC", "BC", "CRR", "DDPG", "DQN", "IQL", "NFQ", "TD3", "DQNConfig", "DiscreteBC", "DiscreteCQL", "DoubleDQN",
    "QLearningAlgoBase", "ReBRAC", "SACConfig", "TD3PlusBC",
]  # fmt: skip
