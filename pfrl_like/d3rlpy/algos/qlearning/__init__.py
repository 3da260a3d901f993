"""Algorithms that learn from transitions, and their configs."""

from pfrl_like.d3rlpy.algos.configs import DQNConfig, SACConfig
from pfrl_like.d3rlpy.algos.qlearning.actor_critics import AWAC, CRR, DDPG, IQL, TD3, ReBRAC, TD3PlusBC
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.imitation import BC, DiscreteBC
from pfrl_like.d3rlpy.algos.qlearning.imitator_critics import BCQ, BEAR, PLAS, PLASWithPerturbation
from pfrl_like.d3rlpy.algos.qlearning.max_entropy import CQL, SAC, CalQL, DiscreteSAC
from pfrl_like.d3rlpy.algos.qlearning.random_policies import DiscreteRandomPolicy, RandomPolicy
from pfrl_like.d3rlpy.algos.qlearning.value_based import DQN, NFQ, DiscreteBCQ, DiscreteCQL, DoubleDQN

__all__ = [
    "AWAC", "BC", "BCQ", "BEAR", "CQL", "CRR", "CalQL", "DDPG", "DQN", "DQNConfig", "DiscreteBC", "DiscreteBCQ",
    "DiscreteCQL", "DiscreteRandomPolicy", "DiscreteSAC", "DoubleDQN", "IQL", "NFQ", "PLAS", "PLASWithPerturbation",
    "QLearningAlgoBase", "RandomPolicy", "ReBRAC", "SAC", "SACConfig", "TD3", "TD3PlusBC",
]  # fmt: skip
