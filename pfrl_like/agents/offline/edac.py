"""Ensemble-Diversified Actor Critic, and SAC-N (An et al. 2021, arXiv:2110.01548)."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import critic_loss, mean_value, value_of
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


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
        policy: Module from observations to distributions of actions, such as one that ends in a `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it gives numbers [N, 1], or an action value of one
            action.
        q_func2: Second critic; None if the first is a `QFunctionEnsemble`, which holds all of them.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if the first is a `QFunctionEnsemble`.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        soft_update_tau: How far the targets move after each update, in (0, 1].
        max_grad_norm: Largest L2 norm of each network's gradient, and of the temperature's; None for no clipping.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        burnin_action_func: Gives the actions in training until the policy has learnt once; None leaves them to the
            policy. In actors of other processes until they get the first parameters thereafter. Where actions are
            masked it has to take the keyword `action_mask`, [n_actions].
        initial_temperature: First temperature, positive. Without an `entropy_target` it stays the same, and may be 0.
        entropy_target: Entropy at which the policy is held by learning the temperature; minus the number of dimensions
            of actions is usual. None keeps the temperature.
        temperature_optimizer_lr: Learning rate of the temperature's Adam; None for Adam's own default.
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        further_q_funcs: More critics; targets are the least value of all. The paper has 10 to 50 critics in all.
        further_q_func_optimizers: Their optimisers.
        n_times_update: Updates at each updating step.
        policy_update_delay: Updates of the critics for each one of policy and temperature.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent). The second update compiles, in
            about half a minute, and says so in the log (level INFO).
        eta: Weight of the term that makes the critics' gradients with respect to actions differ; 0 gives SAC-N.

    Raises:
        ValueError: If `eta` is negative, or positive with a single critic, or on values outside those named here.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _elementwise = staticmethod(square)
    _is_offline = True

    def __init__(
        self,
        policy: nn.Module,
        q_func1: nn.Module,
        q_func2: nn.Module | None,
        policy_optimizer: torch.optim.Optimizer,
        q_func1_optimizer: torch.optim.Optimizer,
        q_func2_optimizer: torch.optim.Optimizer | None,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        initial_temperature: float = 1.0,
        entropy_target: float | None = None,
        temperature_optimizer_lr: float | None = None,
        act_deterministically: bool = True,
        *,
        further_q_funcs: Sequence[nn.Module] = (),
        further_q_func_optimizers: Sequence[torch.optim.Optimizer] = (),
        n_times_update: int = 1,
        policy_update_delay: int = 1,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
        eta: float = 1.0,
    ) -> None:
        self.eta = eta
        check_numbers_in(self, eta=(0, None))
        super().__init__(**arguments_for(SoftActorCritic, locals()))
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
