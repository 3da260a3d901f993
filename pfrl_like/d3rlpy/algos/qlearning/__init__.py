"""Algorithms that learn from transitions, their configs and their explorers. `algos` exports them, too."""

from pfrl_like.d3rlpy.algos.configs import (
    AWACConfig,
    BCConfig,
    BCQConfig,
    BEARConfig,
    CalQLConfig,
    CQLConfig,
    CRRConfig,
    DDPGConfig,
    DiscreteBCConfig,
    DiscreteBCQConfig,
    DiscreteCQLConfig,
    DiscreteRandomPolicyConfig,
    DiscreteSACConfig,
    DoubleDQNConfig,
    DQNConfig,
    IQLConfig,
    NFQConfig,
    PLASConfig,
    PLASWithPerturbationConfig,
    RandomPolicyConfig,
    ReBRACConfig,
    SACConfig,
    TD3Config,
    TD3PlusBCConfig,
)
from pfrl_like.d3rlpy.algos.explorers import ConstantEpsilonGreedy, Explorer, LinearDecayEpsilonGreedy, NormalNoise
from pfrl_like.d3rlpy.algos.qlearning.actor_critics import AWAC, CRR, DDPG, IQL, TD3, ReBRAC, TD3PlusBC
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.imitation import BC, DiscreteBC
from pfrl_like.d3rlpy.algos.qlearning.imitator_critics import BCQ, BEAR, PLAS, PLASWithPerturbation
from pfrl_like.d3rlpy.algos.qlearning.max_entropy import CQL, SAC, CalQL, DiscreteSAC
from pfrl_like.d3rlpy.algos.qlearning.random_policies import DiscreteRandomPolicy, RandomPolicy
from pfrl_like.d3rlpy.algos.qlearning.value_based import DQN, NFQ, DiscreteBCQ, DiscreteCQL, DoubleDQN

__all__ = [
    "AWAC", "AWACConfig", "BC", "BCConfig", "BCQ", "BCQConfig", "BEAR", "BEARConfig", "CQL", "CQLConfig", "CRR",
    "CRRConfig", "CalQL", "CalQLConfig", "ConstantEpsilonGreedy", "DDPG", "DDPGConfig", "DQN", "DQNConfig",
    "DiscreteBC", "DiscreteBCConfig", "DiscreteBCQ", "DiscreteBCQConfig", "DiscreteCQL", "DiscreteCQLConfig",
    "DiscreteRandomPolicy", "DiscreteRandomPolicyConfig", "DiscreteSAC", "DiscreteSACConfig", "DoubleDQN",
    "DoubleDQNConfig", "Explorer", "IQL", "IQLConfig", "LinearDecayEpsilonGreedy", "NFQ", "NFQConfig",
    "NormalNoise", "PLAS", "PLASConfig", "PLASWithPerturbation", "PLASWithPerturbationConfig",
    "QLearningAlgoBase", "RandomPolicy", "RandomPolicyConfig", "ReBRAC", "ReBRACConfig", "SAC", "SACConfig",
    "TD3", "TD3Config", "TD3PlusBC", "TD3PlusBCConfig",
]  # fmt: skip
