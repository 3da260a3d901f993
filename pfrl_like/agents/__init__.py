"""Agents: reinforcement-learning algorithms, online and offline."""

from typing import Any

from pfrl_like.agents.a2c import A2C
from pfrl_like.agents.a3c import A3C
from pfrl_like.agents.acer import ACER
from pfrl_like.agents.al import AL
from pfrl_like.agents.appo import APPO
from pfrl_like.agents.categorical_double_dqn import CategoricalDoubleDQN
from pfrl_like.agents.categorical_dqn import CategoricalDQN
from pfrl_like.agents.crossq import CrossQ
from pfrl_like.agents.ddpg import DDPG
from pfrl_like.agents.discrete_sac import DiscreteSAC
from pfrl_like.agents.double_dqn import DoubleDQN
from pfrl_like.agents.double_iqn import DoubleIQN
from pfrl_like.agents.double_pal import DoublePAL
from pfrl_like.agents.dpp import DPP
from pfrl_like.agents.dqn import DQN
from pfrl_like.agents.fqf import FQF
from pfrl_like.agents.impala import IMPALA
from pfrl_like.agents.iqn import IQN
from pfrl_like.agents.munchausen_dqn import MunchausenDQN
from pfrl_like.agents.offline.advantage_weighted import AdvantageWeightedActorCritic
from pfrl_like.agents.offline.awac import AWAC, CRR
from pfrl_like.agents.offline.awr import AWR, DiscreteAWR
from pfrl_like.agents.offline.bc import BC, DiscreteBC
from pfrl_like.agents.offline.bcq import BCQ, DiscreteBCQ
from pfrl_like.agents.offline.bear import BEAR
from pfrl_like.agents.offline.combo import COMBO
from pfrl_like.agents.offline.cql import CQL, CalQL, DiscreteCQL
from pfrl_like.agents.offline.decision_transformer import DecisionTransformer, DiscreteDecisionTransformer
from pfrl_like.agents.offline.edac import EDAC
from pfrl_like.agents.offline.fitted_q_evaluation import DiscreteFittedQEvaluation, FittedQEvaluation
from pfrl_like.agents.offline.iql import IQL, DiscreteIQL
from pfrl_like.agents.offline.plas import PLAS, PLASWithPerturbation
from pfrl_like.agents.offline.td3_plus_bc import ReBRAC, TD3PlusBC
from pfrl_like.agents.pal import PAL
from pfrl_like.agents.ppo import PPO
from pfrl_like.agents.qr_dqn import QRDQN
from pfrl_like.agents.redq import REDQ
from pfrl_like.agents.reinforce import REINFORCE
from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.agents.state_q_function_actor import StateQFunctionActor
from pfrl_like.agents.td3 import TD3
from pfrl_like.agents.tqc import TQC
from pfrl_like.agents.trpo import TRPO
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.off_policy import OffPolicyAgent
from pfrl_like.learning.on_policy import OnPolicyAgent

__all__ = [
    "A2C", "A3C", "ACER", "AL", "APPO", "AWAC", "AWR", "AdvantageWeightedActorCritic", "BC", "BCQ", "BEAR", "COMBO",
    "CQL", "CRR", "CalQL", "CategoricalDQN", "CategoricalDoubleDQN", "CrossQ", "DDPG", "DPP", "DQN",
    "DecisionTransformer", "DiscreteAWR", "DiscreteBC", "DiscreteBCQ", "DiscreteCQL", "DiscreteDecisionTransformer",
    "DiscreteFittedQEvaluation", "DiscreteIQL", "DiscreteSAC", "DoubleDQN", "DoubleIQN", "DoublePAL", "EDAC", "FQF",
    "FittedQEvaluation", "IMPALA", "IQL", "IQN", "OffPolicyActorCritic", "OffPolicyAgent", "OnPolicyAgent",
    "MunchausenDQN", "PAL", "PLAS", "PLASWithPerturbation", "PPO", "QRDQN", "REDQ", "REINFORCE", "ReBRAC",
    "SoftActorCritic", "StateQFunctionActor", "TD3", "TD3PlusBC", "TQC", "TRPO",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Raise an error. If the name may be the name of a class, the error contains the nearest name of an agent."""
    from pfrl_like.utils.checks import nearest_names  # not names of this module
    from pfrl_like.utils.old_names import missing_name

    hint = ": use SoftActorCritic" if name == "SAC" else nearest_names(name, __all__) if name[:1].isupper() else ""
    raise missing_name(__name__, name, hint)
