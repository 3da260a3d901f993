"""Estimators: algorithms with scikit-learn's interface. They build networks and agents, and train the agents."""

from typing import TYPE_CHECKING, Any

from pfrl_like.algos.awr import AWR, DiscreteAWR
from pfrl_like.algos.bc import BC, DiscreteBC
from pfrl_like.algos.bcq import BCQ, BEAR, DiscreteBCQ
from pfrl_like.algos.ddpg import DDPG, TD3
from pfrl_like.algos.dqn import DQN, DiscreteCQL, DoubleDQN
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.off_policy_rl_algorithm import EpochDDPG, EpochDQN, OffPolicyRLAlgorithm
from pfrl_like.algos.sac import AWAC, CQL, SAC

__all__ = [
    "AWAC", "AWR", "BC", "BCQ", "BEAR", "CQL", "DDPG", "DQN", "DiscreteAWR", "DiscreteBC", "DiscreteBCQ",
    "DiscreteCQL", "DoubleDQN", "EpochDDPG", "EpochDQN", "Estimator", "OffPolicyRLAlgorithm", "SAC", "TD3",
]  # fmt: skip

if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Raise an AttributeError. If `name` is an agent without an estimator, the message names the agent."""
        from pfrl_like import agents  # imported here, so that the package does not export it

        where = f": it is an agent without an estimator, pfrl_like.agents.{name}" if name in agents.__all__ else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{where}", name=name)
