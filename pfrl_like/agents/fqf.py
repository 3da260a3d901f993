"""Fully parametrised quantile function (Yang et al. 2019, arXiv:1911.02140)."""

from pfrl_like.action_value import FullyParametrizedActionValue
from pfrl_like.agents.dqn import DQN


class FQF(DQN):
    """DQN with a Q-function that gives a `FullyParametrizedActionValue`.

    Arguments as `DQN`; `clip_delta` is without effect. The optimiser holds the fraction proposal as well, best with a
    learning rate of its own: `pfrl_like.q_functions.fqf_parameter_groups`. What the class adds to `DQN` is the check
    that the Q-function is of that kind.

    Raises:
        TypeError: At the first update or when a runner meets the agent, if it is of another one.
    """

    value_type = FullyParametrizedActionValue
