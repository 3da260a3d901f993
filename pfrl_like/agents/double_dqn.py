"""Double DQN (van Hasselt et al. 2015, arXiv:1509.06461)."""

from typing import Any

from torch import Tensor

from pfrl_like.agents.dqn import DQN, action_values
from pfrl_like.batch import Batch
from pfrl_like.utils.contexts import evaluating_readers


def greedy_of_online(q_function: Any, batch: Batch) -> Tensor:
    """argmax_a Q(s', a) of the online network in evaluation mode, [N] (arXiv:1509.06461, eq. 4)."""
    with evaluating_readers(q_function):
        greedy: Tensor = action_values(q_function, batch, next=True).greedy_actions
    return greedy


class DoubleDQN(DQN):
    """DQN in which the online network chooses the next action and the target network evaluates it.

    The arguments are those of `DQN`.
    """

    next_action = staticmethod(greedy_of_online)
