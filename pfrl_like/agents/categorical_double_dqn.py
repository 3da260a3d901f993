"""Categorical DQN (arXiv:1707.06887) with the targets of Double DQN (arXiv:1509.06461)."""

from pfrl_like.agents.categorical_dqn import CategoricalDQN
from pfrl_like.agents.double_dqn import greedy_of_online


class CategoricalDoubleDQN(CategoricalDQN):
    """`CategoricalDQN` in which the online network chooses the next action (arXiv:1509.06461, eq. 4)."""

    next_action = staticmethod(greedy_of_online)
