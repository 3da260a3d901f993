"""The base class of agents with a replay buffer, a policy and critics Q(s, a)."""

import functools
import logging
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.action_value.base import Losses
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.distributions import rsample_with_log_prob
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.functions.losses import bootstrap_weight, half_square
from pfrl_like.learning.acting import PolicyActionSelector
from pfrl_like.learning.compatibility import spaces
from pfrl_like.learning.compatibility.arguments import check_pairs, keywords_for
from pfrl_like.learning.compatibility.dry_run import dry_run_critics, dry_run_losses
from pfrl_like.learning.compatibility.parts import check_distribution, check_explorer
from pfrl_like.learning.compatibility.spaces import Bounds
from pfrl_like.learning.critics import critic_loss, value_of
from pfrl_like.learning.minibatches import steps_for_data
from pfrl_like.learning.model_outputs import check_one_for_each
from pfrl_like.learning.off_policy import OffPolicyAgent
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch, to_batch
from pfrl_like.learning.overrides.off_policy import learn_through_hooks, steps_of_update
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.optimizers.gradient_step import StepsOfUpdate
from pfrl_like.q_functions.state_action_q_functions import QFunctionEnsemble, members_by_name, members_of
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.checks import check_counts, check_function
from pfrl_like.utils.contexts import NO_LOCK, evaluation_mode_of_all
from pfrl_like.utils.copy_param import frozen_copy
from pfrl_like.utils.env_values import space_kind

#: Statistics of two critics, in the order of `get_statistics`. If there is only one critic, `get_statistics` omits the
#: statistics of the second critic.
STATISTICS_OF_CRITICS = ("average_q1", "average_q2", "average_q_func1_loss", "average_q_func2_loss")


def critics_of(agent: Any, prefix: str = "") -> list[Any]:
    """Return the critics of an agent as a list, with an ensemble replaced by its members.

    The names of the attributes are `prefix` plus the critics' names, for example "target_" for the target networks.
    """
    parts = [getattr(agent, prefix + name) for name in agent.critic_arguments]
    return [each for part in parts for each in (part.members if isinstance(part, QFunctionEnsemble) else (part,))]


class OffPolicyActorCritic(OffPolicyAgent):
    """Base class of agents with a replay buffer, critics and a policy.

    The critics learn from replayed transitions. The policy learns from the critics' values.

    An algorithm defines two methods: `bootstrap` computes the next-state values in the critics' targets, and
    `policy_step` makes the gradient step of the policy. Importance weights apply to all losses, including the policy
    loss.

    Args:
        policy: Module from observations to distributions of actions.
        critics: Critics, keyed by attribute name. The target network of critic `name` is the attribute `target_<name>`.
            The members of a `QFunctionEnsemble` are separate critics with one common optimiser.
        optimizers: Optimisers, keyed by attribute name, in the order of their modules: policy, critics, modules in
            `further`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy.
        further: Additional trained modules, keyed by attribute name.
        burnin_action_func: Function that selects the training actions before the first update of the policy. If None,
            training actions are always sampled from the policy. An actor in another process calls the function until
            the actor receives parameters from after the first update.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        policy_update_delay: Number of critic updates per update of the policy.
        gpu: CUDA device index. None or a negative index means the CPU.
        device: Device as a string or `torch.device`, instead of `gpu`.
        replay_start_size: Minimum `len(replay_buffer)` for an update.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`. None if the agent updates its target networks itself.
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
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            for each batch size, when this size occurs for the second time. Each compilation takes about 30 s and is
            logged (level INFO).
    """

    _selector = PolicyActionSelector()
    _acting_attributes: tuple[str, ...] = ("policy", "_policy_updates")
    _acting_network_name = "policy"
    value_type: type[Any] = Distribution
    #: The kind of action space that the agent supports, the word for this kind in error messages, and the agents that
    #: error messages recommend for other action spaces.
    action_kind: tuple[str, str, str] = ("box", "continuous", "DiscreteSAC, or an agent of DQN's family")
    #: Name of the agent that error messages recommend for discrete actions.
    _discrete_alternative: str = "DiscreteSAC"
    #: Names of the loss statistics with one value per row. They are averaged over the last 1,000 rows.
    averaged_rows: tuple[str, ...] = ()
    #: Names of the loss statistics with one value per update. They are averaged over the last 100 updates.
    averaged_updates: tuple[str, ...] = ()
    _saved_counters = {**OffPolicyAgent._saved_counters, "n_policy_updates": "n_policy_updates"}
    #: Names of the statistics that `get_statistics` returns, in the order of `get_statistics`.
    reported: tuple[str, ...] = ("n_updates",)
    #: Function from TD errors to losses, element by element. Only critics that return tensors of Q-values use it.
    _elementwise: Callable[[Tensor], Tensor] = staticmethod(half_square)
    #: Function called as (critic, batch). It returns the critic's values of the actions in the batch.
    value_of: Callable[..., Any] = staticmethod(value_of)
    #: Names of the methods that PFRL's `update` calls. If a subclass overrides one of them, `learn` calls all of them
    #: in PFRL's order.
    _hooks_of_update: frozenset[str] = frozenset()
    #: True if the policy is trained. If False, the policy has no optimiser.
    policy_learns: bool = True
    #: True if the losses need log-probabilities of the policy's distributions.
    _needs_densities: bool = False
    #: Function that returns samples of a distribution and their log-probabilities. Only losses that need
    #: log-probabilities use it.
    _densities_of: Callable[[Any], tuple[Tensor, Tensor]] = staticmethod(rsample_with_log_prob)
    #: Class of the values that `value_of` returns for a critic. `value_of` converts a tensor of Q-values, [N, 1], to a
    #: `DiscreteActionValue` with one action.
    _critic_type: type[Any] = DiscreteActionValue

    #: Modes in an update of networks with dropout, batch normalisation or random fractions. False: the policy of Soft
    #: Actor-Critic and of its variants is in evaluation mode in the critics' targets, and the critics are in training
    #: mode in the policy's loss. True, as in d3rlpy 2.8: the reverse.
    evaluates_critics: bool = False

    policy: Any
    target_policy: Any
    _last_bounds_warning: str = ""

    def __init__(
        self,
        policy: nn.Module,
        critics: Mapping[str, nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Any,
        *,
        further: Mapping[str, nn.Module] | None = None,
        burnin_action_func: Callable[[], Any] | None,
        act_deterministically: bool,
        policy_update_delay: int = 1,
        gpu: int | None,
        device: torch.device | str | None,
        replay_start_size: int,
        minibatch_size: int,
        update_interval: int,
        target_update_interval: int | None,
        phi: Callable[[Any], Any] | None,
        target_update_method: str,
        soft_update_tau: float,
        n_times_update: int,
        batch_accumulator: str,
        episodic_update_len: int | None,
        logger: logging.Logger,
        batch_states: Callable[..., Any],
        recurrent: bool,
        max_grad_norm: float | None,
        num_steps: int,
        compile: bool,
    ) -> None:
        check_counts(policy_update_delay=policy_update_delay)
        check_function(optional=True, burnin_action_func=burnin_action_func)
        extra_parts, extra_optimizers = self.extra_modules()
        further, optimizers = {**(further or {}), **extra_parts}, {**optimizers, **extra_optimizers}
        named = members_by_name(critics)
        self.critic_arguments, self._critic_names = tuple(critics), tuple(named)
        self.averaged_rows = (*(f"q{i}" for i in range(1, len(named) + 1)), *self.averaged_rows)
        self.averaged_updates = (*(f"{name}_loss" for name in named), *self.averaged_updates)
        self.policy_update_delay, self.burnin_action_func = policy_update_delay, burnin_action_func
        self.act_deterministically = act_deterministically
        modules = {"policy": policy, **critics, **further}
        super().__init__(
            modules, optimizers, replay_buffer, gamma, explorer, burn_in=0, **keywords_for(OffPolicyAgent, locals())
        )
        check_pairs(modules if self.policy_learns else {**critics, **further}, optimizers)
        for name, part in {**modules, **optimizers}.items():
            setattr(self, name, part)
        names = ["policy"] * self._targets.of_policy + [*critics] * self._targets.of_critics
        self._target_attributes = tuple(names)
        for name in self._target_attributes:
            setattr(self, f"target_{name}", frozen_copy(modules[name]))
        targets = [f"target_{name}" for name in self._target_attributes]
        self.saved_attributes = (*modules, *targets, *optimizers)
        critic_optimizers = [*optimizers][self.policy_learns :][: len(critics)]
        self._critics_of_optimizers = {
            name: len([*members_of(critic)]) for name, critic in zip(critic_optimizers, critics.values(), strict=True)
        }
        self._bootstraps = any(getattr(critic, "bootstrap", False) for critic in critics.values())
        self._policy_updates = Count()

    # Methods that an algorithm defines

    def extra_modules(self) -> tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]:
        """Return additional modules that a subclass trains, and their optimisers.

        Both dicts are keyed by attribute name.
        """
        return {}, {}

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check the explorer. Subclasses also check the inputs of the critics, which are Q(s, .) or Q(s, a).

        Raises:
            TypeError: If the explorer or a critic is not suitable. The message names the argument.
        """
        check_explorer(self.explorer, "continuous", type(self).__name__)

    def _critics_among(self, modules: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
        """Return the critics, keyed by name, with an ensemble replaced by its members."""
        return members_by_name({name: modules[name] for name in self.critic_arguments})

    @property
    def q_function(self) -> Any:
        """The critic, or the first of several. An AttributeError is raised if there is none."""
        return getattr(self, next(iter(self.critic_arguments), "q_func"))

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the next-state values of the targets, an `ActionValue` with one action, and the rewards, [N]."""
        raise NotImplementedError

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Make gradient steps on the policy's loss and on losses that depend on the policy. Return statistics.

        Args:
            batch: Minibatch whose observations are features (after `phi`).
            step: Function that makes a gradient step, called as (name of the optimiser's attribute, loss).
        """
        raise NotImplementedError

    def critic_losses(self, batch: Batch) -> Iterable[Losses]:
        """Yield the result of `critic_loss` for each critic. A loss is computed when it is requested."""
        with torch.no_grad():
            next_value, reward = self.bootstrap(batch)
        batches = self._rows_of_critics(batch) if self._bootstraps else [batch] * len(self._critic_names)
        for critic, rows in zip(self.critics, batches, strict=True):
            value, elementwise, accumulator = self.value_of(critic, batch), self._elementwise, self.batch_accumulator
            yield critic_loss(value, rows, next_value, reward, elementwise=elementwise, accumulator=accumulator)

    def _rows_of_critics(self, batch: Batch) -> list[Batch]:
        """Return one batch per critic.

        If the critics are an ensemble with `bootstrap=True`, each member has its own random weights of the rows.
        """
        if not self._bootstraps:
            return [batch] * len(self._critic_names)
        weight = torch.ones_like(batch.reward) if batch.weight is None else batch.weight
        return [batch.replace(weight=weight * bootstrap_weight(weight)) for _ in self._critic_names]

    @property
    def _loss_options(self) -> dict[str, Any]:
        """Keyword arguments of `critic_loss` that define the loss of the TD errors."""
        return {"elementwise": self._elementwise, "accumulator": self.batch_accumulator}

    # Learning

    def learn(self, batch: Batch) -> Update:
        """Make a gradient step on each critic's loss.

        Every `policy_update_delay`-th update also makes a gradient step on the policy's loss.
        """
        if isinstance(batch, int):
            raise steps_for_data(batch)
        if batch.action.dtype == torch.float64:  # random actions of NumPy functions have this dtype
            batch = batch.replace(action=batch.action.float())
        if self._overridden_hooks and not self._hooks_of_update.isdisjoint(self._overridden_hooks):
            return learn_through_hooks(self, batch)
        with_policy = self.policy_learns and (self.optim_t + self.delays_first_update) % self.policy_update_delay == 0
        if self._compiled is None:  # same as `_run_update_step`; inlined for speed
            steps = self._last_steps = StepsOfUpdate(self.gradient_steps)
            td_error, stats = self.update_step(batch, steps, with_policy)
            self.guard.restore_moments(steps.refused)
        else:
            td_error, stats = self._compiled(batch, with_policy)
        if with_policy:
            self._policy_updates.count += 1
        schedule = self._targets.schedule
        if schedule == "every update" or (with_policy and schedule == "with policy"):
            self.sync_target_network()
        return td_error, stats

    def _update_through_hooks(self, batch: ColumnsOfBatch) -> None:
        """Call PFRL's methods in the order of PFRL's `update`. A subclass may override these methods."""
        raise NotImplementedError

    def _default_critic_update(self, batch: Any) -> None:
        """Make a gradient step on each critic's loss.

        This is the default implementation of PFRL's methods that update critics.

        Args:
            batch: Minibatch of a type that `to_batch` accepts.
        """
        self._record(self.update_step(to_batch(batch), steps_of_update(self), False)[1])

    def _default_policy_update(self, batch: Any) -> None:
        """Make gradient steps on the policy's loss and on losses that depend on the policy.

        Args:
            batch: Minibatch of a type that `to_batch` accepts.
        """
        self._record(self.policy_step(to_batch(batch), steps_of_update(self)))
        self.n_policy_updates += 1

    def _td_errors_of(self, batch: Batch) -> Tensor:
        """Return each row's absolute TD error, averaged over the critics, [N]. `batch` contains features."""
        with isolated_rng():
            return torch.stack([error for _, error, _ in self.critic_losses(batch)]).abs().mean(0)

    def _run_update_step(self, batch: Batch, *flags: bool) -> Update:
        """Run `update_step`, or the compiled update if `compile` is True.

        `flags` contains the arguments that follow `step` in `update_step`.
        """
        if self._compiled is not None:
            return self._compiled(batch, *flags)
        steps = self._last_steps = StepsOfUpdate(self.gradient_steps)
        td_error, stats = self.update_step(batch, steps, *flags)
        self.guard.restore_moments(steps.refused)
        return td_error, stats

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True) -> Update:
        """Make all gradient steps of one update. Return the TD errors, [N], and statistics.

        Args:
            batch: Minibatch whose observations are features (after `phi`).
            step: Function that makes a gradient step, called as (name of the optimiser's attribute, loss).
            with_policy: True to update the policy as well as the critics.
        """
        results, extra_stats = self.critics_step(batch, step)
        losses, errors, values = zip(*results, strict=True)
        stats = {"loss": sum(loss.detach() for loss in losses), **extra_stats}
        stats |= {f"{name}_loss": loss.detach() for name, loss in zip(self._critic_names, losses, strict=True)}
        stats |= {f"q{i}": value for i, value in enumerate(values, 1)}
        if with_policy:
            with evaluation_mode_of_all(*self.critics) if self.evaluates_critics else NO_LOCK:
                stats |= self.policy_step(batch, step)
        # With one critic, the signed TD errors; with several critics, the mean of their absolute TD errors.
        td_error = errors[0] if len(errors) == 1 else torch.stack(errors).abs().mean(0)
        return td_error, stats

    def critics_step(self, batch: Batch, step: Step) -> tuple[Sequence[Losses], dict[str, Tensor]]:
        """Make gradient steps on the critics' losses. Return the results of `critic_losses`, and more statistics."""
        return self._step_critics(self.critic_losses(batch), step), {}

    def _step_critics(self, results: Iterable[Losses], step: Step) -> Sequence[Losses]:
        """Make one gradient step per critic, one after the other. Return the items of `results`, one for each critic.

        `results` yields a loss only after the gradient step on the previous loss. This keeps the tensors of a loss in
        the CPU cache until its backward pass. The members of an ensemble share one optimiser, so the sum of their
        losses is minimised in one step.
        """
        used: list[Losses] = []
        remaining = iter(results)
        for optimizer, count in self._critics_of_optimizers.items():
            members = [each for _, each in zip(range(count), remaining, strict=False)]
            if len(members) == count:
                step(optimizer, functools.reduce(operator.add, [loss for loss, _, _ in members]))
            used += members
        n_losses = len(used) + len(list(remaining))
        if n_losses != len(self._critic_names):
            message = f"critic_losses of {type(self).__name__} gave {n_losses} losses"
            raise ValueError(f"{message}, expected one for each of {', '.join(self._critic_names)}")
        return used

    critics = property(critics_of, doc="List of critics, with an ensemble replaced by its members.")
    target_critics = property(functools.partial(critics_of, prefix="target_"), doc="Target networks of the critics.")

    def values_of_pairs(self, obs: Any, action: Tensor) -> Tensor:
        """Return Q(s, a) of each critic for N pairs of state and action, [n_critics, N]. `obs` contains features.

        Raises:
            TypeError: If the agent has no critics, or if its critics compute Q(s, .).
        """
        batch = batch_of_states(obs, action)
        values = [self.value_of(critic, batch) for critic in self.critics]
        if not values or isinstance(values[0], Tensor):
            got = ", ".join(self._critic_names) or "no critic"
            raise TypeError(f"{type(self).__name__} has {got}, expected critics that compute Q(s, a) of a given action")
        return torch.stack([value.evaluate_actions(action) for value in values])

    # Progress

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the means of statistics over the last 1,000 rows or 100 updates (NaN if none), and counters."""
        values = {**dict(super().get_statistics()), **self.extra_statistics()}
        return [(name, values[name]) for name in self.reported if name in values]  # a single critic has no `q2`

    def extra_statistics(self) -> dict[str, Any]:
        """Return additional statistics of the algorithm, keyed by name."""
        return {}

    @property
    def n_policy_updates(self) -> int:
        """Number of updates of the policy."""
        return int(self._policy_updates.count)

    @n_policy_updates.setter
    def n_policy_updates(self, count: int) -> None:
        self._policy_updates.count.fill_(count)

    @property
    def burning_in(self) -> bool:
        """True until the first update of the policy."""
        return self.n_policy_updates == 0

    # Environments

    def _check_output(self, output: Any, obs: Any, action_space: Any) -> None:
        """Check that the policy's output fits the action space and that all losses can be computed."""
        super()._check_output(output, obs, action_space)
        check_one_for_each(output, 1)
        if action_space is not None:
            self._check_policy(output, action_space)
        dry_run_losses(self, obs, output)

    def try_parts(self, batch: Batch, distribution: Distribution) -> None:
        """Dry-run the losses: check that they can be computed with the policy and the critics.

        Args:
            batch: Batch of two rows.
            distribution: Output of the policy for the observation.
        """
        if self.action_kind[0] != "discrete":
            densities, alternative = self._needs_densities, self._discrete_alternative
            check_distribution("policy", distribution, densities=densities, reparametrised=True, instead=alternative)
        if self._needs_densities:
            try:
                self._densities_of(distribution)
            except (RuntimeError, NotImplementedError) as error:
                raise TypeError(f"{type(self).__name__} needs a policy with log-probabilities, but {error}") from error
        dry_run_critics(self, batch)

    def _check_recorded_actions(self, dataset: Any, output: Any) -> None:
        """Check that the actions of the dataset and of the policy have the same kind.

        Log a warning if the dataset contains actions that the policy cannot produce.
        """
        kind, _, others = self.action_kind
        spaces.check_kind(self, dataset, kind == "discrete", others)
        if isinstance(output, Categorical):
            spaces.check_size(self, dataset, output.probs.shape[-1])
        elif isinstance(output, Distribution) and kind != "discrete":
            spaces.check_size(self, dataset, output.event_shape.numel())
            spaces.warn_of_actions_outside_bounds(self, dataset, output)

    def _check_policy(self, distribution: Distribution, action_space: Any) -> None:
        """Check that the policy's output for one observation fits the action space."""
        kind, name, others = self.action_kind
        if space_kind(action_space) not in (kind, "other"):
            text = f"{type(self).__name__} has {name} actions, but the environment has {action_space}"
            raise TypeError(f"{text}; use {others}")
        spaces.check_policy_fits(distribution, action_space)
        warning = spaces.bounds_warning(self._bounds_of_actions(distribution), action_space)
        if warning and warning != self._last_bounds_warning:
            self.logger.warning(warning)
        self._last_bounds_warning = warning

    def _bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """Return the action bounds of the policy and of the explorer, keyed by these names. None if unknown.

        Args:
            distribution: Output of the policy for any observation.
        """
        bounds = {"policy": spaces.bounds_of(self.policy, distribution)}
        explorer = self.explorer
        if isinstance(explorer, AdditiveGaussian) and explorer.low is not None and explorer.high is not None:
            bounds["explorer"] = explorer.low, explorer.high
        return bounds


class Count(nn.Module):
    """A counter in a module, so that actors in other processes receive the counter together with the parameters."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
