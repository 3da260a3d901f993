"""Advantage-Weighted Regression, for continuous and for discrete actions (Peng et al. 2019, arXiv:1910.00177)."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.agents.discrete_sac import probabilities
from pfrl_like.agents.offline.advantage_weighted import advantage_weighted_loss
from pfrl_like.agents.offline.future_returns import check_continuation, future_returns
from pfrl_like.agents.offline.iql import state_value_of
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.errors import NonFiniteError
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import exponential_weight, square, weighted_mean
from pfrl_like.functions.returns import linked_lambda_returns, rows_after
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.dry_run import dry_run_output
from pfrl_like.learning.compatibility.parts import check_distribution, check_numbers_in, check_positive
from pfrl_like.learning.critics import NO_TARGETS
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts, constructor_only
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.recurrent import map_recurrent_state, sequence_of_rows


@torch.no_grad()
def td_lambda_returns(v_func: Any, batch: Batch, lambd: float) -> Tensor:
    """Return the TD(lambda) return R of each row, [N].

    In a batch of transitions, the returns include the rewards in `batch.continuation`, the recorded steps after each
    transition. In a batch of sequences, the returns include the rewards up to the end of the sequence.
    (arXiv:1910.00177, Algorithm 1; Sutton and Barto 2018, eq. 12.18.)

    Args:
        v_func: The value function.
        batch: Transitions with `continuation`, or sequences.
        lambd: lambda, in [0, 1]. If 0, the return bootstraps after one step. If 1, the return bootstraps only after the
            last step. It does not bootstrap from a terminal state.

    Raises:
        ValueError: If a batch of transitions has no `continuation`, or if `v_func` does not return one value for each
            state.
    """
    if batch.lengths is None:
        return future_returns(batch, lambda obs: state_value_of(v_func, batch_of_states(obs)), lambd)
    next_value = state_value_of(v_func, batch, next=True)
    after = rows_after(batch.lengths).to(batch.reward.device)
    return linked_lambda_returns(batch.reward, batch.discount, next_value, after, lambd)


def awr_value_loss(v_func: Any, batch: Batch, accumulator: str = "mean") -> tuple[Tensor, Tensor, Tensor]:
    """Return the squared error (R - V(s))**2 of the value function (arXiv:1910.00177, Algorithm 1, line 6).

    Args:
        v_func: The value function. The gradient of the loss flows into its parameters.
        batch: Transitions or sequences, with the column `returns` (R).
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), the detached errors R - V(s), [N], and the detached V(s),
        [N].
    """
    (returns,) = batch.required("returns")
    value = state_value_of(v_func, batch)
    error = returns - value
    return weighted_mean(square(error), batch.weight, accumulator), error.detach(), value.detach()


@constructor_only("policy_optimizer", "v_func_optimizer")
class AWR(OffPolicyActorCritic):
    """Advantage-Weighted Regression: the policy imitates recorded actions with weights that depend on the advantage.

    An update is one iteration of the algorithm. The agent computes the TD(lambda) returns R of a minibatch. It then
    makes `n_critic_updates` gradient steps on the value function and `n_actor_updates` gradient steps on the policy.
    Each gradient step uses randomly selected rows of the minibatch. The value function is trained on the returns. An
    action has the weight min(exp(A / beta), max_weight), where A = R - V(s) is the advantage.

    A batch of transitions that is passed to `update` must contain the steps after each transition. `sample_batch(...,
    continuation=math.inf)` returns such a batch. Runners and the agent itself sample such batches.

    Args:
        policy: Module from observations to distributions of actions with the method `log_prob`, for example one that
            ends in a `GaussianHeadWithStateIndependentCovariance`.
        v_func: Value function: module from observations to values [N, 1].
        policy_optimizer: Optimiser of the policy; the paper uses SGD with a momentum of 0.9.
        v_func_optimizer: Optimiser of the value function; the paper uses SGD with a momentum of 0.9.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        lam: lambda of the TD(lambda) returns, in [0, 1].
        beta: Temperature of the weights, positive. A smaller temperature gives the advantage more influence.
        max_weight: Maximum weight, positive.
        standardize_advantages: True to standardise the advantages of a minibatch to mean 0 and standard deviation 1, as
            in the authors' code. `beta` then does not depend on the scale of the rewards.
        n_critic_updates: Number of gradient steps on the value function per update.
        n_actor_updates: Number of gradient steps on the policy per update.
        batch_size_per_update: Number of transitions of the minibatch that a gradient step uses; number of sequences if
            `recurrent` is True.
        horizon: Number of later steps that a return includes before it bootstraps. A return includes more steps if its
            steps overlap with the steps of another row of the minibatch. None includes all steps to the end of the
            episode. Must be None if `recurrent` is True, because `episodic_update_len` then limits the returns.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; the value function may be recurrent as well. The
            replay buffer stores only the policy's recurrent state. The value function starts each sequence from its
            initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("box", "continuous", "DiscreteAWR")
    #: Names of the statistics that have one value per row.
    averaged_rows = ("v", "weight")
    #: Names of the statistics that have one value per update.
    averaged_updates = ("policy_loss",)
    #: Names of the statistics that `get_statistics` returns.
    reported = ("average_v", "average_v_func_loss", "average_policy_loss", "average_weight", "n_updates")
    value_of = staticmethod(state_value_of)
    _is_offline = True
    _targets = NO_TARGETS
    _needs_densities = True

    v_func: Any

    def __init__(
        self,
        policy: nn.Module,
        v_func: nn.Module,
        policy_optimizer: torch.optim.Optimizer,
        v_func_optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        *,
        lam: float = 0.95,
        beta: float = 1.0,
        max_weight: float = 20.0,
        standardize_advantages: bool = True,
        n_critic_updates: int = 200,
        n_actor_updates: int = 1000,
        batch_size_per_update: int = 256,
        horizon: int | None = None,
        gpu: int | None = None,
        replay_start_size: int = 2048,
        minibatch_size: int = 2048,
        update_interval: int = 2048,
        phi: Callable[[Any], Any] | None = None,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        act_deterministically: bool = True,
        n_times_update: int = 1,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        compile: bool = False,
    ) -> None:
        self.lam, self.beta, self.max_weight = lam, beta, max_weight
        self.standardize_advantages = standardize_advantages
        self.n_critic_updates, self.n_actor_updates = n_critic_updates, n_actor_updates
        self.batch_size_per_update = batch_size_per_update
        check_numbers_in(self, lam=(0, 1))
        check_positive(self, "beta", "max_weight")
        check_counts(n_critic_updates=n_critic_updates, n_actor_updates=n_actor_updates)
        check_counts(batch_size_per_update=batch_size_per_update)
        check_counts(optional=True, horizon=horizon)
        if recurrent and horizon is not None:
            raise ValueError(f"horizon is {horizon}, expected None with recurrent=True: use episodic_update_len")
        self.horizon = horizon
        self.sampling = {} if recurrent else {"continuation": math.inf if horizon is None else horizon}
        super().__init__(
            policy, {"v_func": v_func}, {"policy_optimizer": policy_optimizer, "v_func_optimizer": v_func_optimizer},
            replay_buffer, gamma, Greedy(), target_update_interval=None, target_update_method="hard",
            soft_update_tau=1.0, num_steps=1, **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    def try_parts(self, batch: Batch, distribution: Any) -> None:
        """Raise an error if the policy has no `log_prob`, or if the output of the value function is not a tensor."""
        if self.action_kind[0] != "discrete":
            check_distribution("policy", distribution, densities=True, reparametrised=True, instead="DiscreteAWR")
        dry_run_output("v_func", self.v_func, batch, Tensor, "a network that ends in Linear(n, 1)")

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check that the replay buffer can return the steps after a transition."""
        if self.sampling:
            check_continuation(self.replay_buffer)

    # Learning

    def learn(self, batch: Batch) -> Update:
        """Compute the returns, then make the gradient steps on the value function and on the policy.

        Raises:
            NonFiniteError: If a return or a state value is NaN or infinite, or in the cases that `update` documents.
        """
        with evaluation_mode(self.v_func):
            returns = td_lambda_returns(self.v_func, batch, self.lam)
            error = self._advantage(batch, returns)
        # Check all rows before the first step: the random rows of a step may not include a non-finite row. The check
        # waits for the GPU.
        if not torch.isfinite(error).all():
            raise NonFiniteError("returns", "returns or state values are not finite; no gradient step was made")
        steps = batch.replace(
            action=batch.action.float() if batch.action.dtype == torch.float64 else batch.action,
            returns=returns, next_obs=None, next_action_mask=None, continuation=None, index=None, extra=None,
        )  # fmt: skip
        value_stats = [self._run_update_step(self._random_part(steps), False)[1] for _ in range(self.n_critic_updates)]
        with evaluation_mode(self.v_func):
            advantage = self._advantage(steps, returns)
        if self.standardize_advantages:
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-5)
        steps = steps.replace(advantage=advantage)
        policy_stats = [self._run_update_step(self._random_part(steps), True)[1] for _ in range(self.n_actor_updates)]
        self._policy_updates.count += 1
        stats = {"loss": value_stats[0]["v_func_loss"], "v": returns - error, "weight": self._weight(steps)}
        stats["v_func_loss"] = torch.stack([each["v_func_loss"] for each in value_stats]).mean()
        stats["policy_loss"] = torch.stack([each["policy_loss"] for each in policy_stats]).mean()
        return error, stats

    @torch.no_grad()
    def _advantage(self, batch: Batch, returns: Tensor) -> Tensor:
        """Return the advantage R - V(s) of each row, [N]."""
        return returns - state_value_of(self.v_func, batch)

    def _random_part(self, batch: Batch) -> Batch:
        """Return `batch_size_per_update` transitions or sequences of a minibatch, selected with torch's generator."""
        n = len(batch) if batch.lengths is None else len(batch.lengths)
        if n <= self.batch_size_per_update:
            return batch
        device = self.device if batch.lengths is None else None  # sequences are selected on the CPU
        indices = torch.randperm(n, device=device)[: self.batch_size_per_update]
        return batch[indices] if batch.lengths is None else select_sequences(batch, indices)

    def update_step(self, batch: Batch, step: Step, with_policy: bool = True) -> Update:
        """Minimise the policy's loss if `with_policy` is True, otherwise the value function's loss."""
        if with_policy:
            return batch.reward, self.policy_step(batch, step)
        ((loss, error, _),) = self._step_critics(self.critic_losses(batch), step)
        return error, {"v_func_loss": loss.detach()}

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return the result of `awr_value_loss`, in a list with one item."""
        return [awr_value_loss(self.v_func, batch, self.batch_accumulator)]

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise `advantage_weighted_loss` and return statistics."""
        loss = advantage_weighted_loss(self.policy, batch, self._weight(batch), self.batch_accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach()}

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight min(exp(A / beta), max_weight) of each recorded action, [N]."""
        (advantage,) = batch.required("advantage")
        return exponential_weight(advantage, self.beta, self.max_weight)


class DiscreteAWR(AWR):
    """Advantage-Weighted Regression for discrete actions. Masked actions have probability 0.

    Args:
        policy: Module from observations to categorical distributions, for example one that ends in a
            `SoftmaxCategoricalHead`.
        v_func: Value function: module from observations to values [N, 1].
        policy_optimizer: Optimiser of the policy; the paper uses SGD with a momentum of 0.9.
        v_func_optimizer: Optimiser of the value function; the paper uses SGD with a momentum of 0.9.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        lam: lambda of the TD(lambda) returns, in [0, 1].
        beta: Temperature of the weights, positive. A smaller temperature gives the advantage more influence.
        max_weight: Maximum weight, positive.
        standardize_advantages: True to standardise the advantages of a minibatch to mean 0 and standard deviation 1, as
            in the authors' code. `beta` then does not depend on the scale of the rewards.
        n_critic_updates: Number of gradient steps on the value function per update.
        n_actor_updates: Number of gradient steps on the policy per update.
        batch_size_per_update: Number of transitions of the minibatch that a gradient step uses; number of sequences if
            `recurrent` is True.
        horizon: Number of later steps that a return includes before it bootstraps. A return includes more steps if its
            steps overlap with the steps of another row of the minibatch. None includes all steps to the end of the
            episode. Must be None if `recurrent` is True, because `episodic_update_len` then limits the returns.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; the value function may be recurrent as well. The
            replay buffer stores only the policy's recurrent state. The value function starts each sequence from its
            initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    value_type: type[Any] = Categorical
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("discrete", "discrete", "AWR")
    _densities_of = staticmethod(probabilities)


def select_sequences(batch: Batch, indices: Tensor) -> Batch:
    """Return the selected sequences of a batch of sequences, in the order of the batch.

    Args:
        batch: Batch of sequences.
        indices: Indices of the selected sequences, on the CPU.
    """
    assert batch.lengths is not None
    is_selected = torch.zeros(len(batch.lengths), dtype=torch.bool)
    is_selected[indices] = True
    rows = is_selected[sequence_of_rows(batch.lengths)].nonzero().squeeze(1).to(batch.reward.device)
    sequences = is_selected.nonzero().squeeze(1).to(batch.reward.device)
    states = {
        name: map_recurrent_state(lambda state: state[:, sequences], getattr(batch, name))
        for name in ("recurrent_state", "next_recurrent_state")
    }
    flat = batch.replace(lengths=None, recurrent_state=None, next_recurrent_state=None, index=None)
    return flat[rows].replace(lengths=batch.lengths[is_selected], **states)
