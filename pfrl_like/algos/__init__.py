"""Estimators: algorithms with scikit-learn's interface, which size networks, compose agents and run them."""

from pfrl_like.algos.awr import AWR as AWR
from pfrl_like.algos.awr import DiscreteAWR as DiscreteAWR
from pfrl_like.algos.base import Estimator as Estimator
from pfrl_like.algos.bc import BC as BC
from pfrl_like.algos.bc import DiscreteBC as DiscreteBC
from pfrl_like.algos.bcq import BCQ as BCQ
from pfrl_like.algos.bcq import BEAR as BEAR
from pfrl_like.algos.bcq import DiscreteBCQ as DiscreteBCQ
from pfrl_like.algos.ddpg import DDPG as DDPG
from pfrl_like.algos.ddpg import TD3 as TD3
from pfrl_like.algos.dqn import DQN as DQN
from pfrl_like.algos.dqn import DiscreteCQL as DiscreteCQL
from pfrl_like.algos.dqn import DoubleDQN as DoubleDQN
from pfrl_like.algos.epoch_algorithms import EpochDDPG as EpochDDPG
from pfrl_like.algos.epoch_algorithms import EpochDQN as EpochDQN
from pfrl_like.algos.off_policy_rl_algorithm import OffPolicyRLAlgorithm as OffPolicyRLAlgorithm
from pfrl_like.algos.sac import AWAC as AWAC
from pfrl_like.algos.sac import CQL as CQL
from pfrl_like.algos.sac import SAC as SAC
