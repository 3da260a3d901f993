"""Advantage-Weighted Actor-Critic (arXiv:2006.09359) and Critic Regularized Regression (arXiv:2006.15134)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.agents.offline import imitation
from pfrl_like.agents.offline.advantage_weighted import AdvantageWeightedActorCritic
from pfrl_like.agents.soft_actor_critic import soft_next_value, soft_reward
from pfrl_like.batch import Batch
from pfrl_like.distributions import DeltaVector
from pfrl_like.functions.losses import exponential_weight
from pfrl_like.learning.compatibility.arguments import arguments_for, check_pairs
from pfrl_like.learning.compatibility.parts import check_positive
from pfrl_like.learning.critics import (
    Targets,
    average,
    distribution_of,
    mean_value,
    minimum,
    value_of,
    values_of_actions,
)
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_choice, check_counts
from pfrl_like.utils.contexts import evaluation_mode, evaluation_mode_of_all

#: Function called as `pool(values, 0)`. It reduces the values of n sampled actions, [n, N], to one value per row, [N].
Pool = Callable[[Tensor, int], Tensor]
#: Function that combines the values of several critics.
Combine = Callable[[Sequence[Tensor]], Tensor]

#: Functions that combine the values of several critics, keyed by `advantage_critics`.
COMBINATIONS: dict[str, Combine] = {"min": minimum, "mean": average}


def sampled_advantage(
    policy: Any, critics: Sequence[Any], batch: Batch, n: int, pool: Pool = torch.mean, combine: Combine = minimum
) -> Tensor:
    """Return the advantages, [N]: the values of the recorded actions minus the pooled values of sampled actions.

    Args:
        policy: Policy from which the actions are sampled.
        critics: The critics.
        batch: Transitions or sequences.
        n: Number of actions sampled in each state.
        pool: Function called as `pool(values, 0)`. It reduces the values of the sampled actions, [n, N], to one value
            per row, [N].
        combine: Function that combines the values of all critics to the value of an action.
    """
    sampled = distribution_of(policy, batch).sample((n,))
    values = combine([values_of_actions(critic, batch, sampled) for critic in critics])
    return combine([mean_value(value_of(critic, batch)) for critic in critics]) - pool(values, 0)


class AWAC(AdvantageWeightedActorCritic):
    """Advantage-Weighted Actor-Critic: recorded actions have the weights min(exp(A(s, a) / lam), max_weight).

    The advantage A is Q(s, a) minus the mean value of actions sampled from the policy. d3rlpy 2.8 has other weights and
    other targets; see `weight_type` and `next_policy`.

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
        lam: Temperature of the weights, positive. A smaller temperature gives the advantage more influence.
        n_action_samples: Number of actions sampled from the policy in each state.
        max_weight: Maximum weight, positive.
        weight_type: "exp" for the weights min(exp(A / lam), max_weight). "softmax" for N * softmax(A / lam) over the N
            rows of the minibatch; the policy's loss is then summed over the rows, as in d3rlpy 2.8.
        next_policy: Policy pi' of the next actions a' in the targets. It must share the parameters of `policy`. If
            None, a' is sampled from `policy`, and the target is r + gamma * min_i Q_i'(s', a'). Otherwise, the target
            is r + gamma * (min_i Q_i'(s', a') - log pi'(a'|s')), as in d3rlpy 2.8, where pi' squashes the Gaussian of
            `policy`.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

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
        lam: float = 1.0,
        n_action_samples: int = 1,
        max_weight: float = 20.0,
        weight_type: str = "exp",
        next_policy: nn.Module | None = None,
    ) -> None:
        check_choice("weight_type", weight_type, ("exp", "softmax"))
        if next_policy is not None:
            check_pairs({"next_policy": next_policy}, {"policy_optimizer": policy_optimizer})
        self.weight_type, self.next_policy = weight_type, next_policy
        self._policy_accumulator = "sum" if weight_type == "softmax" else None
        self.lam, self.n_action_samples, self.max_weight = lam, n_action_samples, max_weight
        check_positive(self, "lam", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(**arguments_for(AdvantageWeightedActorCritic, locals()))

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight of each recorded action, [N]. `weight_type` selects the formula."""
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples)
        if self.weight_type == "softmax":
            return len(advantage) * torch.softmax(advantage / self.lam, 0)
        return exponential_weight(advantage, self.lam, self.max_weight)

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of a sampled next action, and the rewards, [N], with an entropy bonus if `next_policy`."""
        if self.next_policy is None:
            return super().bootstrap(batch)
        with evaluation_mode(self.next_policy):
            value, log_prob = soft_next_value(self.next_policy, self.target_critics, batch)
        return value, soft_reward(batch, log_prob, 1.0)


#: Functions that reduce the values of the sampled actions to one value per state, keyed by `advantage_type`.
REDUCTIONS: dict[str, Pool] = {"mean": torch.mean, "max": torch.amax}


def binary_weight(advantage: Tensor) -> Tensor:
    """Return 1 for positive advantages and 0 for others, in the shape of `advantage` (arXiv:2006.15134, eq. 3)."""
    return (advantage > 0).to(advantage.dtype)


class CRR(AdvantageWeightedActorCritic):
    """Critic Regularized Regression: imitates recorded actions with weights that depend on the advantage.

    The critics bootstrap from an action of the target policy. With one critic, an update computes the same parameters
    as an update of d3rlpy 2.8. With several critics, d3rlpy computes the advantage from the mean over the critics; see
    `advantage_critics`. In evaluation d3rlpy samples actions; see `resample_actions`. By default d3rlpy copies the
    parameters to the target networks every 100 updates. This agent makes a soft update of the target networks after
    each update.

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
        advantage_type: "mean" or "max": reduction of the values of the sampled actions. The result is subtracted from
            Q(s, a).
        weight_type: "exp" for min(exp(A / beta), max_weight); "binary" for 1 if A is positive and 0 otherwise.
        beta: Temperature of the exponential weights, positive. A smaller temperature gives the advantage more
            influence.
        n_action_samples: Number of actions sampled from the policy in each state.
        max_weight: Maximum exponential weight, positive.
        advantage_critics: "min" or "mean": value of an action in the advantage, as a combination of all critics.
        resample_actions: False for the mode of the policy in evaluation. True to sample `n_action_samples` actions and
            to draw one of them with the probabilities softmax(Q), where Q is the mean over the critics, as in d3rlpy
            2.8 (critic-weighted policy, arXiv:2006.15134, section 3.3).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _targets = Targets(schedule="every update")

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
        advantage_type: str = "mean",
        weight_type: str = "exp",
        beta: float = 1.0,
        n_action_samples: int = 4,
        max_weight: float = 20.0,
        advantage_critics: str = "min",
        resample_actions: bool = False,
    ) -> None:
        check_choice("advantage_critics", advantage_critics, tuple(COMBINATIONS))
        if resample_actions and recurrent:
            raise ValueError("resample_actions is True, which needs recurrent=False, but recurrent is True")
        self.advantage_critics, self.resample_actions = advantage_critics, resample_actions
        check_choice("advantage_type", advantage_type, tuple(REDUCTIONS))
        check_choice("weight_type", weight_type, ("exp", "binary"))
        self.advantage_type, self.weight_type = advantage_type, weight_type
        self.beta, self.n_action_samples, self.max_weight = beta, n_action_samples, max_weight
        check_positive(self, "beta", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(**arguments_for(AdvantageWeightedActorCritic, locals()))
        if resample_actions:
            self._acting_attributes = (*self._acting_attributes, *self.critic_arguments)

    def greedy_actions(self, obs: Any, action_mask: Any = None, active: Any = None) -> tuple[Tensor, Any]:
        """Return the mode of the policy, or one of `n_action_samples` actions if `resample_actions`, [k, A].

        Also return the distribution of these actions.
        """
        if not self.resample_actions:
            return super().greedy_actions(obs, action_mask, active)
        drawn = imitation.select_for_active(self._resample, obs, active)
        return drawn.mode, drawn

    def _resample(self, obs: Any) -> DeltaVector:
        actions = imitation.sample_per_state(self._distribution(obs, None, None), self.n_action_samples)
        with evaluation_mode_of_all(*self.critics):
            return imitation.resample(self.critics, obs, actions)

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight of each recorded action, [N]. `weight_type` selects the formula."""
        functions = REDUCTIONS[self.advantage_type], COMBINATIONS[self.advantage_critics]
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples, *functions)
        if self.weight_type == "binary":
            return binary_weight(advantage)
        return exponential_weight(advantage, self.beta, self.max_weight)
