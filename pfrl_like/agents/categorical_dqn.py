"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887)."""

import torch
from torch import Tensor

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents.double_dqn import DoubleDQN
from pfrl_like.agents.dqn import DQN, value_of
from pfrl_like.batch import Batch


class CategoricalDQN(DQN):
    """DQN with a Q-function that gives a `DistributionalDiscreteActionValue`.

    Arguments as `DQN`; `clip_delta` is accepted for PFRL's sake and ignored, since the loss is a cross entropy. What
    the class adds to `DQN` is the check that the Q-function is of that kind.

    Raises:
        TypeError: At the first update, if it is of another one.
    """

    _checked = False

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """`dqn_loss` of the atoms' probabilities."""
        if not self._checked:
            with torch.no_grad():
                value = value_of(self.model, batch)
            if not isinstance(value, DistributionalDiscreteActionValue):
                raise TypeError(
                    f"{type(self).__name__} needs a q_function that gives a DistributionalDiscreteActionValue, got one "
                    f"that gives {type(value).__name__}; DQN and DoubleDQN take any kind"
                )
            self._checked = True
        return super().loss(batch)


class CategoricalDoubleDQN(CategoricalDQN, DoubleDQN):
    """`CategoricalDQN` with the next action chosen by the online network (arXiv:1509.06461, eq. 4)."""
