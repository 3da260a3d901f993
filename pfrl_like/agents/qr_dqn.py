"""DQN with quantile regression (Dabney et al. 2017, arXiv:1710.10044)."""

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents.dqn import DQN


class QRDQN(DQN):
    """DQN with a Q-function that gives a `QuantileDiscreteActionValue`.

    Arguments as `DQN`; `clip_delta` is without effect, since the loss is the quantile Huber loss. What the class adds
    to `DQN` is the check that the Q-function is of that kind.

    Raises:
        TypeError: If it is of another one; of a network that does not declare what it gives, when a runner meets the
            agent or at the first update.
    """

    value_type = QuantileDiscreteActionValue
