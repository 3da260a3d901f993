"""Policy in the Latent Action Space (Zhou et al. 2020, arXiv:2011.07213), with and without a perturbation."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.action_value import soft_min_of
from pfrl_like.agents.offline import imitation
from pfrl_like.agents.offline.bcq import perturb
from pfrl_like.batch import Batch
from pfrl_like.distributions import DeltaVector
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import arguments_for, check_pairs, critics_and_optimizers, keywords_for
from pfrl_like.learning.compatibility.parts import check_numbers_in, check_positive
from pfrl_like.learning.compatibility.spaces import Bounds
from pfrl_like.learning.critics import Targets, mean_value, value_of
from pfrl_like.learning.model_outputs import wrong_value
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import constructor_only
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.copy_param import frozen_copy


class LatentPolicy(nn.Module):
    """Policy that selects a latent vector. The decoder of an imitator converts the vector to an action.

    (arXiv:2011.07213, section 4.2; perturbation: section 4.3.)

    Args:
        policy: Module from observations to numbers in [-1, 1], [N, latent_size].
        imitator: A `ConditionalVAE`.
        bound: The latent vector is the output of `policy` times this number.
        perturbation: Module that perturbs the decoded actions; None for no perturbation.
        scale: Factor of the perturbation.
    """

    def __init__(
        self, policy: Any, imitator: Any, bound: float, perturbation: nn.Module | None = None, scale: float = 0.0
    ) -> None:
        super().__init__()
        self.policy, self.imitator, self.perturbation = policy, imitator, perturbation
        self.bound, self.scale = bound, scale

    def forward(self, obs: Any) -> DeltaVector:
        """Return one action for each observation.

        Raises:
            TypeError: If `policy` does not return a tensor.
            ValueError: If the size of the output of `policy` is not `latent_size` of the imitator.
        """
        latent: Any = fast_forward(self.policy, obs)
        if not isinstance(latent, Tensor):
            raise wrong_value(latent, Tensor, "policy", "one that ends in Tanh")
        size = self.imitator.latent_size
        if latent.shape[1:] != (size,):  # a single number would be broadcast
            shapes = f"{tuple(latent.shape)}, expected ({len(latent)}, {size})"
            raise ValueError(f"policy gives latent vectors of shape {shapes}, the latent_size of the imitator")
        action = fast_forward(self.imitator.decoder, (obs, self.bound * latent))
        if self.perturbation is not None:
            action = perturb(self.perturbation, obs, action, self.scale, "perturbation")
        return DeltaVector(action)


@constructor_only("imitator_optimizer", "latent_bound")
@constructor_only("policy_optimizer", "q_func1_optimizer", "q_func2_optimizer")
class PLAS(OffPolicyActorCritic):
    """Policy in the Latent Action Space: selects latent vectors of a model of the recorded actions.

    The decoder of the model, the imitator, converts latent vectors to actions. Therefore actions resemble the recorded
    actions. The first `rl_start_step` updates train only the imitator. Then the imitator stays as it is, and the
    critics and the policy learn. The policy is deterministic. The agent does not support recurrent networks.

    An update computes the same parameters as an update of d3rlpy 2.8. The decoder of d3rlpy has unbounded outputs. A
    decoder that ends in `Tanh`, as in the paper's code, has outputs in [-1, 1].

    Args:
        policy: Module from observations to numbers in [-1, 1], [N, latent_size], for example one that ends in `Tanh`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func2` is None.
        replay_buffer: Replay buffer that stores the transitions.
        gamma: Discount factor per step.
        imitator: A `ConditionalVAE` of actions. Its decoder usually ends in `Tanh`.
        imitator_optimizer: Optimiser of the imitator.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        latent_bound: Maximum absolute value of the numbers of a latent vector, positive.
        beta: Weight of the KL divergence in the imitator's loss, at least 0.
        rl_start_step: Number of initial updates. They train only the imitator. Later updates train only the critics and
            the policy. The attribute may be changed at any time.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update of the critics.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
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

    _acting_attributes = ("_latent_policy", "_policy_updates")
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
        latent_bound: float = 2.0,
        beta: float = 0.5,
        rl_start_step: float = 500_000,
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
        self.lam, self.latent_bound = lam, latent_bound
        check_numbers_in(self, lam=(0, 1))
        check_positive(self, "latent_bound")
        imitation.store_imitator(self, imitator, imitator_optimizer, beta, rl_start_step)
        critics, optimizers = critics_and_optimizers(locals())
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers}, replay_buffer, gamma, Greedy(),
            act_deterministically=True, target_update_interval=None, target_update_method="soft",
            **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip
        self._latent_policy = self._latent(self.policy)
        self._target_latent_policy = self._latent(self.target_policy)

    def _latent(self, policy: nn.Module, perturbation: nn.Module | None = None, scale: float = 0.0) -> LatentPolicy:
        """Return `policy` followed by the decoder and, if there is one, the perturbation, whose factor is `scale`."""
        return LatentPolicy(policy, self.imitator, self.latent_bound, perturbation, scale)

    def extra_modules(self) -> tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]:
        """Return two dicts keyed by attribute name: the imitator, and its optimiser."""
        return self._imitator_parts

    def learn(self, batch: Batch) -> Update:
        """Update the imitator in the first `rl_start_step` updates, then the critics and the policy."""
        if self.optim_t >= self.rl_start_step:
            return super().learn(batch)
        return self._run_update_step(batch.replace(action=batch.action.float()), False, True)

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True, only_imitation: bool = False) -> Update:
        """Minimise the losses of critics and policy, or the imitator's loss if `only_imitation` is True."""
        if only_imitation:
            return imitation.step_imitator(self, batch, step, None)
        return super().update_step(batch, step, with_policy)

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check the imitator."""
        imitation.check_autoencoder(modules["imitator"])

    def try_parts(self, batch: Batch, distribution: Any) -> None:
        """Raise an error if the losses cannot be computed with the imitator, the policy and the critics."""
        imitation.dry_run_imitator(self, batch)
        super().try_parts(batch, distribution)

    # Acting

    def probe(self, obs: Any) -> Any:
        """Return the action for the features of one observation, as a distribution [1, ...].

        Raise an error if the imitator cannot act.
        """
        imitation.dry_run_decoder(self._latent_policy.imitator, obs)
        return super().probe(obs)

    def _bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """Return the bounds of the actions. They are known if the last layer of the decoder is a Tanh."""
        layers = [None, *self._latent_policy.imitator.decoder.modules()]
        return {"policy": (-1.0, 1.0) if isinstance(layers[-1], nn.Tanh) else None}

    # Learning

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the target policy's actions in the next states, and the rewards, [N].

        The value is lam * min_i Q_i' + (1 - lam) * max_i Q_i', where i runs over the target critics.
        """
        with evaluation_mode(self.imitator):
            action = self._target_latent_policy(batch.next_obs).mode
        values = [value_of(critic, batch, action, next=True) for critic in self.target_critics]
        return soft_min_of(values, self.lam), batch.reward

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise -Q(s, a) of the first critic, where a is the policy's action (arXiv:2011.07213, algorithm 1)."""
        with evaluation_mode(self.imitator):
            action = self._latent_policy(batch.obs).mode
        q = mean_value(value_of(self.critics[0], batch, action))
        loss = weighted_mean(-q, batch.weight, self.batch_accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach()}


@constructor_only("action_flexibility")
class PLASWithPerturbation(PLAS):
    """PLAS with a perturbation of the decoded actions, so that actions may differ from the recorded actions.

    The actions are clipped to [-1, 1].

    Args:
        policy: Module from observations to numbers in [-1, 1], [N, latent_size], for example one that ends in `Tanh`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy. It also has the parameters of `perturbation`.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func2` is None.
        replay_buffer: Replay buffer that stores the transitions.
        gamma: Discount factor per step.
        imitator: A `ConditionalVAE` of actions. Its decoder usually ends in `Tanh`.
        imitator_optimizer: Optimiser of the imitator.
        perturbation: Module from (observation, action) to values in [-1, 1] in the shape of the action, for example a
            module that begins with `ConcatObsAndAction` and ends in `Tanh`.
        action_flexibility: Factor of the perturbation, at least 0.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        latent_bound: Maximum absolute value of the numbers of a latent vector, positive.
        beta: Weight of the KL divergence in the imitator's loss, at least 0.
        rl_start_step: Number of initial updates. They train only the imitator. Later updates train only the critics and
            the policy. The attribute may be changed at any time.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update of the critics.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
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

    _imitator_parts: tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]
    perturbation: nn.Module
    target_perturbation: nn.Module

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
        perturbation: nn.Module,
        action_flexibility: float = 0.05,
        lam: float = 0.75,
        latent_bound: float = 2.0,
        beta: float = 0.5,
        rl_start_step: float = 500_000,
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
        self.action_flexibility = action_flexibility
        check_numbers_in(self, action_flexibility=(0, None))
        self._perturbation = {"perturbation": perturbation}
        super().__init__(**arguments_for(PLAS, locals()))
        check_pairs(self._perturbation, {"policy_optimizer": policy_optimizer})
        self.target_perturbation = frozen_copy(self.perturbation)
        self._target_attributes = (*self._target_attributes, "perturbation")
        self.saved_attributes = (*self.saved_attributes, "target_perturbation")
        self._latent_policy = self._latent(self.policy, self.perturbation, action_flexibility)
        self._target_latent_policy = self._latent(self.target_policy, self.target_perturbation, action_flexibility)

    def extra_modules(self) -> tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]:
        """Return two dicts keyed by attribute name: the imitator and the perturbation, and the imitator's optimiser."""
        modules, optimizers = super().extra_modules()
        return {**modules, **self._perturbation}, optimizers

    def _bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """Return the bounds of the actions: `perturb` clips actions to [-1, 1]."""
        return {"policy": (-1.0, 1.0)}
