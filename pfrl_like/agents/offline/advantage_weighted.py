"""Base class of offline actor-critics that train the policy by weighted imitation of the recorded actions."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.batch import Batch
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import critics_and_optimizers, keywords_for
from pfrl_like.learning.critics import Targets, distribution_of, log_prob_of, min_next_value
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import constructor_only
from pfrl_like.utils.contexts import evaluation_mode, evaluation_mode_of_all


def advantage_weighted_loss(policy: Any, batch: Batch, weight: Tensor, accumulator: str = "mean") -> Tensor:
    """Return the loss -w(s, a) * log pi(a|s) of the recorded actions.

    (arXiv:2006.09359, section 4; arXiv:2006.15134, section 3.)

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        batch: Transitions or sequences.
        weight: Weights w of the actions, [N]. No gradient flows into the weights.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has importance weights.
    """
    log_prob = log_prob_of(distribution_of(policy, batch), batch.action)
    return weighted_mean(-weight * log_prob, batch.weight, accumulator)


@constructor_only("policy_optimizer", "q_func1_optimizer", "q_func2_optimizer")
class AdvantageWeightedActorCritic(OffPolicyActorCritic):
    """Base class of agents whose policy maximises the weighted log-likelihood of the recorded actions.

    Subclasses define the weights in the method `_weight`. The agent has at least two critics, or one
    `QFunctionEnsemble`. The target networks are updated by soft updates.

    Args:
        policy: Module from observations to distributions of actions with the method `log_prob`, for example one that
            ends in a `GaussianHeadWithStateIndependentCovariance`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func2` is None.
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
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy.
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

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Names of the statistics that have one value per row.
    averaged_rows: tuple[str, ...] = ("weight",)
    #: Names of the statistics that have one value per update.
    averaged_updates: tuple[str, ...] = ("policy_loss",)
    #: Names of the statistics that `get_statistics` returns.
    reported: tuple[str, ...] = (*STATISTICS_OF_CRITICS, "average_policy_loss", "average_weight", "n_updates")
    _targets = Targets(of_policy=False, schedule="every update")
    _needs_densities = True
    _elementwise = staticmethod(square)
    _is_offline = True
    #: Reduction of the policy's loss over the minibatch. If None, it is `batch_accumulator`.
    _policy_accumulator: str | None = None

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
        *,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 256,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        act_deterministically: bool = True,
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
    ) -> None:
        critics, optimizers = critics_and_optimizers(locals())
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers}, replay_buffer, gamma, Greedy(),
            target_update_interval=None, target_update_method="soft", **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    # Methods that a subclass defines or overrides

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight of each recorded action, [N]. The networks are in evaluation mode during the call."""
        raise NotImplementedError

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of a sampled next action, and the rewards.

        The value is the minimum over the target critics. If the agent has a target policy, the action is sampled from
        the target policy, otherwise from the policy.
        """
        policy = self.target_policy if self._targets.of_policy else self.policy
        with evaluation_mode(policy):
            next_action = distribution_of(policy, batch, next=True).sample()
        return min_next_value(self.target_critics, batch, next_action), batch.reward

    # Learning

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise `advantage_weighted_loss` and return statistics."""
        with torch.no_grad(), evaluation_mode_of_all(self.policy, *self.critics):
            weight = self._weight(batch)
        accumulator = self._policy_accumulator or self.batch_accumulator
        loss = advantage_weighted_loss(self.policy, batch, weight, accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach(), "weight": weight}
