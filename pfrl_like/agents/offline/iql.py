"""Implicit Q-Learning, for continuous and for discrete actions (Kostrikov et al. 2021, arXiv:2110.06169)."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.agents import dqn
from pfrl_like.agents.discrete_sac import probabilities, value_of_state
from pfrl_like.agents.offline.advantage_weighted import advantage_weighted_loss
from pfrl_like.batch import Batch
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import expectile, exponential_weight, square, td_target, weighted_mean
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import check_pairs, critics_and_optimizers, keywords_for
from pfrl_like.learning.compatibility.dry_run import dry_run_output
from pfrl_like.learning.compatibility.parts import check_positive, check_takes_state
from pfrl_like.learning.critics import Targets, minimum, with_initial_states
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import constructor_only
from pfrl_like.utils.contexts import evaluation_mode


def state_value_of(v_func: Any, batch: Batch, *, next: bool = False) -> Tensor:
    """Return V(s), or V(s') if `next` is True, [N].

    A recurrent `v_func` starts each sequence from its initial recurrent state.

    Action masks are ignored, because V does not depend on actions.

    Raises:
        ValueError: If `v_func` does not return one value for each row.
    """
    batch = batch.replace(action_mask=None, next_action_mask=None)
    value = dqn.action_values(v_func, with_initial_states(v_func, batch, next=next), next=next)
    n = len(batch)
    if not isinstance(value, Tensor) or value.shape not in {(n, 1), (n,)}:
        actual = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"v_func returns {actual} for {n} rows, expected a tensor of shape ({n}, 1)")
    return value.reshape(-1)


def iql_value_loss(
    v_func: Any, q: Tensor, batch: Batch, tau: float, accumulator: str = "mean"
) -> tuple[Tensor, Tensor]:
    """Return the expectile loss between V(s) and Q(s, a) of the recorded actions (arXiv:2110.06169, eq. 5).

    Args:
        v_func: The value function. The gradient of the loss flows into its parameters.
        q: Q(s, a), [N].
        batch: Transitions or sequences.
        tau: V learns this expectile of the action values, between 0 and 1.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and the detached V(s), [N].
    """
    value = state_value_of(v_func, batch)
    return weighted_mean(expectile(q - value, tau), batch.weight, accumulator), value.detach()


def iql_critic_loss(
    value: Any,
    batch: Batch,
    next_value: Tensor,
    *,
    action: Tensor | None = None,
    elementwise: Callable[[Tensor], Tensor] = square,
    accumulator: str = "mean",
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of a critic whose target is reward + discount * V(s') (arXiv:2110.06169, eq. 6).

    V(s') is a number, not a distribution. Therefore the loss of a distributional critic uses only its mean value.

    Args:
        value: `ActionValue` of the states. It contains the values of several actions, or only of the recorded action.
        batch: Transitions or sequences.
        next_value: V(s'), [N]. No gradient flows into V.
        action: Index of the recorded action, [N]. If None, `value` contains only this action.
        elementwise: Function that returns the loss of each TD error.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), the detached TD errors, [N], and the detached Q(s, a), [N].
    """
    target = td_target(batch.reward, batch.discount, next_value)
    action = torch.zeros_like(batch.reward, dtype=torch.int64) if action is None else action
    loss, td_error, mean = value.target_loss(action, target, elementwise)
    return weighted_mean(loss, batch.weight, accumulator), td_error, mean


@constructor_only("v_func_optimizer")
@constructor_only("policy_optimizer", "q_func1_optimizer", "q_func2_optimizer")
class IQL(OffPolicyActorCritic):
    """Implicit Q-Learning: the critics evaluate only recorded actions.

    A value function learns an upper expectile of the critics' values of recorded actions. The critics bootstrap from
    the value function. The policy imitates recorded actions with the weights min(exp(beta * (Q - V)), max_weight).

    The losses of critics and value function equal the losses of d3rlpy 2.8. d3rlpy reports the sum of both losses as
    `critic_loss`. If `v_func_optimizer` is given, the weights min(exp(beta * (Q - V)), max_weight) use V before its
    update. If it is None, critics and V are updated in one step, and the weights use V after this step, as in d3rlpy.

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
        further_q_funcs: Additional critics. The target uses the minimum over all critics. This is the target of the
            value function, from which the critics bootstrap.
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
        v_func: Value function: module from observations to values [N, 1].
        v_func_optimizer: Optimiser of the value function. None if `q_func1_optimizer` also has the parameters of
            `v_func`: both losses are then added, and the policy's weights use V after this step.
        expectile: Expectile that the value function learns, between 0 and 1. 0.5 gives the mean over recorded actions;
            0.9 is close to the value of the best recorded action.
        beta: Inverse temperature of the weights, positive. A larger value gives the advantage more influence.
        max_weight: Maximum weight, positive.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Names of the statistics that have one value per row.
    averaged_rows = ("v", "weight")
    #: Names of the statistics that have one value per update.
    averaged_updates = ("policy_loss", "v_func_loss")
    #: Names of the statistics that `get_statistics` returns.
    reported = (
        *STATISTICS_OF_CRITICS, "average_policy_loss", "average_weight", "n_updates", "average_v",
        "average_v_func_loss",
    )  # fmt: skip
    _targets = Targets(of_policy=False, schedule="every update")
    _needs_densities = True
    _elementwise = staticmethod(square)
    _is_offline = True

    v_func: Any
    _value_parts: tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]

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
        v_func: nn.Module,
        v_func_optimizer: torch.optim.Optimizer | None,
        expectile: float = 0.7,
        beta: float = 3.0,
        max_weight: float = 100.0,
    ) -> None:
        self.expectile, self.beta, self.max_weight = expectile, beta, max_weight
        check_positive(self, "expectile", "beta", "max_weight")
        if expectile >= 1:
            raise ValueError(f"expectile is {expectile!r}, expected a number between 0 and 1")
        if v_func_optimizer is None:
            self.v_func_optimizer = None
            check_pairs({"v_func": v_func}, {"q_func1_optimizer": q_func1_optimizer})
        own = {} if v_func_optimizer is None else {"v_func_optimizer": v_func_optimizer}
        self._value_parts = {"v_func": v_func}, own
        critics, optimizers = critics_and_optimizers(locals())
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers}, replay_buffer, gamma, Greedy(),
            target_update_interval=None, target_update_method="soft", **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    def extra_modules(self) -> tuple[Mapping[str, nn.Module], Mapping[str, torch.optim.Optimizer]]:
        """Return two dicts keyed by attribute name: the value function, and its optimiser."""
        return self._value_parts

    def try_parts(self, batch: Batch, distribution: Any) -> None:
        """Raise an error if the losses cannot be computed with the value function, the policy and the critics."""
        dry_run_output("v_func", self.v_func, batch, Tensor, "a network that ends in Linear(n, 1)")
        super().try_parts(batch, distribution)

    def _index(self, batch: Batch) -> Tensor:
        """Return the index of the recorded action in the output of `value_of`, which contains only this action, [N]."""
        return torch.zeros_like(batch.reward, dtype=torch.int64)

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True) -> Update:
        """Minimise the losses of critics, policy and value function. All losses use V before the update.

        If one optimiser has the critics and the value function, their losses are added. The policy's weights then use V
        after this step.
        """
        with torch.no_grad():
            index = self._index(batch)
            q = minimum([self.value_of(critic, batch).evaluate_actions(index) for critic in self.target_critics])
        loss, v = iql_value_loss(self.v_func, q, batch, self.expectile, self.batch_accumulator)
        shared = self.v_func_optimizer is None

        def step_with_value(name: str, other: Tensor) -> None:
            step(name, other + loss if shared and name == "q_func1_optimizer" else other)

        weighted = batch.replace(value=q, advantage=q - v)
        td_error, stats = super().update_step(weighted, step_with_value, with_policy)
        if not shared:
            step("v_func_optimizer", loss)
        return td_error, {**stats, "v_func_loss": loss.detach(), "v": v}

    def critic_losses(self, batch: Batch) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Yield one result of `iql_critic_loss` per critic."""
        with torch.no_grad(), evaluation_mode(self.v_func):
            next_value = state_value_of(self.v_func, batch, next=True)
        options = {"action": self._index(batch), **self._loss_options}
        for critic, rows in zip(self.critics, self._rows_of_critics(batch), strict=True):
            yield iql_critic_loss(self.value_of(critic, batch), rows, next_value, **options)

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise `advantage_weighted_loss` (arXiv:2110.06169, eq. 7) and return statistics."""
        weight = self._weight(batch)
        loss = advantage_weighted_loss(self.policy, batch, weight, self.batch_accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach(), "weight": weight}

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight min(exp(beta * A), max_weight) of each recorded action, [N]; `update_step` computes A."""
        (advantage,) = batch.required("advantage")
        if self.v_func_optimizer is None:  # V has changed since `update_step` computed A
            with torch.no_grad(), evaluation_mode(self.v_func):
                advantage = batch.required("value")[0] - state_value_of(self.v_func, batch)
        return exponential_weight(advantage, 1 / self.beta, self.max_weight)


class DiscreteIQL(IQL):
    """Implicit Q-Learning for discrete actions. Masked actions have probability 0.

    The losses are the losses of `IQL`. The critics return the values of all actions in a state. The losses use only the
    values of the recorded actions.

    Args:
        policy: Module from observations to categorical distributions, for example one that ends in a
            `SoftmaxCategoricalHead`.
        q_func1: First critic, called as `q_func1(obs)`; it returns a `DiscreteActionValue` or a distributional subclass
            of it.
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
        further_q_funcs: Additional critics. The target uses the minimum over all critics. This is the target of the
            value function, from which the critics bootstrap.
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
        v_func: Value function: module from observations to values [N, 1].
        v_func_optimizer: Optimiser of the value function. None if `q_func1_optimizer` also has the parameters of
            `v_func`: both losses are then added, and the policy's weights use V after this step.
        expectile: Expectile that the value function learns, between 0 and 1. 0.5 gives the mean over recorded actions;
            0.9 is close to the value of the best recorded action.
        beta: Inverse temperature of the weights, positive. A larger value gives the advantage more influence.
        max_weight: Maximum weight, positive.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    value_type: type[Any] = Categorical
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("discrete", "discrete", "IQL")
    value_of = staticmethod(value_of_state)
    _densities_of = staticmethod(probabilities)

    def _index(self, batch: Batch) -> Tensor:
        """Return the index of the recorded action, [N]."""
        index: Tensor = batch.action.long()
        return index

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check that the critics do not take the action as input.

        Raises:
            TypeError: If a critic takes the action as input. The message names the argument.
        """
        for name, critic in self._critics_among(modules).items():
            check_takes_state(name, critic)
