"""DQN with quantile regression (Dabney et al. 2017, arXiv:1710.10044)."""

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents.dqn import DQN


class QRDQN(DQN):
    """DQN with a Q-function that gives a `QuantileDiscreteActionValue`.

    The arguments are those of `DQN`; `clip_delta` is without effect, since the loss is the quantile Huber loss. The
    class adds to `DQN` only the check that the Q-function gives such action values.

    Raises:
        TypeError: If the Q-function gives another action value. For a network that does not declare its output, this is
            seen when a run begins or at the first update.
    """

    value_type = QuantileDiscreteActionValue
