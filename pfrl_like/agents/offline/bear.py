"""Bootstrapping Error Accumulation Reduction (Kumar et al. 2019, arXiv:1906.00949)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.agents.offline import imitation
from pfrl_like.agents.soft_actor_critic import SoftActorCritic, soft_reward
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import maximum_mean_discrepancy, square, weighted_mean
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_numbers_in, check_positive
from pfrl_like.learning.critics import distribution_of
from pfrl_like.learning.lagrange import LagrangeMultiplier
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_choice, check_counts, constructor_only
from pfrl_like.utils.contexts import evaluation_mode

KERNELS = ("gaussian", "laplacian")


def bear_next_value(policy: Any, target_critics: Sequence[Any], batch: Batch, n: int, lam: float) -> tuple[Any, Tensor]:
    """Return the value and the log-probability of the best of n sampled actions in each next state.

    The value of an action is lam * min_i Q_i' + (1 - lam) * max_i Q_i', where i runs over the critics.

    (arXiv:1906.00949, Algorithm 1.)

    Args:
        policy: The policy.
        target_critics: Target networks of the critics.
        batch: Transitions.
        n: Number of actions sampled in each state.
        lam: Weight of the minimum over the critics. The maximum over the critics has the weight 1 - lam.

    Returns:
        An `ActionValue` with one action per row, the best action, and the log-probabilities of the best actions, [N].
    """
    distribution = distribution_of(policy, batch, next=True)
    value, best = imitation.best_next_value(target_critics, batch, distribution.sample((n,)), lam)
    return value, distribution.log_prob(best)


@constructor_only("imitator_optimizer", "initial_alpha", "alpha_holder", "alpha_optimizer")
class BEAR(SoftActorCritic):
    """Soft Actor-Critic whose policy stays near an imitator of the recorded actions.

    The policy's loss contains the maximum mean discrepancy between actions of the policy and of the imitator. The
    weight of the discrepancy, alpha, is a Lagrange multiplier. alpha is learnt to keep the discrepancy near
    `alpha_threshold`. In training the agent samples one action. In evaluation it samples several actions and selects
    the action with the highest value under the first critic. If `act_deterministically` is False, it samples one action
    in evaluation, too. Actions therefore differ from call to call. The agent does not support recurrent networks.

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
        act_deterministically: True to select the best of `n_action_samples` sampled actions in evaluation, False to
            sample one action.
        further_q_funcs: Additional critics. The target uses the minimum over all critics and the maximum over all
            critics; see `lam`.
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
        imitator: A `ConditionalVAE`, or a policy: module from observations to distributions of actions.
        imitator_optimizer: Optimiser of the imitator.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        n_action_samples: Number of actions sampled from the policy in each state when the agent acts in evaluation, and
            in the targets if `n_target_samples` is None.
        n_mmd_action_samples: Number of actions from which the discrepancy is computed: `n_mmd_action_samples` actions
            of the policy and as many of the imitator; at least 2.
        mmd_kernel: "gaussian" or "laplacian".
        mmd_sigma: Width of the kernel, positive.
        alpha_threshold: Target value of the discrepancy. alpha is learnt to reach the target. None keeps alpha
            constant.
        initial_alpha: Initial alpha, positive. If `alpha_threshold` is None, alpha stays constant and may be 0.
        alpha_optimizer_lr: Learning rate of the Adam optimiser of alpha; None uses Adam's default.
        beta: Weight of the KL divergence in the loss of a `ConditionalVAE`, at least 0.
        rl_start_step: Number of initial updates that train only the imitator. The attribute may be changed at any time.
        imitates_first: True for the imitator's step before the steps of critics and policy, whose losses then use the
            updated imitator, as in d3rlpy 2.8. False for the imitator's step after them.
        n_target_samples: Number of actions sampled from the policy in each next state for the targets.
        warmup_steps: Number of initial updates in which the policy minimises alpha * (discrepancy - alpha_threshold)
            alone, and alpha and the temperature are constant; the critics and the imitator learn. 40,000 in d3rlpy 2.8.
        unsquashed_mmd: False for the discrepancy of actions of policy and imitator. True for that of the policy's
            samples x before the squashing tanh(x), and of tanh(y) for the imitator's actions y, as in d3rlpy 2.8, whose
            decoder has unbounded outputs.
        penalises_policy: True for the policy's loss J(pi) + alpha * (discrepancy - alpha_threshold), where J is
            the loss of Soft Actor-Critic. False for J(pi) after the warm-up, as in d3rlpy 2.8, where the gradient of
            alpha's loss -alpha * (discrepancy - alpha_threshold) also reaches the policy and cancels that of the second
            term.
        log_alpha_bounds: Bounds to which log(alpha) is clipped after an update; (-5, 10) in d3rlpy 2.8. If None, it has
            no bounds.
        multipliers_first: False to update a Lagrange multiplier after the step on the loss that it weights; True to
            update it before, as in d3rlpy 2.8: the loss `temperature * log_prob - Q` then contains the new temperature.
        multiplier_optimizers: Functions from the parameters of a Lagrange multiplier to their optimiser, keyed by the
            name of the multiplier. Adam updates the others.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _acting_attributes = (*SoftActorCritic._acting_attributes, "acting_critic")
    #: Names of the statistics that have one value per row.
    averaged_rows = (*SoftActorCritic.averaged_rows, "mmd")
    #: Names of the statistics that have one value per update.
    averaged_updates = ("imitator_loss",)
    #: Names of the statistics that `get_statistics` returns.
    reported = (*SoftActorCritic.reported, "average_mmd", "alpha", "average_imitator_loss")
    _elementwise = staticmethod(square)
    _is_offline = True
    _may_be_recurrent = False

    beta: float
    rl_start_step: float
    imitator: Any
    _imitator_parts: tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]

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
        imitator: nn.Module,
        imitator_optimizer: torch.optim.Optimizer,
        lam: float = 0.75,
        n_action_samples: int = 10,
        n_mmd_action_samples: int = 4,
        mmd_kernel: str = "gaussian",
        mmd_sigma: float = 20.0,
        alpha_threshold: float | None = 0.05,
        initial_alpha: float = 1.0,
        alpha_optimizer_lr: float | None = 1e-3,
        beta: float = 0.5,
        rl_start_step: float = 0,
        imitates_first: bool = False,
        n_target_samples: int | None = None,
        warmup_steps: float = 0,
        unsquashed_mmd: bool = False,
        penalises_policy: bool = True,
        log_alpha_bounds: tuple[float, float] | None = None,
        multipliers_first: bool = False,
        multiplier_optimizers: Mapping[str, Callable[[Any], torch.optim.Optimizer]] | None = None,
    ) -> None:
        self.lam, self.mmd_sigma, self.mmd_kernel = lam, mmd_sigma, mmd_kernel
        check_numbers_in(self, lam=(0, 1))
        check_positive(self, "mmd_sigma")
        check_choice("mmd_kernel", mmd_kernel, KERNELS)
        check_counts(n_action_samples=n_action_samples)
        check_counts(optional=True, n_target_samples=n_target_samples)
        self.warmup_steps, self.unsquashed_mmd, self.penalises_policy = warmup_steps, unsquashed_mmd, penalises_policy
        check_numbers_in(self, warmup_steps=(0, None))
        self.n_target_samples, self.log_alpha_bounds = n_target_samples, log_alpha_bounds
        check_counts(least=2, n_mmd_action_samples=n_mmd_action_samples)
        self.n_action_samples, self.n_mmd_action_samples = n_action_samples, n_mmd_action_samples
        self.alpha_threshold, self.initial_alpha = alpha_threshold, initial_alpha
        self.alpha_optimizer_lr, self.imitates_first = alpha_optimizer_lr, imitates_first
        imitation.store_imitator(self, imitator, imitator_optimizer, beta, rl_start_step)
        super().__init__(**arguments_for(SoftActorCritic, locals()))
        self.acting_critic = self.critics[0]

    def extra_modules(self) -> tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]:
        """Return two dicts keyed by attribute name: the imitator, and its optimiser."""
        return self._imitator_parts

    def learn(self, batch: Batch) -> Update:
        """Update all networks. The first `rl_start_step` updates train only the imitator."""
        if self.optim_t < self.rl_start_step:
            return self._run_update_step(batch.replace(action=batch.action.float()), False, True)
        if self.optim_t < self.warmup_steps:
            result = self._run_update_step(batch.replace(action=batch.action.float()), True, False, True)
            self._policy_updates.count += 1
            self.sync_target_network()
            return result
        result = super().learn(batch)
        holder = self._multipliers["alpha"].holder
        if self.log_alpha_bounds is not None and holder is not None:
            holder.log_temperature.data.clamp_(*self.log_alpha_bounds)
        return result

    def update_step(
        self, batch: Batch, step: Step, with_policy: bool = True, only_imitation: bool = False, is_warmup: bool = False
    ) -> Update:
        """Minimise the losses of critics, policy and imitator.

        If `only_imitation` is True, minimise only the imitator's loss. If `is_warmup` is True, the policy's loss is
        that of the warm-up.
        """
        update = super().update_step

        def learn() -> Update:
            td_error, stats = update(batch, step, with_policy and not is_warmup)
            return td_error, stats | (self._warmup_step(batch, step) if is_warmup else {})

        return imitation.step_imitator(self, batch, step, None if only_imitation else learn)

    def try_parts(self, batch: Batch, distribution: Any) -> None:
        """Raise an error if the losses cannot be computed with the policy, the critics and the imitator."""
        super().try_parts(batch, distribution)
        imitation.dry_run_imitator(self, batch)

    def greedy_actions(self, obs: Any, action_mask: Any = None, active: Any = None) -> tuple[Tensor, Any]:
        """Return the best of `n_action_samples` sampled actions for each of k observations, [k, A].

        Also return the deterministic distribution of these actions.

        The first critic evaluates the actions.
        """
        best = imitation.select_for_active(self._best_sample, obs, active)
        return best.mode, best

    def _best_sample(self, obs: Any) -> imitation.ChosenAction:
        actions = imitation.sample_per_state(self._distribution(obs, None, None), self.n_action_samples)
        with evaluation_mode(self.acting_critic):
            return imitation.select_best(self.acting_critic, obs, actions)

    def _make_multipliers(self) -> list[LagrangeMultiplier]:
        """Return the Lagrange multipliers temperature and alpha."""
        options = self.alpha_optimizer_lr, self.multiplier_optimizers.get("alpha")
        alpha = LagrangeMultiplier("alpha", self.initial_alpha, "alpha_threshold", self.alpha_threshold, *options)
        return [*super()._make_multipliers(), alpha]

    @property
    def alpha(self) -> float:
        """Weight of the discrepancy."""
        return float(self._multipliers["alpha"]())

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the next states (`bear_next_value`), and the rewards plus the entropy bonus, [N]."""
        with evaluation_mode(self.policy):
            n = self.n_target_samples or self.n_action_samples
            value, log_prob = bear_next_value(self.policy, self.target_critics, batch, n, self.lam)
        return value, soft_reward(batch, log_prob, self._multipliers["temperature"]())

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise the policy loss of Soft Actor-Critic plus alpha * (discrepancy - alpha_threshold).

        If the temperature is learnt, also minimise its loss. If alpha is learnt, also minimise its loss.
        (arXiv:1906.00949, eq. 1 and Algorithm 1.)
        """
        temperature, options = self._multipliers["temperature"], (batch.weight, self.batch_accumulator)
        stats: dict[str, Tensor] = {}

        def temperature_step(log_prob: Tensor) -> Any:
            stats.update(temperature.update(step, log_prob, self.entropy_target, *options))
            return temperature()

        loss, log_prob, entropy = self.policy_loss(batch, temperature_step if self.multipliers_first else temperature())
        penalty, discrepancy = self._penalty(batch)
        loss = loss + (penalty if self.penalises_policy else penalty.detach())
        step("policy_optimizer", loss)
        if not self.multipliers_first:
            temperature_step(log_prob)
        stats |= self._multipliers["alpha"].update(step, discrepancy.detach(), -(self.alpha_threshold or 0.0), *options)
        constrained = {"mmd_loss": penalty.detach(), "mmd": discrepancy.detach()}
        return {"policy_loss": loss.detach(), "entropy": entropy, **constrained, **stats}

    def _warmup_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise alpha * (discrepancy - alpha_threshold) by the policy."""
        penalty, discrepancy = self._penalty(batch)
        step("policy_optimizer", penalty)
        return {"policy_loss": penalty.detach(), "mmd": discrepancy.detach()}

    def _penalty(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return alpha * (discrepancy - alpha_threshold), a scalar, and the discrepancy, [N]."""
        discrepancy = self._discrepancy(batch)
        excess = discrepancy - (self.alpha_threshold or 0.0)
        return self._multipliers["alpha"]() * weighted_mean(excess, batch.weight, self.batch_accumulator), discrepancy

    def _discrepancy(self, batch: Batch) -> Tensor:
        """Return the discrepancy between actions of the policy and of the imitator, [N].

        The gradient flows into the policy.
        """
        with evaluation_mode(self.imitator):
            imitated = imitation.imitated_actions(self.imitator, batch.obs, self.n_mmd_action_samples)
        distribution = distribution_of(self.policy, batch)
        if self.unsquashed_mmd:
            distribution, imitated = distribution.base_dist, imitated.tanh()
        sampled = distribution.rsample((self.n_mmd_action_samples,))
        return maximum_mean_discrepancy(sampled, imitated, self.mmd_sigma, self.mmd_kernel)
