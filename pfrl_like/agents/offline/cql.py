"""Conservative Q-Learning (Kumar et al. 2020, arXiv:2006.04779); Cal-QL (Nakamoto et al. 2023, arXiv:2303.05479)."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.action_value.base import Losses
from pfrl_like.agents.double_dqn import DoubleDQN
from pfrl_like.agents.offline.future_returns import check_continuation, future_returns
from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.distributions import mode_of
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_numbers_in, check_positive
from pfrl_like.learning.compatibility.spaces import Bounds
from pfrl_like.learning.critics import (
    average,
    critic_loss,
    distribution_of,
    mean_value,
    min_next_value,
    min_value,
    minimum,
    values_of_actions,
)
from pfrl_like.learning.lagrange import LagrangeMultiplier
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts, check_function, constructor_only
from pfrl_like.utils.contexts import NO_LOCK, evaluation_mode

#: Function called as (policy, target critics, batch), which returns an `ActionValue` of the next states.
NextValue = Callable[[Any, Sequence[Any], Batch], Any]
#: Function called as (value of the states, actions in the data), which returns the conservative gap of each row, [N].
Gap = Callable[[Any, Tensor], Tensor]


@torch.no_grad()
def conservative_actions(policy: Any, batch: Batch, n: int) -> tuple[Tensor, Tensor]:
    """Sample the actions whose values the conservative term lowers (arXiv:2006.04779, appendix F).

    Args:
        policy: The policy.
        batch: Transitions or sequences.
        n: Number of actions per row sampled from each of the three distributions.

    Returns:
        The sampled actions, [3 * n, N, ...], and their log-densities, [3 * n, N]. For each row, n actions are from the
        policy, n actions are from the policy in the next state, and n actions are uniform in [-1, 1].
    """
    distributions = distribution_of(policy, batch), distribution_of(policy, batch, next=True)
    samples = [distribution.sample((n,)) for distribution in distributions]
    density = [distribution.log_prob(action) for distribution, action in zip(distributions, samples, strict=True)]
    uniform = 2 * torch.rand_like(samples[0]) - 1
    uniform_density = torch.full_like(density[0], -math.log(2) * uniform[0, 0].numel())
    return torch.cat([*samples, uniform]), torch.cat([*density, uniform_density])


def conservative_gap(values: Tensor, log_density: Tensor, data_value: Tensor) -> Tensor:
    """Return the values of sampled actions minus the values of the actions in the data, [N].

    The gap is log sum exp(Q(s, a) - log density(a)) - Q(s, a of the data), with the sum over the sampled actions
    (arXiv:2006.04779, eq. 4, appendix F). With a mean over the samples, the gap would differ by a constant. Published
    values of `alpha_threshold` assume the sum.

    Args:
        values: Q(s, a) of the sampled actions, [M, N].
        log_density: Log-densities of the sampled actions under the distributions from which they were sampled, [M, N].
        data_value: Q(s, a) of the actions in the data, [N].
    """
    return torch.logsumexp(values - log_density, 0) - data_value


def mode_next_value(policy: Any, target_critics: Sequence[Any], batch: Batch) -> Any:
    """Return the minimum over the critics of Q'(s', a') for the mode a' of the policy, an `ActionValue`."""
    return min_next_value(target_critics, batch, mode_of(distribution_of(policy, batch, next=True)))


def max_next_value(policy: Any, target_critics: Sequence[Any], batch: Batch, n: int) -> Any:
    """Return the maximum over n sampled actions a' of min_i Q_i'(s', a') (arXiv:2006.04779, appendix F).

    Args:
        policy: Policy from which the actions are sampled.
        target_critics: Target networks of the critics. If they are distributional, the result is the whole distribution
            of the action whose mean value is largest.
        batch: Transitions or sequences.
        n: Number of actions per row.

    Returns:
        An `ActionValue` with one action.
    """
    actions = distribution_of(policy, batch, next=True).sample((n,))
    values = minimum([values_of_actions(critic, batch, actions, next=True) for critic in target_critics])
    best = values.argmax(0)
    return min_next_value(target_critics, batch, actions[best, torch.arange(len(best), device=best.device)])


@constructor_only("initial_alpha", "alpha_holder", "alpha_optimizer")
class CQL(SoftActorCritic):
    """Conservative Q-Learning, CQL(H): Soft Actor-Critic with a term that lowers the values of unseen actions.

    The conservative term compares the values of the actions in the data with the values of sampled actions. The samples
    are from the policy and from the uniform distribution on [-1, 1]. The TD loss is the full squared error. The
    equation in the paper has half the squared error, but published weights of the conservative term assume the full
    squared error.

    The weighted gap of critic i is w gap_i, and alpha rises if its mean over the critics is above `alpha_threshold`.
    d3rlpy 2.8 has w (gap_i - tau) in both places: `alpha_threshold` = w tau gives the same gradients.

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
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
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
        conservative_weight: Weight of the conservative gap: the values of sampled actions minus the values of the
            actions in the data.
        alpha_threshold: Target value of the weighted gap, `conservative_weight` * gap. The loss contains alpha times
            the weighted gap. alpha is a Lagrange multiplier, learnt to reach the target. None keeps alpha constant.
        initial_alpha: Initial alpha, positive. If `alpha_threshold` is None, alpha stays constant and may be 0.
        alpha_optimizer_lr: Learning rate of the Adam optimiser of alpha; None uses Adam's default.
        n_action_samples: Number of actions per row sampled from each of three distributions: the policy in the state,
            the policy in the next state, and the uniform distribution.
        soft_q_backup: True to add the entropy in the next state to the critics' targets, as Soft Actor-Critic does. The
            policy's loss always contains the entropy.
        multipliers_first: False to update a Lagrange multiplier after the step on the loss that it weights; True to
            update it before, as in d3rlpy 2.8: the loss `temperature * log_prob - Q` then contains the new temperature.
        multiplier_optimizers: Functions from the parameters of a Lagrange multiplier to their optimiser, keyed by the
            name of the multiplier. Adam updates the others.
        next_value: Function called as (policy, target critics, batch), which returns the value of the next states if
            `soft_q_backup` is False: min_i Q_i'(s', a') of a sample a' of the policy if None; `mode_next_value`, of the
            policy's mode, in d3rlpy 2.8, or `max_next_value`, the maximum over sampled actions, its `max_q_backup`.
        max_alpha: Maximum of a learnt alpha: min(exp(log_alpha), max_alpha). None sets no maximum; 1e6 in d3rlpy 2.8.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Names of the statistics that have one value per row.
    averaged_rows = (*SoftActorCritic.averaged_rows, "conservative_gap")
    #: Names of the statistics that `get_statistics` returns.
    reported = (*SoftActorCritic.reported, "average_conservative_gap", "alpha")
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
        conservative_weight: float = 1.0,
        alpha_threshold: float | None = 10.0,
        initial_alpha: float = 5.0,
        alpha_optimizer_lr: float | None = 3e-4,
        n_action_samples: int = 10,
        soft_q_backup: bool = True,
        multipliers_first: bool = False,
        multiplier_optimizers: Mapping[str, Callable[[Any], torch.optim.Optimizer]] | None = None,
        next_value: NextValue | None = None,
        max_alpha: float | None = None,
    ) -> None:
        check_counts(n_action_samples=n_action_samples)
        self.n_action_samples, self.conservative_weight = n_action_samples, conservative_weight
        self.soft_q_backup, self.next_value, self.max_alpha = soft_q_backup, next_value, max_alpha
        check_function(optional=True, next_value=next_value)
        if soft_q_backup and next_value is not None:
            raise ValueError("next_value is given, but soft_q_backup is True: pass soft_q_backup=False")
        if max_alpha is not None:
            check_positive(self, "max_alpha")
        check_numbers_in(self, conservative_weight=(0, None))
        self.initial_alpha, self.alpha_threshold = initial_alpha, alpha_threshold
        self.alpha_optimizer_lr = alpha_optimizer_lr
        super().__init__(**arguments_for(SoftActorCritic, locals()))

    def _make_multipliers(self) -> list[LagrangeMultiplier]:
        """Return the Lagrange multipliers temperature and alpha."""
        options = self.alpha_optimizer_lr, self.multiplier_optimizers.get("alpha"), self.max_alpha
        alpha = LagrangeMultiplier("alpha", self.initial_alpha, "alpha_threshold", self.alpha_threshold, *options)
        return [*super()._make_multipliers(), alpha]

    @property
    def alpha(self) -> float:
        """Weight of the conservative term."""
        return float(self._multipliers["alpha"]())

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the next states, and the rewards, [N].

        If `soft_q_backup` is True, the rewards contain the entropy bonus.
        """
        if self.next_value is not None:
            with NO_LOCK if self.evaluates_critics else evaluation_mode(self.policy):
                return self.next_value(self.policy, self._bootstrap_critics(), batch), batch.reward
        next_value, soft = super().bootstrap(batch)
        return next_value, soft if self.soft_q_backup else batch.reward

    def critic_losses(self, batch: Batch) -> Iterable[Losses]:
        """Yield one tuple for each critic: the loss with the conservative term, the TD errors, and the values."""
        return self._conservative_losses(batch, [])

    def critics_step(self, batch: Batch, step: Step) -> tuple[Sequence[Losses], dict[str, Tensor]]:
        """Minimise the critics' losses, then the loss of alpha. The loss of alpha depends on the mean of the gaps.

        If `multipliers_first` is True, minimise the loss of alpha first.
        """
        gaps: list[Tensor] = []
        stats: dict[str, Tensor] = {}

        def update_alpha() -> None:
            gap = stats["conservative_gap"] = average(gaps)
            update = gap, -(self.alpha_threshold or 0.0), batch.weight, self.batch_accumulator
            stats.update(self._multipliers["alpha"].update(step, *update))

        before = update_alpha if self.multipliers_first else None
        results = self._step_critics(self._conservative_losses(batch, gaps, before), step)
        if before is None:
            update_alpha()
        return results, stats

    def _conservative_losses(
        self, batch: Batch, gaps: list[Tensor], before: Callable[[], None] | None = None
    ) -> Iterator[Losses]:
        """Yield the items of `critic_losses`. Append the detached weighted gap of each critic, [N], to `gaps`.

        `before` is called between the computation of all gaps and the first item.
        """
        terms: Iterable[tuple[Losses, Tensor]] = self._conservative_terms(batch, gaps)
        if before is not None:
            terms = [*terms]
            before()
        alpha = self._multipliers["alpha"]()
        for (loss, td_error, mean), gap in terms:
            yield loss + alpha * gap, td_error, mean

    def _conservative_terms(self, batch: Batch, gaps: list[Tensor]) -> Iterator[tuple[Losses, Tensor]]:
        """Yield the result of `critic_loss` and the mean weighted gap of each critic."""
        with torch.no_grad():
            next_value, reward = self.bootstrap(batch)
        with NO_LOCK if self.evaluates_critics else evaluation_mode(self.policy):
            actions, log_density = conservative_actions(self.policy, batch, self.n_action_samples)
        for critic, rows in zip(self.critics, self._rows_of_critics(batch), strict=True):
            value = self.value_of(critic, batch)
            result = critic_loss(value, rows, next_value, reward, **self._loss_options)
            values = self._sampled_action_values(values_of_actions(critic, batch, actions), batch)
            gap = self.conservative_weight * self._gap(values, log_density, mean_value(value), batch)
            gaps.append(gap.detach())
            yield result, weighted_mean(gap, rows.weight, self.batch_accumulator)

    def _sampled_action_values(self, values: Tensor, batch: Batch) -> Tensor:
        """Return the values of the sampled actions for the conservative term, [3 * n_action_samples, N].

        The override in `CalQL` increases values that are below the observed return.
        """
        return values

    def _gap(self, values: Tensor, log_density: Tensor, data_value: Tensor, batch: Batch) -> Tensor:
        """Return the gap of each row, [N]. The conservative term of the loss is the mean gap over the batch."""
        return conservative_gap(values, log_density, data_value)

    def _bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """Return the bounds of two kinds of actions, keyed by the description of the kind in error messages."""
        return {**super()._bounds_of_actions(distribution), "uniform actions of CQL": (-1.0, 1.0)}


def pooled_conservative_gap(value: Any, action: Tensor) -> Tensor:
    """Return log sum exp of Q(s, .) over the allowed actions, minus Q(s, a), [N] (arXiv:2006.04779, eq. 4).

    Args:
        value: A `DiscreteActionValue` or a distributional subclass. For an ensemble, Q is the mean or the minimum over
            the members.
        action: Actions in the data, [N].
    """
    gap: Tensor = value.without_forbidden(value.q_values).logsumexp(1) - value.evaluate_actions(action)
    return gap


def discrete_conservative_gap(value: Any, action: Tensor) -> Tensor:
    """Return `pooled_conservative_gap`, [N], or for an ensemble the sum of the members' gaps.

    Args:
        value: A `DiscreteActionValue` or a distributional subclass.
        action: Actions in the data, [N].
    """
    gaps = [pooled_conservative_gap(each, action) for each in getattr(value, "members", [value])]
    return torch.stack(gaps).sum(0) if len(gaps) > 1 else gaps[0]


class DiscreteCQL(DoubleDQN):
    """Conservative Q-Learning for discrete actions: Double DQN with a term that lowers the values of unseen actions.

    Args:
        q_function: Module from observations to an `ActionValue`. The value must be a `DiscreteActionValue` or a
            distributional subclass of it.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        clip_delta: Loss of a Q-function that is not distributional: True for the Huber loss, False for half the squared
            error.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the Q-function on sequences. The Q-function must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of initial steps of each sequence that only warm up the recurrent state. The loss ignores these
            steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).
        conservative_weight: Weight of the conservative gap: log sum exp of Q(s, .) minus Q(s, a) of the action in the
            data.
        gap: Function called as (Q(s, .), actions in the data), which returns the gap of each row, [N]. For an ensemble,
            `discrete_conservative_gap` is sum_i gap(Q_i), and `pooled_conservative_gap` is gap(mean_i Q_i), as in
            d3rlpy 2.8.

    Raises:
        ValueError: If `conservative_weight` is negative, or if another argument is outside its documented range.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    value_type = DiscreteActionValue
    _is_offline = True

    def __init__(
        self,
        q_function: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 50000,
        minibatch_size: int = 32,
        update_interval: int = 1,
        target_update_interval: int = 10000,
        clip_delta: bool = True,
        phi: Callable[[Any], Any] | None = None,
        target_update_method: str = "hard",
        soft_update_tau: float = 1e-2,
        n_times_update: int = 1,
        batch_accumulator: str = "mean",
        episodic_update_len: int | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        recurrent: bool = False,
        max_grad_norm: float | None = None,
        *,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        burn_in: int = 0,
        compile: bool = False,
        conservative_weight: float = 1.0,
        gap: Gap = discrete_conservative_gap,
    ) -> None:
        self.conservative_weight, self.gap = conservative_weight, gap
        check_function(gap=gap)
        check_numbers_in(self, conservative_weight=(0, None))
        super().__init__(**arguments_for(DoubleDQN, locals()))

    def penalty(self, value: Any, batch: Batch) -> Tensor:
        """Return the conservative term of each row, `conservative_weight` times the gap, [N]."""
        return self.conservative_weight * self.gap(value, batch.action)


class CalQL(CQL):
    """Calibrated CQL: the conservative term does not lower values below the observed return.

    Therefore online training after offline training starts from realistic values.

    The conservative term replaces the values of the policy's actions by max(Q(s, a), G), where G is the return of the
    recorded episode from s (arXiv:2303.05479, eq. 5.1). If the episode is truncated or still running, G bootstraps from
    the minimum over the target critics.

    `pfrl_like.algos.CQL` documents how the losses differ from d3rlpy 2.8. Cal-QL has one more difference: the returns
    of d3rlpy do not bootstrap at the end of a truncated episode.

    A batch that is passed to `update` must contain the steps after each transition. `sample_batch(...,
    continuation=math.inf)` returns such a batch. Runners and the agent itself sample such batches. If a batch contains
    `returns`, [N], they are used as G instead; those of d3rlpy 2.8 end without a bootstrap at a truncated episode's
    end. The agent does not support recurrent networks.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions.
        gamma: Discount factor per step.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update.
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
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: Must be False: the agent does not support recurrent networks.
        episodic_update_len: Must be None: the agent does not support recurrent networks.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Must be 1: the agent does not support recurrent networks.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        conservative_weight: Weight of the conservative gap: the values of sampled actions minus the values of the
            actions in the data.
        alpha_threshold: Target value of the weighted gap, `conservative_weight` * gap. The loss contains alpha times
            the weighted gap. alpha is a Lagrange multiplier, learnt to reach the target. None keeps alpha constant.
        initial_alpha: Initial alpha, positive. If `alpha_threshold` is None, alpha stays constant and may be 0.
        alpha_optimizer_lr: Learning rate of the Adam optimiser of alpha; None uses Adam's default.
        n_action_samples: Number of actions per row sampled from each of three distributions: the policy in the state,
            the policy in the next state, and the uniform distribution.
        soft_q_backup: True to add the entropy in the next state to the critics' targets, as Soft Actor-Critic does. The
            policy's loss always contains the entropy.
        multipliers_first: False to update a Lagrange multiplier after the step on the loss that it weights; True to
            update it before, as in d3rlpy 2.8: the loss `temperature * log_prob - Q` then contains the new temperature.
        multiplier_optimizers: Functions from the parameters of a Lagrange multiplier to their optimiser, keyed by the
            name of the multiplier. Adam updates the others.
        next_value: Function called as (policy, target critics, batch), which returns the value of the next states if
            `soft_q_backup` is False: min_i Q_i'(s', a') of a sample a' of the policy if None; `mode_next_value`, of the
            policy's mode, in d3rlpy 2.8, or `max_next_value`, the maximum over sampled actions, its `max_q_backup`.
        max_alpha: Maximum of a learnt alpha: min(exp(log_alpha), max_alpha). None sets no maximum; 1e6 in d3rlpy 2.8.
        horizon: Number of later steps that a return includes before it bootstraps. If the later steps of two rows of
            the minibatch overlap or are adjacent, the return of the earlier row also includes the later steps of the
            other row. None includes all steps to the end of the episode.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, if a keyword is unknown, or if
            the replay buffer cannot return the steps after a transition.
    """

    _may_be_recurrent = False

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
        conservative_weight: float = 1.0,
        alpha_threshold: float | None = 10.0,
        initial_alpha: float = 5.0,
        alpha_optimizer_lr: float | None = 3e-4,
        n_action_samples: int = 10,
        soft_q_backup: bool = True,
        multipliers_first: bool = False,
        multiplier_optimizers: Mapping[str, Callable[[Any], torch.optim.Optimizer]] | None = None,
        next_value: NextValue | None = None,
        max_alpha: float | None = None,
        horizon: int | None = None,
    ) -> None:
        check_counts(optional=True, horizon=horizon)
        self.horizon = horizon
        self.sampling = {"continuation": math.inf if horizon is None else horizon}
        super().__init__(**arguments_for(CQL, locals()))

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check the modules as in `CQL`, and check that the replay buffer can return the steps after a transition."""
        super()._check_modules(modules)
        check_continuation(self.replay_buffer)

    def learn(self, batch: Batch) -> Update:
        """Compute the returns, unless the batch contains them, then update as in `CQL`."""
        returns = batch.returns
        if returns is None:
            with evaluation_mode(self.policy):
                returns = future_returns(batch, self._target_value, 1.0)
        return super().learn(batch.replace(returns=returns, continuation=None))

    def _target_value(self, obs: Any) -> Tensor:
        """Sample one action in each state; return its minimum value over the target critics, [n]."""
        states = batch_of_states(obs)
        return min_value(self.target_critics, states, distribution_of(self.policy, states).sample())

    def _sampled_action_values(self, values: Tensor, batch: Batch) -> Tensor:
        """Return max(value, observed return) for actions of the policy, and unchanged values for uniform actions."""
        (returns,) = batch.required("returns")
        n = 2 * self.n_action_samples  # number of actions of the policy
        return torch.cat([torch.maximum(values[:n], returns), values[n:]])
