"""Deep Deterministic Policy Gradient (Lillicrap et al. 2015, arXiv:1509.02971), and SVG(0) (arXiv:1510.09142)."""

import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import passed_on
from pfrl_like.learning.critics import distribution_of, least_next_value, mean_value, value_of
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch, to_batch
from pfrl_like.learning.overrides.off_policy import given_loss, own_step
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.q_functions.state_action_q_functions import members_of
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import constructor_only, renamed


def ddpg_next_value(target_policy: Any, target_q_function: Any, batch: Batch) -> Any:
    """Q'(s', a') with a' drawn from the target policy; a' = mu'(s') if it is deterministic (arXiv:1509.02971, eq. 5).

    For an ensemble it is the least value of its members.
    """
    next_action = distribution_of(target_policy, batch, next=True).sample()
    return least_next_value([*members_of(target_q_function)], batch, next_action)


def ddpg_policy_loss(policy: Any, q_function: Any, batch: Batch, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """-Q(s, a) of reparametrised samples a of the policy (arXiv:1509.02971, eq. 6; arXiv:1510.09142, Algorithm 4).

    Args:
        policy: The policy, which takes the gradient.
        q_function: The critic.
        batch: Transitions or sequences.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and Q(s, a), [N], detached.
    """
    q = mean_value(value_of(q_function, batch, distribution_of(policy, batch).rsample()))
    return weighted_mean(-q, batch.weight, accumulator), q.detach()


@constructor_only("actor_optimizer", "critic_optimizer")
class DDPG(OffPolicyActorCritic):
    """Deep Deterministic Policy Gradient; with a Gaussian policy it is SVG(0).

    Args:
        policy: Module from observations to distributions of actions, such as one that ends in a `DeterministicHead`.
        q_func: Critic, called as `q_func((obs, action))`; it gives numbers [N, 1], or an action value of one action.
        actor_optimizer: Optimiser of the policy.
        critic_optimizer: Optimiser of the critic.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        explorer: Chooses the action in training, given a sample of the policy.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        target_update_interval: Steps between updates of the targets of policy and critic; a multiple of
            `update_interval`.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        target_update_method: "hard" copies the parameters, "soft" moves the target's towards them.
        soft_update_tau: How far a soft update moves, in (0, 1].
        n_times_update: Updates at each updating step.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        burnin_action_func: Gives the actions in training until the policy has learnt once; None leaves them to the
            policy. In actors of other processes until they get the first parameters thereafter. Where actions are
            masked it has to take the keyword `action_mask`, [n_actions].
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        max_grad_norm: Largest L2 norm of each network's gradient; None for no clipping.
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent). The second update compiles, in
            about half a minute, and says so in the log (level INFO).

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    averaged_rows = ("q",)
    averaged_updates = ("actor_loss", "critic_loss")
    reported = ("average_q", "average_actor_loss", "average_critic_loss", "n_updates")
    _elementwise = staticmethod(square)
    _hooks_of_update = frozenset(["compute_critic_loss", "compute_actor_loss"])

    q_func: Any
    target_q_func: Any

    def __init__(
        self,
        policy: nn.Module,
        q_func: nn.Module,
        actor_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 50000,
        minibatch_size: int = 32,
        update_interval: int = 1,
        target_update_interval: int = 10000,
        phi: Callable[[Any], Any] | None = None,
        target_update_method: str = "hard",
        soft_update_tau: float = 1e-2,
        n_times_update: int = 1,
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        *,
        batch_accumulator: str = "mean",
        max_grad_norm: float | None = None,
        act_deterministically: bool = False,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
    ) -> None:
        super().__init__(
            policy, {"q_func": q_func}, {"actor_optimizer": actor_optimizer, "critic_optimizer": critic_optimizer},
            replay_buffer, gamma, explorer, **passed_on(OffPolicyActorCritic, locals()),
        )  # fmt: skip
        # PFRL saves both networks as one.
        self.model = nn.ModuleList([policy, q_func])
        self.target_model = nn.ModuleList([self.target_policy, self.target_q_func])
        self._target_attributes = ("model",)
        self.saved_attributes = ("model", "target_model", "actor_optimizer", "critic_optimizer")

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """`ddpg_next_value` of the target networks, and the rewards."""
        return ddpg_next_value(self.target_policy, self.target_q_func, batch), batch.reward

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise `ddpg_policy_loss`; returns statistics."""
        loss, q = ddpg_policy_loss(self.policy, self.q_func, batch, self.batch_accumulator)
        step("actor_optimizer", loss)
        return {"actor_loss": loss.detach(), "q": q}

    def compute_critic_loss(self, batch: Any) -> Tensor:
        """Loss of the critic, a scalar.

        Args:
            batch: A minibatch of features, as `batch_experiences` returns it or as a `Batch`.
        """
        ((loss, _, _),) = self.critic_losses(to_batch(batch))
        self._record({"critic_loss": loss.detach()})
        return loss

    def compute_actor_loss(self, batch: Any) -> Tensor:
        """Loss of the policy, a scalar.

        Args:
            batch: A minibatch of features, as `batch_experiences` returns it or as a `Batch`.
        """
        loss, q = ddpg_policy_loss(self.policy, self.q_func, to_batch(batch), self.batch_accumulator)
        self._record({"actor_loss": loss.detach(), "q": q})
        return loss

    def _update_through_hooks(self, batch: ColumnsOfBatch) -> None:
        """Update as PFRL's `update` does, with one gradient step on each loss."""
        step = own_step(self)
        step("critic_optimizer", given_loss(self, "compute_critic_loss", batch))
        step("actor_optimizer", given_loss(self, "compute_actor_loss", batch))
        self.n_policy_updates += 1

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        """Make all gradient steps of one update; returns the TD errors [N] and statistics, among them "critic_loss"."""
        td_error, stats = super().update_step(batch, step, with_policy)
        return td_error, {**stats, "critic_loss": stats["loss"]}

    n_updates = renamed("optim_t", "Updates.")
    q_function = property(attrgetter("q_func"), doc="The critic.")
    target_q_function = property(attrgetter("target_q_func"), doc="Its target.")
