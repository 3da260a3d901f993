"""Fully parametrised quantile function (Yang et al. 2019, arXiv:1911.02140)."""

from pfrl_like.action_value import FullyParametrizedActionValue
from pfrl_like.agents.dqn import DQN


class FQF(DQN):
    """DQN with a Q-function that gives a `FullyParametrizedActionValue`.

    The arguments are those of `DQN`; `clip_delta` is without effect. The optimiser also holds the parameters of the
    fraction proposal, best with a separate learning rate: `pfrl_like.q_functions.fqf_parameter_groups`. The class adds
    to `DQN` only the check that the Q-function gives such action values. For example::

        features = nn.Sequential(nn.Linear(n_inputs, 64), nn.ReLU())
        fractions = nn.Sequential(CosineBasisLinear(64, 64), nn.ReLU())
        q_function = FullyParametrizedQFunction(features, fractions, nn.Linear(64, n_actions), nn.Linear(64, 32))
        optimizer = torch.optim.Adam(fqf_parameter_groups(q_function, lr=2.5e-9), lr=5e-5)
        agent = FQF(q_function, optimizer, replay_buffer, gamma=0.99, explorer=explorer)

    The statistic `average_loss` may be negative: the loss of the fractions is a number with the right gradient, not a
    distance, and their entropy is subtracted.

    Raises:
        TypeError: If the Q-function gives another action value. For a network that does not declare its output, this is
            seen when a run begins or at the first update.
    """

    value_type = FullyParametrizedActionValue
