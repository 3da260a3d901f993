"""Decision Transformer, for continuous and for discrete actions (Chen et al. 2021, arXiv:2106.01345)."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.agents.offline.bc import bc_loss_of, imitation_step
from pfrl_like.batch import Batch, concatenate_nested, first_leaf, map_nested
from pfrl_like.distributions import masked, mode_of, rows_of
from pfrl_like.errors import ExportError
from pfrl_like.explorers import Greedy
from pfrl_like.functions.returns import linked_lambda_returns
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_positive
from pfrl_like.learning.critics import NO_TARGETS
from pfrl_like.learning.model_outputs import obs_in_errors
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.storage.plain_tensors import from_saved, to_saved
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts, check_numbers, constructor_only
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.recurrent import batch_sizes_of, sequence_of_rows


class ReturnContext:
    """Last steps of the running episodes, stored for each environment.

    Args:
        size: Maximum number of steps stored for each episode.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        """Remove all episodes."""
        # `steps[i]` lists the last steps of environment i. Each step is [return-to-go, observation [1, ...], action].
        self.steps: dict[int, list[list[Any]]] = {}
        self.to_go: dict[int, float] = {}  # current return-to-go of each environment

    def append_obs(self, model: Any, rows: Sequence[int], obs: Any, target: float = 0.0, scale: float = 1.0) -> Any:
        """Append one observation per environment in `rows`, and return the distributions of the next actions.

        `rows` are indices of environments. `obs` contains (nested) tensors [len(rows), ...]. `target` is the
        return-to-go at the first step of an episode. The model receives returns-to-go divided by `scale`.
        """
        for i, row in enumerate(rows):
            to_go = self.to_go.setdefault(row, target)
            steps = self.steps.setdefault(row, [])
            row_obs = map_nested(lambda leaf: leaf[i : i + 1], obs)  # noqa: B023 - called at once
            steps.append([to_go / scale, row_obs, model.no_action()])
            del steps[: -self.size]
        episodes = [self.steps[row] for row in rows]
        longest = max(map(len, episodes))
        # Copies of the last step pad shorter sequences. The model is causal, so padding does not change earlier
        # outputs.
        padded = [[*steps, *[steps[-1]] * (longest - len(steps))] for steps in episodes]
        flat = [step for steps in padded for step in steps]
        returns = torch.tensor([step[0] for step in flat], device=first_leaf(obs).device)

        def to_sequences(leaf: Tensor) -> Tensor:
            return leaf.view(len(rows), longest, *leaf.shape[1:])

        observations = map_nested(to_sequences, concatenate_nested([step[1] for step in flat]))
        action = to_sequences(torch.stack([step[2] for step in flat]))
        distribution = model(to_sequences(returns), observations, action)
        newest = torch.tensor([i * longest + len(steps) - 1 for i, steps in enumerate(episodes)])
        return rows_of(distribution, newest.to(returns.device))

    def set_actions(self, rows: Sequence[int], actions: Tensor) -> None:
        """Store the actions for the last observations of the environments in `rows`."""
        for row, action in zip(rows, actions, strict=True):
            self.steps[row][-1][2] = action

    def add_reward(self, row: int, reward: float, ended: bool) -> None:
        """Subtract the reward from the return-to-go of environment `row`. If `ended` is True, remove the episode."""
        if ended:
            self.steps.pop(row, None)
            self.to_go.pop(row, None)
        elif row in self.to_go:
            self.to_go[row] -= reward

    def state_dict(self) -> dict[str, Any]:
        """Return the running episodes as a dict of numbers and tensors."""
        return {
            "to_go": {str(row): to_go for row, to_go in self.to_go.items()},
            "returns": {str(row): [to_go for to_go, _, _ in steps] for row, steps in self.steps.items()},
            "seen": {str(row): to_saved([step[1:] for step in steps]) for row, steps in self.steps.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device | str) -> None:
        """Restore the result of `state_dict`.

        Raises:
            ValueError: If `state` is not a result of `state_dict`. The stored steps are not changed.
        """
        try:
            to_go = {int(row): float(value) for row, value in state["to_go"].items()}
            steps = {}
            for row in to_go:
                returns, pairs = state["returns"][str(row)], from_saved(state["seen"][str(row)], device)
                steps[row] = [[float(value), *pair] for value, pair in zip(returns, pairs, strict=True)]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"context is {state!r:.100}, which is not a state of ReturnContext: {error}") from error
        self.to_go, self.steps = to_go, steps


def returns_to_go(batch: Batch) -> Tensor:
    """Return the sum of the rewards from each row to the end of the episode, or to the last recorded step, [N].

    Raises:
        ValueError: If the batch has no `continuation`.
    """
    continuation = batch.continuation
    if continuation is None:
        raise ValueError("batch lacks continuation (the later steps): pass continuation=math.inf to sample_sequences")
    if not len(continuation.reward):
        return batch.reward
    ones = torch.ones_like(continuation.reward)
    rest = linked_lambda_returns(continuation.reward, ones, torch.zeros_like(ones), continuation.after, 1.0)
    return batch.reward + torch.where(continuation.first >= 0, rest[continuation.first.clamp(min=0)], 0.0)


def predictions(model: Any, returns: Tensor, batch: Batch) -> Any:
    """Return the model's distribution of the action in each row, batch shape [N].

    Args:
        model: The model.
        returns: Returns-to-go, [N].
        batch: Batch of sequences.

    Raises:
        ValueError: If the batch contains transitions.
    """
    if batch.lengths is None:
        raise ValueError("batch contains transitions (lengths is None), but a DecisionTransformer needs sequences")
    sizes = batch_sizes_of(batch.lengths)
    sequence = sequence_of_rows(batch.lengths).to(returns.device, non_blocking=returns.is_cuda)
    time = torch.arange(len(sizes)).repeat_interleave(sizes).to(returns.device, non_blocking=returns.is_cuda)

    def pad(rows: Tensor) -> Tensor:
        return rows.new_zeros(len(batch.lengths), len(sizes), *rows.shape[1:]).index_put((sequence, time), rows)  # type: ignore[arg-type]

    action = batch.action.long() if model.discrete else batch.action
    distribution = model(pad(returns), map_nested(pad, batch.obs), pad(action))
    return rows_of(distribution, sequence * len(sizes) + time)


@constructor_only("context_size")
class DecisionTransformer(OffPolicyActorCritic):
    """Decision Transformer: predicts the recorded action from the return-to-go, and acts according to a target return.

    The agent learns from sequences of `context_size` steps. A batch must also contain the steps after each sequence.
    `sample_sequences(..., continuation=math.inf)` returns such a batch. Runners sample such batches. When the agent
    acts, the return-to-go is `target_return` at the start of each episode. The agent subtracts each reward from it.

    Args:
        policy: A `ReturnConditionedTransformer`.
        optimizer: Optimiser of the policy.
        replay_buffer: Episodic replay buffer from which the sequences are sampled.
        target_return: Return that the agent aims at in each episode.
        return_scale: The network receives returns-to-go divided by this number, positive.
        context_size: Number of last steps that the network receives; None uses the maximum of the network.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of sequences per update.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: Must be False: the agent does not support recurrent networks.
        episodic_update_len: Must be None: `context_size` is the length of the sequences.
        device: Device as a string or `torch.device`, instead of `gpu`.
        compile: Must be False: compilation is not supported.
        gamma: Must be None: returns are not discounted.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("box", "continuous", "DiscreteDecisionTransformer")
    #: Names of the statistics that have one value per update.
    averaged_updates = ("loss",)
    #: Names of the statistics that `get_statistics` returns.
    reported = ("average_loss", "n_updates")
    _targets = NO_TARGETS
    bootstraps = False
    _is_offline = True
    _may_be_recurrent = False
    learns_from_sequences = True
    sampling = {"continuation": math.inf}  # noqa: RUF012 - as in the base

    policy: Any

    def __init__(
        self,
        policy: nn.Module,
        optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        *,
        target_return: float,
        return_scale: float = 1.0,
        context_size: int | None = None,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        n_times_update: int = 1,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        act_deterministically: bool = True,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        compile: bool = False,
        gamma: None = None,
    ) -> None:
        if gamma is not None:
            raise TypeError(f"gamma is {gamma!r:.80}, but {type(self).__name__} has undiscounted returns: leave it out")
        if compile:
            raise ValueError("compile is True, which DecisionTransformer does not support: leave compile out")
        self.target_return, self.return_scale = target_return, return_scale
        check_numbers(target_return=target_return)
        check_positive(self, "return_scale")
        check_counts(optional=True, context_size=context_size)
        super().__init__(
            policy, {}, {"optimizer": optimizer}, replay_buffer, 1.0, Greedy(), burnin_action_func=None,
            target_update_interval=None, target_update_method="hard", soft_update_tau=1.0, num_steps=1,
            **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip
        longest = self.policy.context_size
        if context_size is not None and context_size > longest:
            raise ValueError(f"context_size is {context_size}, expected at most {longest}, the context_size of policy")
        self.context_size = context_size or longest
        self.episodic_update_len = self.context_size
        self._contexts = self._new_contexts()

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check the network.

        Raises:
            TypeError: If the network is not a `ReturnConditionedTransformer`, or has the other kind of actions.
        """
        policy, kind, other = modules["policy"], self.action_kind[1], self.action_kind[2]
        if not isinstance(policy, ReturnConditionedTransformer):
            actual = type(policy).__name__
            raise TypeError(f"policy is {actual}, expected a pfrl_like.nn.ReturnConditionedTransformer")
        if policy.discrete != (kind == "discrete"):
            raise TypeError(f"policy has discrete={policy.discrete}, but the agent has {kind} actions: use {other}")

    # Acting

    @property
    def acts_from_memory(self) -> bool:
        """Always True: the selected actions depend on the last steps of the episode."""
        return True

    @property
    def _context(self) -> ReturnContext:
        """Last steps of the running episodes; training and evaluation have separate contexts."""
        return self._contexts[self.training]

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Return actions for k observations (features), [k, ...]. Inactive environments use no random numbers."""
        k = first_leaf(obs).shape[0]
        rows = list(range(k)) if active is None else np.flatnonzero(active).tolist()
        actions = self.policy.no_action(k).cpu().numpy()
        if not rows:
            return actions
        context = self._context
        obs = map_nested(lambda leaf: leaf[rows], obs)
        distribution = context.append_obs(self.policy, rows, obs, self.target_return, self.return_scale)
        if action_mask is not None:
            mask = np.asarray(action_mask)
            distribution = masked(distribution, mask[rows] if mask.ndim > 1 and len(mask) == k else mask)
        greedy = self.act_deterministically and not self.training
        selected = mode_of(distribution) if greedy else distribution.sample()
        context.set_actions(rows, selected)
        actions[rows] = selected.cpu().numpy()
        return actions

    def batch_observe(
        self,
        batch_obs: Any,
        batch_reward: Sequence[float],
        batch_done: Sequence[bool],
        batch_reset: Sequence[bool],
        *,
        action_mask: Any = None,
        active: Any = None,
    ) -> None:
        """Subtract the rewards from the returns-to-go, and store the transitions like the base class."""
        context = self._context
        for row, (reward, done, reset) in enumerate(zip(batch_reward, batch_done, batch_reset, strict=True)):
            if active is None or active[row]:
                context.add_reward(row, float(reward), bool(done or reset))
        keywords = {"action_mask": action_mask, "active": active}
        super().batch_observe(batch_obs, batch_reward, batch_done, batch_reset, **keywords)

    def stop_episode(self) -> None:
        """End the running episodes; the next observations start new episodes."""
        super().stop_episode()
        self._context.clear()

    def acting_copy(self) -> Self:
        """Return a copy on the CPU that selects actions and cannot learn. It does not contain the running episodes."""
        acting: Self = super().acting_copy()
        acting._contexts = self._new_contexts()
        return acting

    def _new_contexts(self) -> dict[bool, ReturnContext]:
        """Return empty contexts, keyed by the value of `training`: False in evaluation, True in training."""
        return {training: ReturnContext(self.context_size) for training in (False, True)}

    def probe(self, obs: Any) -> Any:
        """Return the network's action distribution for the features of one observation, [1, ...]."""
        with obs_in_errors("policy", obs), torch.no_grad(), evaluation_mode(self.policy):
            return ReturnContext(1).append_obs(self.policy, [0], obs)

    def export(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: an exported policy does not receive the earlier steps and rewards that determine an action.

        Raises:
            ExportError: Always.
        """
        raise ExportError("actions depend on several steps, so the agent cannot be exported: export agent.policy")

    # Saving

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the base class, and the context of the running training episodes."""
        return {**super().saved_state(), "context": self._contexts[True].state_dict()}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `saved_state`. The context of evaluation episodes is cleared."""
        contexts = self._contexts
        if "context" in state:
            contexts = self._new_contexts()
            contexts[True].load_state_dict(state["context"], self.device)
        super().restore_state({name: value for name, value in state.items() if name != "context"})
        self._contexts = contexts

    # Learning

    update_step = imitation_step

    def imitation_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the imitation loss, and the imitation error of each row, [N].

        For each row, the network receives the return-to-go and the earlier rows of the sequence.
        """
        distribution = predictions(self.policy, returns_to_go(batch) / self.return_scale, batch)
        if batch.action_mask is not None:
            distribution = masked(distribution, batch.action_mask)
        return bc_loss_of(distribution, batch, self.batch_accumulator)


class DiscreteDecisionTransformer(DecisionTransformer):
    """Decision Transformer for discrete actions. Masked actions have probability 0.

    Args:
        policy: A `ReturnConditionedTransformer`. It must have `discrete=True` and a head that returns categorical
            distributions, for example a `SoftmaxCategoricalHead`.
        optimizer: Optimiser of the policy.
        replay_buffer: Episodic replay buffer from which the sequences are sampled.
        target_return: Return that the agent aims at in each episode.
        return_scale: The network receives returns-to-go divided by this number, positive.
        context_size: Number of last steps that the network receives; None uses the maximum of the network.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of sequences per update.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: Must be False: the agent does not support recurrent networks.
        episodic_update_len: Must be None: `context_size` is the length of the sequences.
        device: Device as a string or `torch.device`, instead of `gpu`.
        compile: Must be False: compilation is not supported.
        gamma: Must be None: returns are not discounted.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("discrete", "discrete", "DecisionTransformer")
