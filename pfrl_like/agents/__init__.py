"""Agents: how to act, how to learn."""

from typing import TYPE_CHECKING, NoReturn

from pfrl_like.agents.a2c import A2C as A2C
from pfrl_like.agents.a3c import A3C as A3C
from pfrl_like.agents.acer import ACER as ACER
from pfrl_like.agents.actor_critic import OffPolicyActorCritic as OffPolicyActorCritic
from pfrl_like.agents.al import AL as AL
from pfrl_like.agents.categorical_double_dqn import CategoricalDoubleDQN as CategoricalDoubleDQN
from pfrl_like.agents.categorical_dqn import CategoricalDQN as CategoricalDQN
from pfrl_like.agents.crossq import CrossQ as CrossQ
from pfrl_like.agents.ddpg import DDPG as DDPG
from pfrl_like.agents.discrete_sac import DiscreteSAC as DiscreteSAC
from pfrl_like.agents.double_dqn import DoubleDQN as DoubleDQN
from pfrl_like.agents.double_iqn import DoubleIQN as DoubleIQN
from pfrl_like.agents.double_pal import DoublePAL as DoublePAL
from pfrl_like.agents.dpp import DPP as DPP
from pfrl_like.agents.dqn import DQN as DQN
from pfrl_like.agents.fqf import FQF as FQF
from pfrl_like.agents.iqn import IQN as IQN
from pfrl_like.agents.off_policy_agent import OffPolicyAgent as OffPolicyAgent
from pfrl_like.agents.on_policy_agent import OnPolicyAgent as OnPolicyAgent
from pfrl_like.agents.pal import PAL as PAL
from pfrl_like.agents.ppo import PPO as PPO
from pfrl_like.agents.qr_dqn import QRDQN as QRDQN
from pfrl_like.agents.redq import REDQ as REDQ
from pfrl_like.agents.reinforce import REINFORCE as REINFORCE
from pfrl_like.agents.soft_actor_critic import SoftActorCritic as SoftActorCritic
from pfrl_like.agents.state_q_function_actor import StateQFunctionActor as StateQFunctionActor
from pfrl_like.agents.td3 import TD3 as TD3
from pfrl_like.agents.tqc import TQC as TQC
from pfrl_like.agents.trpo import TRPO as TRPO

_NOT_YET = frozenset(["SAC"])

if not TYPE_CHECKING:  # for which every name would be there

    def __getattr__(name: str) -> NoReturn:
        """Tell which of PFRL's agents are still missing."""
        reason = "is not in pfrl_like yet" if name in _NOT_YET else "is no attribute of module 'pfrl_like.agents'"
        raise AttributeError(f"{name!r} {reason}")
