"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887)."""

from typing import Any

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
        TypeError: At the first update or when a runner meets the agent, if it is of another one.
    """

    _checked = False

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """`dqn_loss` of the atoms' probabilities."""
        if not self._checked:
            with torch.no_grad():
                self._check_value(value_of(self.model, batch))
            self._checked = True
        return super().loss(batch)

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Refuse an environment as `DQN` does, and a Q-function of another kind.

        Raises:
            TypeError: If the Q-function does not fit the actions or the agent.
            ValueError: If the number of actions differs.
        """
        super().check_spaces(observation_space, action_space)
        value = self.probe(observation_space)
        if value is not None:
            self._check_value(value)

    def _check_value(self, value: Any) -> None:
        if not isinstance(value, DistributionalDiscreteActionValue):
            raise TypeError(
                f"{type(self).__name__} needs a q_function that gives a DistributionalDiscreteActionValue, got one "
                f"that gives {type(value).__name__}; DQN and DoubleDQN take any kind"
            )


class CategoricalDoubleDQN(CategoricalDQN, DoubleDQN):
    """`CategoricalDQN` with the next action chosen by the online network (arXiv:1509.06461, eq. 4)."""
