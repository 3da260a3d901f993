"""Persistent Advantage Learning (arXiv:1512.04860) with the targets of Double DQN (arXiv:1509.06461)."""

from pfrl_like.agents.double_dqn import greedy_of_online
from pfrl_like.agents.pal import PAL


class DoublePAL(PAL):
    """`PAL` in which the online network chooses the next action and the target network evaluates it.

    The arguments are those of `PAL`. The gaps are those of the target network, as in `PAL`.
    """

    next_action = staticmethod(greedy_of_online)
