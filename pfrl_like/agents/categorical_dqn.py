"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887)."""

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents.double_dqn import DoubleDQN
from pfrl_like.agents.dqn import DQN


class CategoricalDQN(DQN):
    """DQN with a Q-function that gives a `DistributionalDiscreteActionValue`.

    Arguments as `DQN`; `clip_delta` is accepted for PFRL's sake and ignored, since the loss is a cross entropy. What
    the class adds to `DQN` is the check that the Q-function is of that kind.

    Raises:
        TypeError: At the first update or when a runner meets the agent, if it is of another one.
    """

    value_type = DistributionalDiscreteActionValue


class CategoricalDoubleDQN(CategoricalDQN, DoubleDQN):
    """`CategoricalDQN` with the next action chosen by the online network (arXiv:1509.06461, eq. 4)."""
