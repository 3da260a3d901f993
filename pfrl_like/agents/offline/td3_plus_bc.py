"""TD3+BC (arXiv:2106.06860), and ReBRAC (arXiv:2305.09836)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.agents.td3 import TD3, default_target_policy_smoothing_func, td3_next_action
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import over_mean_size, squared_distance, weighted_mean
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import distribution_of, mean_value, min_next_value, min_value, value_of
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def td3_plus_bc_policy_loss(
    policy: Any, q_function: Any, batch: Batch, alpha: float, accumulator: str = "mean"
) -> Tensor:
    """Return the loss -alpha * Q(s, pi(s)) / mean |Q| + (pi(s) - a)**2.

    The square is averaged over the components of an action.
    (arXiv:2106.06860, section 4.)

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        q_function: The critic.
        batch: Transitions or sequences.
        alpha: Weight of the critic's term relative to the squared error.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has weights.
    """
    action = distribution_of(policy, batch).rsample()
    q = mean_value(value_of(q_function, batch, action))
    distance = squared_distance(action, batch.action) / action[0].numel()
    return weighted_mean(distance - alpha * over_mean_size(q), batch.weight, accumulator)


class TD3PlusBC(TD3):
    """TD3 with behavioural cloning: the policy also imitates the recorded actions.

    The paper standardises observations. This class does not. Use a scaler from `pfrl_like.preprocessing`. The policy's
    loss uses only the first critic. An update computes the same parameters as an update of d3rlpy 2.8.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `DeterministicHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update of the policy.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        policy_update_delay: Number of critic updates per update of the policy and the target networks.
        target_policy_smoothing_func: Function that adds noise to a batch of actions of the target policy and returns
            the noisy actions.
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        alpha: Weight of the critic's term in the policy's loss relative to the squared error. 0 gives pure imitation.

    Raises:
        ValueError: If `alpha` is negative, or if another argument is outside its documented range.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

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
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        n_times_update: int = 1,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        policy_update_delay: int = 2,
        target_policy_smoothing_func: Callable[[Tensor], Tensor] = default_target_policy_smoothing_func,
        *,
        further_q_funcs: Sequence[nn.Module] = (),
        further_q_func_optimizers: Sequence[torch.optim.Optimizer] = (),
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        act_deterministically: bool = False,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
        alpha: float = 2.5,
    ) -> None:
        self.alpha = alpha
        check_numbers_in(self, alpha=(0, None))
        super().__init__(**arguments_for(TD3, locals()))

    def policy_loss(self, batch: Batch) -> Tensor:
        """Return the result of `td3_plus_bc_policy_loss` with the first critic."""
        return td3_plus_bc_policy_loss(self.policy, self.critics[0], batch, self.alpha, self.batch_accumulator)


def rebrac_policy_loss(
    policy: Any, critics: Sequence[Any], batch: Batch, beta: float, accumulator: str = "mean"
) -> Tensor:
    """Return the loss -Q / mean |Q| + beta * (pi(s) - a)**2 (arXiv:2305.09836, section 3).

    Q is the minimum of Q(s, pi(s)) over the critics. The square is summed over the components of an action.

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        critics: The critics.
        batch: Transitions or sequences.
        beta: Weight of the squared distance from the recorded actions.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has weights.
    """
    action = distribution_of(policy, batch).rsample()
    q = min_value(critics, batch, action)
    loss = beta * squared_distance(action, batch.action) - over_mean_size(q)
    return weighted_mean(loss, batch.weight, accumulator)


def rebrac_reward(batch: Batch, next_action: Tensor, beta: float) -> Tensor:
    """Return the rewards minus the penalty on the next actions, [N]: `reward - discount * beta * (a' - b')**2`.

    b' is the next recorded action. The target of the critics is the result plus `discount * Q(s', a')`
    (arXiv:2305.09836, section 3). The critics may be distributional. At the end of an episode b' is unknown, and the
    penalty is 0.

    Args:
        batch: Transitions or sequences, with `next_action`.
        next_action: Next actions a', [N, ...]. The critics' targets contain Q(s', a').
        beta: Weight of the penalty.

    Raises:
        ValueError: If the batch has no `next_action`.
    """
    recorded = _required_next_action(batch)
    recorded = recorded if batch.next_row is None else recorded[batch.next_row]
    distance = squared_distance(next_action, recorded.to(next_action.dtype))
    unknown = recorded.flatten(1).isnan().any(1)
    return torch.addcmul(batch.reward, batch.discount, distance.masked_fill(unknown, 0.0), value=-beta)


def _required_next_action(batch: Batch) -> Tensor:
    if batch.next_action is None:
        raise ValueError("batch lacks next_action (the next recorded actions): pass next_actions=True to sample_batch")
    return batch.next_action  # type: ignore[no-any-return]


class ReBRAC(TD3):
    """TD3 that penalises distance from the recorded actions in the policy's loss and in the critics' targets.

    A batch that is passed to `update` must contain `next_action`, the next recorded actions. `sample_batch(...,
    next_actions=True)` returns such a batch. Runners and the agent itself sample such batches. The policy's loss uses
    the minimum over all critics. An update computes the same parameters as an update of d3rlpy 2.8.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `DeterministicHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action. The paper uses critics with layer normalisation, for example a `DropoutFCSAQFunction` with
            `dropout=0`.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update of the policy.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        policy_update_delay: Number of critic updates per update of the policy and the target networks.
        target_policy_smoothing_func: Function that adds noise to a batch of actions of the target policy and returns
            the noisy actions.
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        actor_beta: Weight of the squared distance between the policy's actions and the recorded actions, at least 0.
        critic_beta: Weight of the squared distance between the next actions and the recorded next actions, at least 0.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _is_offline = True
    sampling = {"next_actions": True}  # noqa: RUF012 - as in the base

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
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        n_times_update: int = 1,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        policy_update_delay: int = 2,
        target_policy_smoothing_func: Callable[[Tensor], Tensor] = default_target_policy_smoothing_func,
        *,
        further_q_funcs: Sequence[nn.Module] = (),
        further_q_func_optimizers: Sequence[torch.optim.Optimizer] = (),
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        act_deterministically: bool = False,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
        actor_beta: float = 0.001,
        critic_beta: float = 0.01,
    ) -> None:
        self.actor_beta, self.critic_beta = actor_beta, critic_beta
        check_numbers_in(self, actor_beta=(0, None), critic_beta=(0, None))
        super().__init__(**arguments_for(TD3, locals()))

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update as in `TD3`. Raise an error if the batch has no next actions."""
        _required_next_action(batch)  # the compiled update cannot raise this error
        return super().learn(batch)

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the target policy's next action, and the rewards minus the penalty.

        The value is the minimum over the target critics.
        """
        next_action = td3_next_action(self.target_policy, batch, self.target_policy_smoothing_func)
        reward = rebrac_reward(batch, next_action, self.critic_beta)
        return min_next_value(self.target_critics, batch, next_action), reward

    def policy_loss(self, batch: Batch) -> Tensor:
        """Return the result of `rebrac_policy_loss` with all critics."""
        return rebrac_policy_loss(self.policy, self.critics, batch, self.actor_beta, self.batch_accumulator)
