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
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.critics import distribution_of, mean_value, min_next_value, value_of
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch, to_batch
from pfrl_like.learning.overrides.off_policy import call_loss_hook, steps_of_update
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.q_functions.state_action_q_functions import members_of
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import alias
from pfrl_like.utils.old_names import old_names


def ddpg_next_value(target_policy: Any, target_q_function: Any, batch: Batch) -> Any:
    """Return Q'(s', a') with a' sampled from the target policy (arXiv:1509.02971, eq. 5).

    If `target_q_function` is an ensemble, the value is the minimum over its members.
    """
    next_action = distribution_of(target_policy, batch, next=True).sample()
    return min_next_value([*members_of(target_q_function)], batch, next_action)


def ddpg_policy_loss(policy: Any, q_function: Any, batch: Batch, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """Compute the mean of -Q(s, a), where a is a reparametrised sample from the policy.

    Sources: arXiv:1509.02971, eq. 6, and arXiv:1510.09142, algorithm 4.

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        q_function: The critic.
        batch: Transitions or sequences.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and Q(s, a), [N], detached.
    """
    q = mean_value(value_of(q_function, batch, distribution_of(policy, batch).rsample()))
    return weighted_mean(-q, batch.weight, accumulator), q.detach()


@settings(actor_optimizer=change_optimizer, critic_optimizer=change_optimizer)
class DDPG(OffPolicyActorCritic):
    """Deep Deterministic Policy Gradient agent. With a Gaussian policy the algorithm is SVG(0).

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `DeterministicHead`.
        q_func: Critic, called as `q_func((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with one
            action.
        actor_optimizer: Optimiser of the policy.
        critic_optimizer: Optimiser of the critic.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target networks of policy and critic, checked
            after each step.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Names of the statistics that have one value per row.
    averaged_rows = ("q",)
    #: Names of the statistics that have one value per update.
    averaged_updates = ("actor_loss", "critic_loss")
    #: Names of the statistics that `get_statistics` returns.
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
            replay_buffer, gamma, explorer, **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip
        # PFRL saves the policy and the critic as one module, `model`.
        self.model = nn.ModuleList([policy, q_func])
        self.target_model = nn.ModuleList([self.target_policy, self.target_q_func])
        self._target_attributes = ("model",)
        self.saved_attributes = ("model", "target_model", "actor_optimizer", "critic_optimizer")

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the next states (`ddpg_next_value` of the target networks), and the rewards, [N]."""
        return ddpg_next_value(self.target_policy, self.target_q_func, batch), batch.reward

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise `ddpg_policy_loss` and return statistics."""
        loss, q = ddpg_policy_loss(self.policy, self.q_func, batch, self.batch_accumulator)
        step("actor_optimizer", loss)
        return {"actor_loss": loss.detach(), "q": q}

    def compute_critic_loss(self, batch: Any) -> Tensor:
        """Return the loss of the critic, a scalar.

        Args:
            batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.
        """
        ((loss, _, _),) = self.critic_losses(to_batch(batch))
        self._record({"critic_loss": loss.detach()})
        return loss

    def compute_actor_loss(self, batch: Any) -> Tensor:
        """Return the loss of the policy, a scalar.

        Args:
            batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.
        """
        loss, q = ddpg_policy_loss(self.policy, self.q_func, to_batch(batch), self.batch_accumulator)
        self._record({"actor_loss": loss.detach(), "q": q})
        return loss

    def _update_through_hooks(self, batch: ColumnsOfBatch) -> None:
        """Make one gradient step on each loss, in the order of PFRL's `update`."""
        step = steps_of_update(self)
        step("critic_optimizer", call_loss_hook(self, "compute_critic_loss", batch))
        step("actor_optimizer", call_loss_hook(self, "compute_actor_loss", batch))
        self.n_policy_updates += 1

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True) -> Update:
        """Make all gradient steps of one update. Return TD errors, [N], and statistics with "critic_loss"."""
        td_error, stats = super().update_step(batch, step, with_policy)
        return td_error, {**stats, "critic_loss": stats["loss"]}

    n_updates = alias("optim_t", "Number of updates.")
    target_q_function = property(attrgetter("target_q_func"), doc="Target network of the critic.")


__getattr__ = old_names(__name__)
