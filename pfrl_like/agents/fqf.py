"""Fully parametrised quantile function (Yang et al. 2019, arXiv:1911.02140)."""

from pfrl_like.action_value import FullyParametrizedActionValue
from pfrl_like.agents.dqn import DQN


class FQF(DQN):
    """DQN with a Q-function that gives a `FullyParametrizedActionValue`.

    Arguments as `DQN`; `clip_delta` is without effect. The optimiser holds the fraction proposal as well, best with a
    learning rate of its own: `pfrl_like.q_functions.fqf_parameter_groups`. What the class adds to `DQN` is the check
    that the Q-function is of that kind. For example::

        features = nn.Sequential(nn.Linear(n_inputs, 64), nn.ReLU())
        fractions = nn.Sequential(CosineBasisLinear(64, 64), nn.ReLU())
        q_function = FullyParametrizedQFunction(features, fractions, nn.Linear(64, n_actions), nn.Linear(64, 32))
        optimizer = torch.optim.Adam(fqf_parameter_groups(q_function, lr=2.5e-9), lr=5e-5)
        agent = FQF(q_function, optimizer, replay_buffer, gamma=0.99, explorer=explorer)

    The statistic `average_loss` may be negative: the loss of the fractions is a number with the right gradient, not a
    distance, and their entropy is taken off.

    Raises:
        TypeError: If it is of another one; of a network that does not declare what it gives, when a runner meets the
            agent or at the first update.
    """

    value_type = FullyParametrizedActionValue
