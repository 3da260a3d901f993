"""Implicit Quantile Networks (arXiv:1806.06923) with the targets of Double DQN (arXiv:1509.06461)."""

from pfrl_like.agents.double_dqn import greedy_of_online
from pfrl_like.agents.iqn import IQN


class DoubleIQN(IQN):
    """`IQN` in which the online network chooses the next action and the target network evaluates it.

    The arguments are those of `IQN`.
    """

    next_action = staticmethod(greedy_of_online)
