"""Soft Actor-Critic (Haarnoja et al. 2018, arXiv:1801.01290 and arXiv:1812.05905)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.action_value import min_of
from pfrl_like.batch import Batch
from pfrl_like.distributions import SquashedGaussian, rsample_with_log_prob
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.learning.acting import actions_of_policy
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import critics_and_optimizers, keywords_for
from pfrl_like.learning.critics import Targets, distribution_of, log_prob_shape_error, mean_value, minimum, value_of
from pfrl_like.learning.lagrange import LagrangeMultiplier, parts_of
from pfrl_like.learning.lagrange import TemperatureHolder as TemperatureHolder
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch
from pfrl_like.learning.overrides.off_policy import steps_of_update
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_function, constructor_only
from pfrl_like.utils.contexts import NO_LOCK, evaluation_mode
from pfrl_like.utils.old_names import old_names

#: Weight of the entropy, or a function from log-probabilities, [N], to the weight.
Temperature = Tensor | float | Callable[[Tensor], Any]


def soft_next_value(
    policy: Any, target_critics: Sequence[Any], batch: Batch, pool: Callable[[Sequence[Any]], Any] = min_of
) -> tuple[Any, Tensor]:
    """Sample next actions from the policy, and return their values and log-probabilities.

    The soft value of a next state is value - temperature * log-probability (arXiv:1812.05905, eq. 3 and section 6).

    Args:
        policy: Policy from which the next actions are sampled.
        target_critics: Target networks of the critics.
        batch: Transitions or sequences.
        pool: Function that combines the action values of all critics into one action value.

    Returns:
        The value of the sampled next actions (an `ActionValue` with one action), and the log-probabilities of these
        actions, [N].
    """
    next_action, log_prob = sample_with_log_prob(policy, batch, next=True)[1:]
    return pool([value_of(critic, batch, next_action, next=True) for critic in target_critics]), log_prob


def soft_reward(batch: Batch, log_prob: Tensor, temperature: Tensor | float) -> Tensor:
    """Return the rewards plus the entropy bonus of the next states: `reward - discount * temperature * log_prob`, [N].

    The result plus `discount * Q(s', a')` is the soft target (arXiv:1812.05905, eq. 2 and 3). The critics may be
    distributional.
    """
    return torch.addcmul(batch.reward, batch.discount, temperature * log_prob, value=-1)


def sac_policy_loss(
    policy: Any,
    critics: Sequence[Any],
    batch: Batch,
    temperature: Temperature,
    accumulator: str = "mean",
    pool: Callable[[Sequence[Tensor]], Tensor] = minimum,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the mean of temperature * log_prob(a) - min_i Q_i(s, a) (arXiv:1812.05905, eq. 7).

    The action a is a reparametrised sample from the policy. The index i runs over the critics.

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        critics: The critics.
        batch: Transitions or sequences.
        temperature: Weight of the entropy, without gradient, or a function from the detached log_prob(a) to the weight.
        accumulator: "mean" or "sum" over the rows.
        pool: Function that combines the values of all critics into one value for each row, [N].

    Returns:
        The scalar loss (weighted if the batch has weights), the detached log_prob(a), [N], and the detached entropy,
        [N].
    """
    distribution, action, log_prob = sample_with_log_prob(policy, batch)
    q = pool([mean_value(value_of(critic, batch, action)) for critic in critics])
    weight = temperature(log_prob.detach()) if callable(temperature) else temperature
    loss = weighted_mean(weight * log_prob - q, batch.weight, accumulator)
    return loss, log_prob.detach(), _entropy(distribution, log_prob).detach()


def sample_with_log_prob(policy: Any, batch: Batch, *, next: bool = False) -> tuple[Any, Tensor, Tensor]:
    """Return the policy's distributions, one sampled action per row, and the log-probabilities of the samples, [N].

    Raises:
        ValueError: If the log-probabilities do not have the shape [N].
    """
    distribution = distribution_of(policy, batch, next=next)
    has_both = hasattr(distribution, "rsample_with_log_prob")  # one call instead of two, for Gaussians of this library
    action, log_prob = distribution.rsample_with_log_prob() if has_both else rsample_with_log_prob(distribution)
    if log_prob.ndim != 1:
        raise log_prob_shape_error(log_prob)
    return distribution, action, log_prob


def _entropy(distribution: Distribution, log_prob: Tensor) -> Tensor:
    """Return the entropy of each row, [N]. If there is no cheap formula, estimate it by -log_prob of the sample."""
    if isinstance(distribution, SquashedGaussian) or type(distribution).entropy is Distribution.entropy:
        return -log_prob
    return distribution.entropy()


@constructor_only("initial_temperature", "temperature_holder", "temperature_optimizer")
@settings(policy_optimizer=change_optimizer, q_func1_optimizer=change_optimizer, q_func2_optimizer=change_optimizer)
class SoftActorCritic(OffPolicyActorCritic):
    """Soft Actor-Critic agent.

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
        elementwise: Function from TD errors to losses, element by element, for critics that are not distributional:
            `half_square`, (y - Q)**2 / 2 as in the paper, if None; `square`, (y - Q)**2, in d3rlpy 2.8.
        multipliers_first: False to update a Lagrange multiplier after the step on the loss that it weights; True to
            update it before, as in d3rlpy 2.8: the loss `temperature * log_prob - Q` then contains the new temperature.
        multiplier_optimizers: Functions from the parameters of a Lagrange multiplier to their optimiser, keyed by the
            name of the multiplier. Adam updates the others.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Names of the statistics that have one value per row.
    averaged_rows: tuple[str, ...] = ("entropy",)
    #: Names of the statistics that `get_statistics` returns.
    reported: tuple[str, ...] = (*STATISTICS_OF_CRITICS, "n_updates", "average_entropy", "temperature")
    _targets = Targets(of_policy=False, schedule="every update")
    _needs_densities = True
    _hooks_of_update = frozenset(["update_q_func", "update_policy_and_temperature", "update_temperature"])
    _acting_hook = "batch_select_greedy_action"
    #: Function that combines the outputs of all critics in the next states to one output, for the targets.
    _pool: Callable[[Sequence[Any]], Any] = staticmethod(min_of)
    #: Function that combines the values of all critics to one value per row, for the policy's loss.
    _policy_pool: Callable[[Sequence[Tensor]], Tensor] = staticmethod(minimum)

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
        elementwise: Callable[[Tensor], Tensor] | None = None,
        multipliers_first: bool = False,
        multiplier_optimizers: Mapping[str, Callable[[Any], torch.optim.Optimizer]] | None = None,
    ) -> None:
        check_function(optional=True, elementwise=elementwise)
        self._elementwise = elementwise or self._elementwise
        self.multipliers_first, self.multiplier_optimizers = multipliers_first, dict(multiplier_optimizers or {})
        critics, optimizers = critics_and_optimizers(locals())
        self.initial_temperature, self.entropy_target = initial_temperature, entropy_target
        self.temperature_optimizer_lr = temperature_optimizer_lr
        multipliers = self._make_multipliers()
        self._multipliers = {each.name: each for each in multipliers}
        if unknown := {*self.multiplier_optimizers} - {*self._multipliers}:
            raise ValueError(f"multiplier_optimizers has the keys {unknown}, expected some of {[*self._multipliers]}")
        for each in multipliers:
            if each.holder is None:
                setattr(self, f"{each.name}_holder", None)
                setattr(self, f"{each.name}_optimizer", None)
        holders, learnt = parts_of(multipliers)
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers, **learnt},
            replay_buffer, gamma, Greedy(), further=holders, target_update_interval=None, target_update_method="soft",
            **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    @property
    def temperature(self) -> float:
        """Weight of the entropy."""
        return float(self._multipliers["temperature"]())

    def _make_multipliers(self) -> list[LagrangeMultiplier]:
        """Return the Lagrange multipliers of the losses. This method runs before the constructor of the base class."""
        lr, make = self.temperature_optimizer_lr, self.multiplier_optimizers.get("temperature")
        target = "entropy_target", self.entropy_target
        return [LagrangeMultiplier("temperature", self.initial_temperature, *target, lr, make)]

    def acting_copy(self) -> Any:
        """Return a copy on the CPU that selects actions and cannot learn. Its multipliers are constant."""
        acting = super().acting_copy()
        acting._multipliers = {name: multiplier.constant() for name, multiplier in self._multipliers.items()}
        return acting

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the target critics' values of sampled next actions, and the rewards plus the entropy bonus, [N]."""
        with NO_LOCK if self.evaluates_critics else evaluation_mode(self.policy):
            next_value, log_prob = soft_next_value(self.policy, self._bootstrap_critics(), batch, self._pool)
        return next_value, soft_reward(batch, log_prob, self._multipliers["temperature"]())

    def policy_loss(self, batch: Batch, temperature: Temperature) -> tuple[Tensor, Tensor, Tensor]:
        """Return the result of `sac_policy_loss` for the agent's policy and critics."""
        pool = self._policy_pool
        return sac_policy_loss(self.policy, self.critics, batch, temperature, self.batch_accumulator, pool)

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise the losses of the policy and of the temperature, and return statistics."""
        temperature = self._multipliers["temperature"]
        stats: dict[str, Tensor] = {}

        def update_temperature(log_prob: Tensor) -> Any:
            if "update_temperature" not in self._overridden_hooks:
                update = log_prob, self.entropy_target, batch.weight, self.batch_accumulator
                stats.update(temperature.update(step, *update))
            elif self.entropy_target is not None:
                self.update_temperature(log_prob)
            return temperature()

        weight = update_temperature if self.multipliers_first else temperature()
        loss, log_prob, entropy = self.policy_loss(batch, weight)
        step("policy_optimizer", loss)
        if not self.multipliers_first:
            update_temperature(log_prob)
        return {"policy_loss": loss.detach(), "entropy": entropy, **stats}

    def update_q_func(self, batch: Any) -> None:
        """Make a gradient step on the loss of each critic.

        Args:
            batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.

        Raises:
            NonFiniteError: If a loss or a gradient is NaN or infinite.
        """
        self._default_critic_update(batch)

    def update_policy_and_temperature(self, batch: Any) -> None:
        """Make a gradient step on the policy's loss and a gradient step on the temperature's loss.

        Args:
            batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.

        Raises:
            NonFiniteError: If a loss or a gradient is NaN or infinite.
        """
        self._default_policy_update(batch)

    def update_temperature(self, log_prob: Tensor) -> None:
        """Make a gradient step on the loss of the temperature.

        Args:
            log_prob: Log-probabilities of the policy's actions, [N], without a gradient.

        Raises:
            NonFiniteError: If the loss or a gradient is NaN or infinite.
        """
        weight = None if self._override_batch is None else self._override_batch.weight
        temperature = self._multipliers["temperature"]
        temperature.update(steps_of_update(self), log_prob, self.entropy_target, weight, self.batch_accumulator)

    def batch_select_greedy_action(self, batch_obs: Sequence[Any], deterministic: bool = False) -> Any:
        """Return actions of the policy for k raw observations, array [k, ...].

        Args:
            batch_obs: k raw observations.
            deterministic: True to select the mode of each distribution, False to sample.
        """
        return actions_of_policy(self, batch_obs, deterministic)

    def _update_through_hooks(self, batch: ColumnsOfBatch) -> None:
        """Update all networks in the order of PFRL's `update`.

        Every `policy_update_delay` updates, the policy and the temperature are updated, too.
        """
        self.update_q_func(batch)
        if (self.optim_t + self.delays_first_update) % self.policy_update_delay == 0:
            self.update_policy_and_temperature(batch)
        self.sync_target_network()

    def _bootstrap_critics(self) -> Sequence[Any]:
        """Return the critics that evaluate the next states in the targets."""
        return self.target_critics  # type: ignore[no-any-return]

    def extra_statistics(self) -> dict[str, Any]:
        """Return the number of policy updates and the current multipliers, keyed by the name of the statistic."""
        return {"n_updates": self.n_policy_updates, **{name: getattr(self, name) for name in self._multipliers}}


__getattr__ = old_names(__name__)
