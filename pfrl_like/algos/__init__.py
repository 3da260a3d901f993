"""Estimators: algorithms with scikit-learn's interface. They build networks and agents, and train the agents."""

from typing import TYPE_CHECKING, Any

from pfrl_like.algos.awr import AWR, DiscreteAWR
from pfrl_like.algos.base import AlgoBase
from pfrl_like.algos.bc import BC, DiscreteBC
from pfrl_like.algos.bcq import BCQ, BEAR, DiscreteBCQ
from pfrl_like.algos.cal_ql import COMBO, CalQL
from pfrl_like.algos.crr import CRR
from pfrl_like.algos.ddpg import DDPG, TD3
from pfrl_like.algos.decision_transformer import DecisionTransformer, DiscreteDecisionTransformer
from pfrl_like.algos.discrete_sac import DiscreteSAC
from pfrl_like.algos.dqn import DQN, DiscreteCQL, DoubleDQN
from pfrl_like.algos.edac import EDAC, SACN
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.iql import IQL, DiscreteIQL
from pfrl_like.algos.off_policy_rl_algorithm import EpochDDPG, EpochDQN, OffPolicyRLAlgorithm
from pfrl_like.algos.plas import PLAS, PLASWithPerturbation
from pfrl_like.algos.ppo import PPO
from pfrl_like.algos.random_policy import DiscreteRandomPolicy, RandomPolicy
from pfrl_like.algos.sac import AWAC, CQL, SAC
from pfrl_like.algos.td3_plus_bc import ReBRAC, TD3PlusBC
from pfrl_like.online.explorers import ConstantEpsilonGreedy

__all__ = [
    "AWAC", "AWR", "AlgoBase", "BC", "BCQ", "BEAR", "COMBO", "CQL", "CRR", "CalQL", "ConstantEpsilonGreedy", "DDPG",
    "DQN", "DecisionTransformer", "DiscreteAWR", "DiscreteBC", "DiscreteBCQ", "DiscreteCQL",
    "DiscreteDecisionTransformer", "DiscreteIQL", "DiscreteRandomPolicy", "DiscreteSAC", "DoubleDQN", "EDAC",
    "EpochDDPG", "EpochDQN", "Estimator", "IQL", "OffPolicyRLAlgorithm", "PLAS", "PLASWithPerturbation", "PPO",
    "RandomPolicy", "ReBRAC", "SAC", "SACN", "TD3", "TD3PlusBC",
]  # fmt: skip

if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Raise an error. If `name` is an agent without an estimator, the message names the agent."""
        from pfrl_like import agents  # imported here, so that the package does not export these names
        from pfrl_like.utils.checks import nearest_names
        from pfrl_like.utils.old_names import missing_name

        known = name.removesuffix("Config")  # d3rlpy has a configuration for each estimator
        hint = nearest_names(known, __all__, 0.6) if name[:1].isupper() else ""
        if known in agents.__all__ and known not in __all__:
            hint = f": it is an agent without an estimator, pfrl_like.agents.{known}"
        raise missing_name(__name__, name, hint)
