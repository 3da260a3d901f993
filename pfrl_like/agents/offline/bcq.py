"""Batch-Constrained deep Q-learning (Fujimoto et al. 2018, arXiv:1812.02900; discrete: arXiv:1910.01708)."""

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN, action_values
from pfrl_like.agents.offline import imitation
from pfrl_like.agents.offline.bc import discrete_bc_loss
from pfrl_like.batch import Batch
from pfrl_like.distributions import masked
from pfrl_like.explorer import Explorer
from pfrl_like.explorers import Greedy
from pfrl_like.functions.action_masks import as_action_mask
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import arguments_for, critics_and_optimizers, keywords_for
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.compatibility.spaces import Bounds
from pfrl_like.learning.critics import Targets, distribution_of, mean_value, next_obs_of, value_of
from pfrl_like.learning.model_outputs import obs_in_errors, wrong_value
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.nn.fast_forward import apply_in_chunks, fast_forward
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts, constructor_only
from pfrl_like.utils.contexts import evaluation_mode, evaluation_mode_of_all


def perturb(policy: Any, obs: Any, action: Tensor, scale: float, argument: str = "policy") -> Tensor:
    """Return the perturbed actions a + scale * xi(s, a), clipped to [-1, 1], [N, A] (arXiv:1812.02900, section 4.2).

    Args:
        policy: Network of the perturbation xi.
        obs: Features of N observations.
        action: Actions a, [N, A].
        scale: Factor of the perturbation.
        argument: Name of the network in error messages.

    Raises:
        TypeError: If the network does not return a tensor.
        ValueError: If the perturbation and the action differ in size.
    """
    perturbation: Any = fast_forward(policy, (obs, action))
    if not isinstance(perturbation, Tensor):
        raise wrong_value(perturbation, Tensor, argument, "one that ends in Tanh")
    if perturbation.shape[1:] != action.shape[1:]:  # a single number would be broadcast
        raise ValueError(f"{argument} gives shape {tuple(perturbation.shape)} for actions of {tuple(action.shape)}")
    shifted: Tensor = torch.add(action, perturbation, alpha=scale)
    return shifted.clamp(-1.0, 1.0)


@torch.no_grad()
def candidate_actions(imitator: Any, policy: Any, obs: Any, n: int, scale: float) -> Tensor:
    """Sample n actions from the imitator in each state, and return the perturbed actions, [n, N, A]."""
    sampled = imitation.imitated_actions(imitator, obs, n)
    return apply_in_chunks(lambda states, actions: perturb(policy, states, actions, scale), obs, sampled)


def bcq_next_value(
    imitator: Any, target_policy: Any, target_critics: Sequence[Any], batch: Batch, n: int, scale: float, lam: float
) -> Any:
    """Return the value of the best of n candidate actions in each next state.

    The value of an action is lam * min_i Q_i' + (1 - lam) * max_i Q_i', where i runs over the critics.

    (arXiv:1812.02900, eq. 13.)

    Args:
        imitator: Imitator from which the candidates are sampled.
        target_policy: Target network of the perturbation.
        target_critics: Target networks of the critics.
        batch: Transitions.
        n: Number of candidates sampled in each state.
        scale: Factor of the perturbation.
        lam: Weight of the minimum over the critics. The maximum over the critics has the weight 1 - lam.

    Returns:
        An `ActionValue` with one action per row.
    """
    actions = candidate_actions(imitator, target_policy, next_obs_of(batch), n, scale)
    return imitation.best_next_value(target_critics, batch, actions, lam)[0]


class CandidateChoice(nn.Module):
    """Policy that samples actions from an imitator, perturbs them, and selects the action with the highest value.

    Args:
        imitator: Imitator from which the actions are sampled.
        policy: Module that perturbs the actions.
        critic: Critic that evaluates the actions.
        n: Number of actions sampled in each state.
        scale: Factor of the perturbation.
    """

    def __init__(self, imitator: nn.Module, policy: nn.Module, critic: nn.Module, n: int, scale: float) -> None:
        super().__init__()
        self.imitator, self.policy, self.critic = imitator, policy, critic
        self.n, self.scale = n, scale

    def forward(self, obs: Any) -> imitation.ChosenAction:
        """Select an action for each observation. Each call samples new candidates."""
        actions = candidate_actions(self.imitator, self.policy, obs, self.n, self.scale)
        return imitation.select_best(self.critic, obs, actions)


@constructor_only("imitator_optimizer", "n_action_samples", "action_flexibility")
@constructor_only("policy_optimizer", "q_func1_optimizer", "q_func2_optimizer")
class BCQ(OffPolicyActorCritic):
    """Batch-Constrained deep Q-learning: selects the best of several perturbed actions of an imitator.

    Actions are in [-1, 1]. In training and in evaluation the agent samples candidates and selects the candidate with
    the highest value under the first critic. Actions therefore differ from call to call, and `act_deterministically` is
    ignored. An update makes a gradient step on the critics, on the perturbation and on the imitator. The agent does not
    support recurrent networks.

    Args:
        policy: Perturbation: module from (observation, action) to values in [-1, 1] in the shape of the action, for
            example a module that begins with `ConcatObsAndAction` and ends in `Tanh`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func2` is None.
        replay_buffer: Replay buffer that stores the transitions.
        gamma: Discount factor per step.
        imitator: A `ConditionalVAE` of actions in [-1, 1].
        imitator_optimizer: Optimiser of the imitator.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        n_action_samples: Number of candidates sampled in each state, both in the targets and when the agent acts.
        action_flexibility: Factor of the perturbation, at least 0.
        beta: Weight of the KL divergence in the imitator's loss, at least 0.
        rl_start_step: Number of initial updates that train only the imitator. The attribute may be changed at any time.
        imitates_first: True for the imitator's step before the steps of critics and policy, whose losses then use the
            updated imitator, as in d3rlpy 2.8. False for the imitator's step after them.
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
        act_deterministically: Ignored: each call samples new candidates.
        further_q_funcs: Additional critics. The targets use the minimum and the maximum over all critics; see `lam`.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: Must be False: the agent does not support recurrent networks.
        episodic_update_len: Must be None: the agent does not support recurrent networks.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Must be 1: the agent does not support recurrent networks.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _acting_attributes = ("_choice", "_policy_updates")
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("box", "continuous", "DiscreteBCQ")
    #: Names of the statistics that have one value per update.
    averaged_updates = ("policy_loss", "imitator_loss")
    #: Names of the statistics that `get_statistics` returns.
    reported = (*STATISTICS_OF_CRITICS, "average_policy_loss", "average_imitator_loss", "n_updates")
    _targets = Targets(schedule="every update")
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
        *,
        imitator: nn.Module,
        imitator_optimizer: torch.optim.Optimizer,
        lam: float = 0.75,
        n_action_samples: int = 100,
        action_flexibility: float = 0.05,
        beta: float = 0.5,
        rl_start_step: float = 0,
        imitates_first: bool = False,
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
        self.lam, self.action_flexibility = lam, action_flexibility
        check_numbers_in(self, lam=(0, 1), action_flexibility=(0, None))
        check_counts(n_action_samples=n_action_samples)
        self.n_action_samples, self.imitates_first = n_action_samples, imitates_first
        imitation.store_imitator(self, imitator, imitator_optimizer, beta, rl_start_step)
        critics, optimizers = critics_and_optimizers(locals())
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers}, replay_buffer, gamma, Greedy(),
            target_update_interval=None, target_update_method="soft", **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip
        critic = self.critics[0]
        self._choice = CandidateChoice(self.imitator, self.policy, critic, n_action_samples, action_flexibility)

    def extra_modules(self) -> tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]:
        """Return two dicts keyed by attribute name: the imitator, and its optimiser."""
        return self._imitator_parts

    def learn(self, batch: Batch) -> Update:
        """Update all networks. The first `rl_start_step` updates train only the imitator."""
        if self.optim_t >= self.rl_start_step:
            return super().learn(batch)
        return self._run_update_step(batch.replace(action=batch.action.float()), False, True)

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True, only_imitation: bool = False) -> Update:
        """Minimise the losses of critics, policy and imitator.

        If `only_imitation` is True, minimise only the imitator's loss.
        """
        learn = None if only_imitation else functools.partial(super().update_step, batch, step, with_policy)
        return imitation.step_imitator(self, batch, step, learn)

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check the imitator."""
        imitation.check_autoencoder(modules["imitator"])

    def try_parts(self, batch: Batch, distribution: Any) -> None:
        """Raise an error if the losses cannot be computed with the imitator, the policy and the critics."""
        imitation.dry_run_imitator(self, batch)
        super().try_parts(batch, distribution)

    # Acting

    def probe(self, obs: Any) -> Any:
        """Return the policy's output for the features of one observation, [1, ...].

        Raise an error if the imitator cannot act.
        """
        imitation.dry_run_decoder(self._choice.imitator, obs)
        return super().probe(obs)

    def _distribution(self, obs: Any, action_mask: Any, active: Any) -> Any:
        base = super()._distribution
        return imitation.select_for_active(lambda active_obs: base(active_obs, action_mask, None), obs, active)

    def _bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """Return the bounds of the actions: `perturb` clips actions to [-1, 1]."""
        return {"policy": (-1.0, 1.0)}

    # Learning

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the next states (`bcq_next_value` of the target networks), and the rewards, [N]."""
        with evaluation_mode(self.imitator):
            networks = self.imitator, self.target_policy, self.target_critics
            value = bcq_next_value(*networks, batch, self.n_action_samples, self.action_flexibility, self.lam)
        return value, batch.reward

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise -Q(s, a + xi(s, a)) of the first critic (arXiv:1812.02900, eq. 14).

        The actions a are sampled from the imitator. xi(s, a) is the output of `policy` times `action_flexibility`. The
        perturbed actions are clipped to [-1, 1].
        """
        with evaluation_mode(self.imitator):
            (sampled,) = imitation.imitated_actions(self.imitator, batch.obs, 1)
        action = perturb(self.policy, batch.obs, sampled, self.action_flexibility)
        q = mean_value(value_of(self.critics[0], batch, action))
        loss = weighted_mean(-q, batch.weight, self.batch_accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach()}


def likely_actions(distribution: Any, threshold: float, action_mask: Tensor | None = None) -> Tensor:
    """Return a mask of the likely actions, [N, n_actions], bool.

    It is True for actions with a probability of at least `threshold` times the maximum probability in the row.

    (arXiv:1910.01708, eq. 17.)

    Args:
        distribution: Categorical distributions in which masked actions have probability 0.
        threshold: Threshold in [0, 1]. 0 keeps all actions, 1 keeps only the most probable action.
        action_mask: True where an action is allowed, [N, n_actions]; None allows all actions.
    """
    logits: Tensor = distribution.logits
    likely = logits - logits.amax(-1, keepdim=True) >= (math.log(threshold) if threshold else -math.inf)
    return likely if action_mask is None else likely & action_mask


class DiscreteBCQ(DQN):
    """Double DQN restricted to actions that are likely under an imitator of the recorded actions.

    The agent does not support recurrent networks.

    Args:
        q_function: Module from observations to an `ActionValue`. The value must be a `DiscreteActionValue` or a
            distributional subclass of it.
        optimizer: Optimiser of the Q-function's parameters. The optimiser must also contain the imitator's
            parameters, because the losses of both networks are added. The networks may share layers.
        replay_buffer: Replay buffer that stores the transitions.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update.
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
        episodic_update_len: Must be None: the agent does not support recurrent networks.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: Must be False: the agent does not support recurrent networks.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Must be 1: the agent does not support recurrent networks.
        burn_in: Must be 0: the agent does not support recurrent networks.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).
        imitator: Module from observations to categorical distributions, for example one that ends in a
            `SoftmaxCategoricalHead`.
        action_flexibility: Minimum probability of an action relative to the most probable action, in [0, 1]. 0 keeps
            all actions, 1 keeps only the most probable action.
        beta: Weight of the imitator's mean squared logits, at least 0.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    value_type = DiscreteActionValue
    _is_offline = True
    _acting_attributes = ("model", "imitator")
    saved_attributes = ("model", "target_model", "imitator", "optimizer")
    #: Names of the statistics that have one value per update.
    averaged_updates = (*DQN.averaged_updates, "imitator_loss")
    _may_be_recurrent = False

    imitator: Any

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
        imitator: nn.Module,
        action_flexibility: float = 0.3,
        beta: float = 0.5,
    ) -> None:
        self.action_flexibility, self.beta = action_flexibility, beta
        check_numbers_in(self, action_flexibility=(0, 1), beta=(0, None))
        self._imitator = imitator
        super().__init__(**arguments_for(DQN, locals()))

    def extra_modules(self) -> Mapping[str, nn.Module]:
        """Return the imitator, keyed by attribute name."""
        return {"imitator": self._imitator}

    def _check_output(self, value: Any, obs: Any, action_space: Any) -> None:
        """Check the Q-function as in `DQN`, and check that the imitator's output is categorical."""
        super()._check_output(value, obs, action_space)
        imitator = self.imitator
        with obs_in_errors("imitator", obs), torch.no_grad(), evaluation_mode(imitator), holding_still(imitator):
            output = fast_forward(imitator, obs)
        if not isinstance(output, Categorical):
            raise wrong_value(output, Categorical, "imitator")

    def greedy_actions(self, obs: Any, action_mask: Any = None, active: Any = None) -> tuple[Tensor, Any]:
        """Return the likely action with the highest value, [k], and the values, with unlikely actions masked."""
        value = self._value(obs, active)
        with evaluation_mode(self.imitator):
            distribution: Any = fast_forward(self.imitator, obs)
        if action_mask is not None:
            distribution = masked(distribution, action_mask)
            action_mask = as_action_mask(action_mask, distribution.logits.shape, self.device)
        value = value.masked(likely_actions(distribution, self.action_flexibility, action_mask))
        return value.greedy_actions, value

    def next_action(self, q_function: Any, batch: Batch) -> Tensor:
        """Return the likely action with the highest Q of the online network in s', [N] (arXiv:1910.01708, eq. 17)."""
        with evaluation_mode_of_all(q_function, self.imitator):
            distribution = distribution_of(self.imitator, batch, next=True)
            value = action_values(q_function, batch, next=True)
        likely = likely_actions(distribution, self.action_flexibility, batch.next_action_mask)
        greedy: Tensor = value.masked(likely).greedy_actions
        return greedy

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return the loss of Double DQN plus the imitator's loss, the TD errors, [N], and the statistics."""
        loss, td_error, stats = super().loss(batch)
        imitator_loss, _ = discrete_bc_loss(self.imitator, batch, self.beta, self.batch_accumulator)
        stats = {**stats, "loss": stats["loss"] + imitator_loss.detach(), "imitator_loss": imitator_loss.detach()}
        return loss + imitator_loss, td_error, stats
