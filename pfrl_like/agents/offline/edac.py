"""Ensemble-Diversified Actor Critic, and SAC-N (An et al. 2021, arXiv:2110.01548)."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import critic_loss, mean_value, value_of


def action_gradients(values: Sequence[Any], action: Tensor) -> list[Tensor]:
    """Gradients of Q(s, a) along actions, [N, ...] for each critic; they can be differentiated again.

    Args:
        values: Of each critic, an action value of one action.
        action: The actions that all of them were asked for.
    """
    sums = [mean_value(value).sum() for value in values]
    return [torch.autograd.grad(each, action, create_graph=True)[0] for each in sums]


def diversity_losses(gradients: Sequence[Tensor]) -> list[Tensor]:
    """How much each critic's gradient points where those of the others do, [N] (arXiv:2110.01548, eq. 5).

    2 / (K - 1) times the sum of its cosines with the K - 1 others, which take no gradient here: so each critic has the
    gradient that it would have of the paper's sum over all pairs.

    Args:
        gradients: Of each of K critics, [N, ...].
    """
    units = [normalize(gradient.flatten(1), dim=1, eps=1e-10) for gradient in gradients]
    fixed = [unit.detach() for unit in units]
    total, factor = torch.stack(fixed).sum(0), 2 / (len(units) - 1)
    return [factor * torch.linalg.vecdot(unit, total - own) for unit, own in zip(units, fixed, strict=True)]


class EDAC(SoftActorCritic):
    """Soft Actor-Critic with an ensemble of critics, whose targets and policy take the least value of all.

    Args:
        args: As `SoftActorCritic`. More than two critics are given as `further_q_funcs`; the paper has 10 to 50.
        eta: Weight of the term that keeps the critics' gradients along actions apart; 0 makes it SAC-N.
        kwargs: As `SoftActorCritic`.

    Raises:
        ValueError: If `eta` is negative, or positive with a single critic, and as `SoftActorCritic`.
        TypeError: As `SoftActorCritic`.
    """

    elementwise = staticmethod(square)
    is_offline = True

    def __init__(self, *args: Any, eta: float = 1.0, **kwargs: Any) -> None:
        self.eta = eta
        check_numbers_in(self, eta=(0, None))
        super().__init__(*args, **kwargs)
        if eta and len(self.critic_names) < 2:
            raise ValueError(f"eta is {eta}, which keeps critics apart, but there is only one: give more, or eta=0")

    def critic_losses(self, batch: Batch) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Those of `SoftActorCritic`, and `eta` times `diversity_losses`."""
        if self.eta == 0:
            return super().critic_losses(batch)
        with torch.no_grad():
            next_value, reward = self.bootstrap(batch)
        batch = batch.replace(action=batch.action.detach().requires_grad_())
        with torch.enable_grad():
            values = of_action = [self.value_of(critic, batch) for critic in self.critics]
            if batch.lengths is not None:  # a memory holds earlier actions, along which no gradient is asked for
                of_action = [value_of(critic, batch, batch.action) for critic in self.critics]
            terms = diversity_losses(action_gradients(of_action, batch.action))
        rows = self.rows_of_critics(batch)
        found = [critic_loss(*each, next_value, reward, **self.loss_options) for each in zip(values, rows, strict=True)]
        weighted = [weighted_mean(self.eta * term, batch.weight, self.batch_accumulator) for term in terms]
        return [(loss + term, error, value) for (loss, error, value), term in zip(found, weighted, strict=True)]
