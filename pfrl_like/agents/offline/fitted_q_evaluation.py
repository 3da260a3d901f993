"""Fitted Q evaluation: agents that learn critics of a fixed policy (Le et al. 2019, arXiv:1903.08738, Algorithm 3)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.discrete_sac import probabilities, value_of_state
from pfrl_like.batch import Batch
from pfrl_like.distributions import mode_of
from pfrl_like.explorer import Explorer
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import square
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import keywords_for, listed, numbered
from pfrl_like.learning.compatibility.parts import check_explorer, check_takes_state
from pfrl_like.learning.critics import Targets, critic_loss, distribution_of, value_of
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import constructor_only
from pfrl_like.utils.contexts import evaluation_mode


def next_action_of(policy: Any, batch: Batch, deterministic: bool) -> Tensor:
    """Return the policy's actions in the next states, [N, ...]: modes if `deterministic` is True, else samples."""
    distribution = distribution_of(policy, batch, next=True)
    action: Tensor = mode_of(distribution) if deterministic else distribution.sample()
    return action


def expected_next_value(policy: Any, target_critic: Any, batch: Batch) -> DiscreteActionValue:
    """Return E_{a ~ pi}[Q'(s', a)] for the policy pi, as an `ActionValue` with one action per row."""
    probs, _ = probabilities(distribution_of(policy, batch, next=True))
    q = value_of_state(target_critic, batch, next=True).q_values
    return DiscreteActionValue(torch.linalg.vecdot(probs, q).unsqueeze(1))


@constructor_only("q_func1_optimizer")
class FittedQEvaluation(OffPolicyActorCritic):
    """Fitted Q evaluation: critics learn the value of a fixed policy.

    The target of each critic is `reward + discount * Q'(s', pi(s'))`, where Q' is the critic's own target network.
    Therefore the values of the critics differ in states for which there are few data.

    Args:
        policy: Evaluated policy: module from observations to distributions of actions.
        q_funcs: Critics, called as `q_func((obs, action))`. Each returns a tensor [N, 1], or an `ActionValue` with one
            action. The `ActionValue` may be distributional.
        q_func_optimizers: Optimisers of the critics, one per critic.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True. The
            n-step returns contain the rewards of the recorded actions, not of the policy's actions.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy; if None, the agent
            selects the sampled action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations. The policy receives the same features.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to learn the value of the policy's mode, and to select the mode in evaluation. False
            to use sampled actions for both purposes.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True if the policy is recurrent. The critics are then trained on sequences, and may be recurrent as
            well. The replay buffer stores only the policy's recurrent state. Critics start each sequence from their
            initial recurrent state.
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

    #: Names of the statistics that `get_statistics` returns.
    reported = ("average_q1", "average_q_func1_loss", "average_loss", "n_updates")
    #: Names of the statistics that have one value per update.
    averaged_updates = ("loss",)
    _elementwise = staticmethod(square)
    _is_offline = True
    policy_learns = False
    _targets = Targets(of_policy=False)
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("box", "continuous", "DiscreteFittedQEvaluation")
    _discrete_alternative = "DiscreteFittedQEvaluation"

    def __init__(
        self,
        policy: nn.Module,
        q_funcs: Sequence[nn.Module],
        q_func_optimizers: Sequence[torch.optim.Optimizer],
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        *,
        explorer: Explorer | None = None,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        target_update_interval: int = 100,
        phi: Callable[[Any], Any] | None = None,
        target_update_method: str = "hard",
        soft_update_tau: float = 1e-2,
        n_times_update: int = 1,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        act_deterministically: bool = True,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
    ) -> None:
        critics, optimizers = numbered(listed("q_funcs", q_funcs), listed("q_func_optimizers", q_func_optimizers))
        super().__init__(
            policy, critics, optimizers, replay_buffer, gamma, Greedy() if explorer is None else explorer,
            burnin_action_func=None, **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic. A critic bootstraps from its own target network."""
        with torch.no_grad(), evaluation_mode(self.policy):
            action = next_action_of(self.policy, batch, self.act_deterministically)
            next_values = [value_of(critic, batch, action, next=True) for critic in self.target_critics]
        values = [self.value_of(critic, batch) for critic in self.critics]
        return self._losses_from_values(values, batch, next_values)

    def _losses_from_values(
        self, values: Sequence[Any], batch: Batch, next_values: Sequence[Any], **actions: Any
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic, computed from the critics' values and next values."""
        rows = self._rows_of_critics(batch)
        return [
            critic_loss(value, each, next_value, **actions, **self._loss_options)
            for value, each, next_value in zip(values, rows, next_values, strict=True)
        ]

    def set_update_count(self, count: int) -> None:
        """Set the number of updates to `count`, as if the agent had made these updates.

        The target networks are updated when the number of updates is a multiple of `target_update_interval`.
        """
        self.optim_t = count
        self._updates_left = self._updates_per_sync() - count % self._updates_per_sync()


class DiscreteFittedQEvaluation(FittedQEvaluation):
    """Fitted Q evaluation of a policy with discrete actions.

    Args:
        policy: Evaluated policy: module from observations to distributions of actions. The distributions must be
            categorical.
        q_funcs: Critics, called as `q_func(obs)`. Each returns a `DiscreteActionValue` or a distributional subclass of
            it. The target of a critic that is not distributional contains the mean of the next state's values over the
            policy's actions.
        q_func_optimizers: Optimisers of the critics, one per critic.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True. The
            n-step returns contain the rewards of the recorded actions, not of the policy's actions.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy; if None, the agent
            selects the sampled action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations. The policy receives the same features.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to learn the value of the policy's mode, and to select the mode in evaluation. False
            to use sampled actions for both purposes.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True if the policy is recurrent. The critics are then trained on sequences, and may be recurrent as
            well. The replay buffer stores only the policy's recurrent state. Critics start each sequence from their
            initial recurrent state.
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

    value_type: type[Any] = Categorical
    value_of = staticmethod(value_of_state)
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("discrete", "discrete", "FittedQEvaluation")

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check the critics and the explorer.

        Raises:
            TypeError: If a critic takes the action as input, or if the explorer is for continuous actions. The message
                names the argument.
        """
        for name, critic in self._critics_among(modules).items():
            check_takes_state(name, critic)
        check_explorer(self.explorer, "discrete", type(self).__name__)

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic, for the recorded actions."""
        values = [self.value_of(critic, batch) for critic in self.critics]
        next_action = None
        with torch.no_grad(), evaluation_mode(self.policy):
            if self.act_deterministically or any(type(value) is not DiscreteActionValue for value in values):
                next_action = next_action_of(self.policy, batch, self.act_deterministically)
                next_values = [value_of_state(critic, batch, next=True) for critic in self.target_critics]
            else:
                next_values = [expected_next_value(self.policy, critic, batch) for critic in self.target_critics]
        return self._losses_from_values(values, batch, next_values, action=batch.action.long(), next_action=next_action)
