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
    """Return the differentiable gradient of each critic's Q(s, a) with respect to the actions, [N, ...].

    Args:
        values: One `ActionValue` with one action per critic.
        action: Actions that the critics evaluated.
    """
    sums = [mean_value(value).sum() for value in values]
    return [torch.autograd.grad(each, action, create_graph=True)[0] for each in sums]


def diversity_losses(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return the alignment of each critic's gradient with the other critics' gradients, [N] (arXiv:2110.01548, eq. 5).

    The alignment is 2 / (K - 1) times the sum of the cosine similarities with the detached gradients of the K - 1 other
    critics. The paper's loss is a sum over all pairs of critics. Both losses have the same gradient with respect to a
    critic's parameters.

    Args:
        gradients: `action_gradients` of each of K critics, [N, ...].
    """
    units = [normalize(gradient.flatten(1), dim=1, eps=1e-10) for gradient in gradients]
    fixed = [unit.detach() for unit in units]
    total, factor = torch.stack(fixed).sum(0), 2 / (len(units) - 1)
    return [factor * torch.linalg.vecdot(unit, total - own) for unit, own in zip(units, fixed, strict=True)]


class EDAC(SoftActorCritic):
    """Soft Actor-Critic with an ensemble of critics. Targets and policy loss use the minimum over all critics.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        initial_temperature: Initial temperature, positive. If `entropy_target` is None, the temperature stays constant
            and may be 0.
        entropy_target: Target entropy, usually minus the number of action dimensions. The temperature is learnt to keep
            the policy's entropy near the target. None keeps the temperature constant.
        temperature_optimizer_lr: Learning rate of the Adam optimiser of the temperature; None uses Adam's default.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        further_q_funcs: Additional critics. The target uses the minimum over all critics. The paper uses 10 to 50
            critics in total.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        eta: Weight of the diversity loss. This loss makes the critics' gradients with respect to the actions different
            from each other. 0 gives SAC-N.

    Raises:
        ValueError: If `eta` is negative, or positive with a single critic, or if another argument is outside its
            documented range.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
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
            raise ValueError(f"eta is {eta}, which needs at least two critics: add critics, or set eta=0")

    def critic_losses(self, batch: Batch) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic, with `eta` times the diversity loss added to the loss."""
        if self.eta == 0:
            return super().critic_losses(batch)
        with torch.no_grad():
            next_value, reward = self.bootstrap(batch)
        batch = batch.replace(action=batch.action.detach().requires_grad_())
        with torch.enable_grad():
            values = of_action = [self.value_of(critic, batch) for critic in self.critics]
            if batch.lengths is not None:  # `values` also depend on earlier actions, by the recurrent states
                of_action = [value_of(critic, batch, batch.action) for critic in self.critics]
            terms = diversity_losses(action_gradients(of_action, batch.action))
        rows = self._rows_of_critics(batch)
        pairs = zip(values, rows, strict=True)
        results = [critic_loss(*pair, next_value, reward, **self._loss_options) for pair in pairs]
        weighted = [weighted_mean(self.eta * term, batch.weight, self.batch_accumulator) for term in terms]
        return [(loss + term, error, value) for (loss, error, value), term in zip(results, weighted, strict=True)]
