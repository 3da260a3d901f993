"""Batch-Constrained deep Q-learning of discrete actions (Fujimoto et al. 2019, arXiv:1910.01708)."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN, value_of
from pfrl_like.agents.offline.bc import discrete_bc_loss
from pfrl_like.batch import Batch
from pfrl_like.distributions import masked
from pfrl_like.functions.action_masks import as_action_mask
from pfrl_like.learning.compatibility.declarations import check_output
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import distribution_of
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among
from pfrl_like.utils.direct_call import call


def likely_actions(distribution: Any, threshold: float, action_mask: Tensor | None = None) -> Tensor:
    """Which actions are at least `threshold` times as probable as the most probable one, [N, n_actions], bool.

    (arXiv:1910.01708, eq. 17.)

    Args:
        distribution: Categorical distributions, without forbidden actions.
        threshold: In [0, 1]; 0 leaves all, 1 the most probable one.
        action_mask: True where an action is allowed, [N, n_actions]; None for everywhere.
    """
    logits: Tensor = distribution.logits
    likely = logits - logits.amax(-1, keepdim=True) >= (math.log(threshold) if threshold else -math.inf)
    return likely if action_mask is None else likely & action_mask


class DiscreteBCQ(DQN):
    """Double DQN that chooses, in acting and in targets, among actions that the recorded ones make likely.

    There is no recurrent form.

    Args:
        args: As `DQN`; the Q-function gives a `DiscreteActionValue` of any form. The optimiser holds the parameters of
            Q-function and imitator, whose losses are added; they may share layers.
        imitator: Module from observations to categorical distributions, such as one that ends in a
            `SoftmaxCategoricalHead`.
        action_flexibility: How probable an action must be, relative to the most probable one, in [0, 1]; 0 leaves all,
            1 the most probable one.
        beta: Weight of the imitator's mean squared logits, at least 0.
        kwargs: As `DQN`.

    Raises:
        ValueError: On values outside those named here, and as `DQN`.
        TypeError: As `DQN`.
    """

    value_type = DiscreteActionValue
    is_offline = True
    acting_attributes = ("model", "imitator")
    saved_attributes = ("model", "target_model", "imitator", "optimizer")
    averaged_updates = (*DQN.averaged_updates, "imitator_loss")
    may_be_recurrent = False

    imitator: Any

    def __init__(
        self, *args: Any, imitator: nn.Module, action_flexibility: float = 0.3, beta: float = 0.5, **kwargs: Any
    ) -> None:
        self.action_flexibility, self.beta = action_flexibility, beta
        check_numbers_in(self, action_flexibility=(0, 1), beta=(0, None))
        self._imitator = imitator
        super().__init__(*args, **kwargs)

    def further_parts(self) -> Mapping[str, nn.Module]:
        """The imitator."""
        return {"imitator": self._imitator}

    def check_declared(self, modules: Mapping[str, nn.Module]) -> None:
        """As of `DQN`; an imitator that is not categorical is refused as well."""
        super().check_declared({"q_function": modules["q_function"]})
        check_output("imitator", modules["imitator"], Categorical)

    def greedy_actions(self, obs: Any, action_mask: Any = None, active: Any = None) -> tuple[Tensor, Any]:
        """As of the base, among the likely actions; explorers keep to them, too."""
        value = self._value(obs, active)
        with evaluating_readers(self.imitator):
            distribution: Any = call(self.imitator, obs)
        if action_mask is not None:
            distribution = masked(distribution, action_mask)
            action_mask = as_action_mask(action_mask, distribution.logits.shape, self.device)
        value = value.masked(likely_actions(distribution, self.action_flexibility, action_mask))
        return value.greedy_actions, value

    def next_action(self, q_function: Any, batch: Batch) -> Tensor:
        """Of the likely actions in s' that of the online network's largest Q, [N] (arXiv:1910.01708, eq. 17)."""
        with evaluating_readers_among(q_function, self.imitator):
            distribution = distribution_of(self.imitator, batch, next=True)
            value = value_of(q_function, batch, next=True)
        likely = likely_actions(distribution, self.action_flexibility, batch.next_action_mask)
        greedy: Tensor = value.masked(likely).greedy_actions
        return greedy

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """That of Double DQN with the `next_action`, and `discrete_bc_loss` of the imitator."""
        loss, td_error, stats = super().loss(batch)
        imitator_loss, _ = discrete_bc_loss(self.imitator, batch, self.beta, self.batch_accumulator)
        stats = {**stats, "loss": stats["loss"] + imitator_loss.detach(), "imitator_loss": imitator_loss.detach()}
        return loss + imitator_loss, td_error, stats
