"""Implicit Quantile Networks (arXiv:1806.06923) with the targets of Double DQN (arXiv:1509.06461)."""

from pfrl_like.agents.double_dqn import greedy_of_online
from pfrl_like.agents.iqn import IQN


class DoubleIQN(IQN):
    """`IQN` with the next action chosen by the online network and valued by the target network; arguments as `IQN`."""

    next_action = staticmethod(greedy_of_online)
