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
    """Gradients of Q(s, a) with respect to the actions, [N, ...] for each critic; differentiable again.

    Args:
        values: For each critic, an action value of one action.
        action: The actions that the values belong to.
    """
    sums = [mean_value(value).sum() for value in values]
    return [torch.autograd.grad(each, action, create_graph=True)[0] for each in sums]


def diversity_losses(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Alignment of each critic's gradient with those of the others, [N] (arXiv:2110.01548, eq. 5).

    It is 2 / (K - 1) times the sum of the cosines with the K - 1 others. The others take no gradient here, so that each
    critic has the same gradient as under the paper's sum over all pairs.

    Args:
        gradients: `action_gradients` of each of K critics, [N, ...].
    """
    units = [normalize(gradient.flatten(1), dim=1, eps=1e-10) for gradient in gradients]
    fixed = [unit.detach() for unit in units]
    total, factor = torch.stack(fixed).sum(0), 2 / (len(units) - 1)
    return [factor * torch.linalg.vecdot(unit, total - own) for unit, own in zip(units, fixed, strict=True)]


class EDAC(SoftActorCritic):
    """Soft Actor-Critic with an ensemble of critics; targets and policy use the least value of all.

    Args:
        args: As `SoftActorCritic`. More than two critics are given as `further_q_funcs`; the paper has 10 to 50.
        eta: Weight of the term that makes the critics' gradients with respect to actions differ; 0 gives SAC-N.
        kwargs: As `SoftActorCritic`.

    Raises:
        ValueError: If `eta` is negative, or positive with a single critic, or on values outside those named in
            `SoftActorCritic`.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _elementwise = staticmethod(square)
    _is_offline = True

    def __init__(self, *args: Any, eta: float = 1.0, **kwargs: Any) -> None:
        self.eta = eta
        check_numbers_in(self, eta=(0, None))
        super().__init__(*args, **kwargs)
        if eta and len(self._critic_names) < 2:
            raise ValueError(f"eta is {eta}, which keeps critics apart, but there is only one: give more, or eta=0")

    def critic_losses(self, batch: Batch) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Losses of `SoftActorCritic`'s critics plus `eta` times `diversity_losses`."""
        if self.eta == 0:
            return super().critic_losses(batch)
        with torch.no_grad():
            next_value, reward = self.bootstrap(batch)
        batch = batch.replace(action=batch.action.detach().requires_grad_())
        with torch.enable_grad():
            values = of_action = [self.value_of(critic, batch) for critic in self.critics]
            if batch.lengths is not None:  # recurrent states depend on earlier actions, too
                of_action = [value_of(critic, batch, batch.action) for critic in self.critics]
            terms = diversity_losses(action_gradients(of_action, batch.action))
        rows = self._rows_of_critics(batch)
        found = [
            critic_loss(*each, next_value, reward, **self._loss_options) for each in zip(values, rows, strict=True)
        ]
        weighted = [weighted_mean(self.eta * term, batch.weight, self.batch_accumulator) for term in terms]
        return [(loss + term, error, value) for (loss, error, value), term in zip(found, weighted, strict=True)]
