"""Estimators: algorithms with scikit-learn's interface, which size networks, compose agents and run them."""

from pfrl_like.algos.awr import AWR, DiscreteAWR
from pfrl_like.algos.base import Estimator
from pfrl_like.algos.bc import BC, DiscreteBC
from pfrl_like.algos.bcq import BCQ, BEAR, DiscreteBCQ
from pfrl_like.algos.ddpg import DDPG, TD3
from pfrl_like.algos.dqn import DQN, DiscreteCQL, DoubleDQN
from pfrl_like.algos.epoch_algorithms import EpochDDPG, EpochDQN
from pfrl_like.algos.off_policy_rl_algorithm import OffPolicyRLAlgorithm
from pfrl_like.algos.sac import AWAC, CQL, SAC

__all__ = [
    "AWAC",
    "AWR",
    "BC",
    "BCQ",
    "BEAR",
    "CQL",
    "DDPG",
    "DQN",
    "DiscreteAWR",
    "DiscreteBC",
    "DiscreteBCQ",
    "DiscreteCQL",
    "DoubleDQN",
    "EpochDDPG",
    "EpochDQN",
    "Estimator",
    "OffPolicyRLAlgorithm",
    "SAC",
    "TD3",
]
