"""DQN with quantile regression (Dabney et al. 2017, arXiv:1710.10044)."""

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents.dqn import DQN


class QRDQN(DQN):
    """DQN with a Q-function that gives a `QuantileDiscreteActionValue`.

    Arguments as `DQN`; `clip_delta` is without effect, since the loss is the quantile Huber loss. What the class adds
    to `DQN` is the check that the Q-function is of that kind.

    Raises:
        TypeError: At the first update or when a runner meets the agent, if it is of another one.
    """

    value_type = QuantileDiscreteActionValue
