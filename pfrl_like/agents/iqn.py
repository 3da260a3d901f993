"""Implicit Quantile Networks (Dabney et al. 2018, arXiv:1806.06923)."""

import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import ImplicitQuantileActionValue
from pfrl_like.agents.dqn import DQN, action_values
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import quantile_huber_of_pairs, td_target, weighted_mean
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch, to_batch
from pfrl_like.q_functions.quantile_q_functions import CosineBasisLinear as CosineBasisLinear
from pfrl_like.q_functions.quantile_q_functions import ImplicitQuantileQFunction as ImplicitQuantileQFunction
from pfrl_like.q_functions.quantile_q_functions import (
    RecurrentImplicitQuantileQFunction as RecurrentImplicitQuantileQFunction,
)
from pfrl_like.q_functions.quantile_q_functions import cosine_basis_functions as cosine_basis_functions
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.old_names import old_names


class IQN(DQN):
    """DQN for Q-functions that return an `ImplicitQuantileActionValue`.

    The loss is the method `td_loss` of that class.

    Args:
        q_function: Module from observations to an `ActionValue`. It must be or contain an `ImplicitQuantileQFunction`;
            the `quantile_thresholds_*` arguments set its numbers of fractions.
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
            error. The argument has no effect in this class, because its Q-function is distributional.
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
        quantile_thresholds_N: Number of fractions sampled for the predicted quantiles. None keeps the number of the
            Q-function, 64 by default.
        quantile_thresholds_N_prime: Number of fractions sampled for the quantiles of the next state. None keeps the
            number of the Q-function, 64 by default.
        quantile_thresholds_K: Number of fractions sampled to select the greedy action. None keeps the number of the
            Q-function, 32 by default.
        act_deterministically: True to use K evenly spaced fractions, (i + 0.5) / K, in evaluation, False to sample K
            fractions.

    Raises:
        ValueError: If a `quantile_thresholds_*` argument is below 1, or if another argument is outside its documented
            range. The message contains the value.
        TypeError: If a `quantile_thresholds_*` argument is given for a Q-function that samples no fractions, if the
            Q-function returns another type of action value (raised at the first observation or update), if an argument
            has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    value_type = ImplicitQuantileActionValue
    #: Numbers of fractions, as PFRL names them.
    quantile_thresholds_N = property(attrgetter("_thresholds.N"))
    quantile_thresholds_N_prime = property(attrgetter("_thresholds.N_prime"))
    quantile_thresholds_K = property(attrgetter("_thresholds.K"))

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
        quantile_thresholds_N: int | None = None,
        quantile_thresholds_N_prime: int | None = None,
        quantile_thresholds_K: int | None = None,
        act_deterministically: bool = False,
    ) -> None:
        super().__init__(**arguments_for(DQN, locals()))
        self.act_deterministically = act_deterministically
        counts = {"N": quantile_thresholds_N, "N_prime": quantile_thresholds_N_prime, "K": quantile_thresholds_K}
        n_fractions = {name: count for name, count in counts.items() if count is not None}
        parts = [*self.model.modules(), *self.target_model.modules()]
        sampling = [part for part in parts if isinstance(part, ImplicitQuantileQFunction)]
        if n_fractions and not sampling:
            raise TypeError(
                f"quantile_thresholds_{next(iter(n_fractions))} is given, but q_function is "
                f"{type(self.model).__name__}, which contains no ImplicitQuantileQFunction: leave the argument out"
            )
        for part in sampling:
            part.set_thresholds(**n_fractions)

    @property
    def _thresholds(self) -> Any:
        parts = [*self.model.modules()]
        return next(part.thresholds for part in parts if isinstance(part, ImplicitQuantileQFunction))

    def _value(self, obs: Any, active: Any = None) -> Any:
        value = super()._value(obs, active)
        return value.at_even_fractions() if self.act_deterministically and not self.training else value

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Compute the loss of `DQN.loss`, or that of quantiles and targets whose methods a subclass overrides."""
        methods = {"_compute_y_and_taus", "_compute_target_values"} & self._overridden_hooks
        if not methods or ("_compute_loss" in self._overridden_hooks and self._override_batch is None):
            return super().loss(batch)
        columns = ColumnsOfBatch(batch, self.gamma)
        y, taus = self._compute_y_and_taus(columns)
        with torch.no_grad():
            t = self._compute_target_values(columns)
        losses = quantile_huber_of_pairs(y, t, taus).mean(2).sum(1)
        loss, q = weighted_mean(losses, batch.weight, self.batch_accumulator), y.detach().mean(1)
        return loss, (t.mean(1) - q).abs(), {"loss": loss.detach(), "q": q}

    def _compute_y_and_taus(self, exp_batch: Any) -> tuple[Tensor, Tensor]:
        """Return the predicted quantiles of the actions, [B, N], and their fractions, [B, N].

        Args:
            exp_batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.
        """
        batch = to_batch(exp_batch)
        value = action_values(self.model, batch)
        taus = value.draw(value.thresholds.N)
        return value(taus).evaluate_actions_as_quantiles(batch.action), taus

    def _compute_target_values(self, exp_batch: Any) -> Tensor:
        """Return the quantiles of the targets, [B, N'].

        Args:
            exp_batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.
        """
        batch = to_batch(exp_batch)
        value = action_values(self.target_model, batch, next=True)
        action = value.greedy_actions if self.next_action is None else self.next_action(self.model, batch)
        quantiles = value(value.draw(value.thresholds.N_prime)).evaluate_actions_as_quantiles(action)
        return td_target(batch.reward[:, None], batch.discount[:, None], quantiles)


# PFRL's functions, for code that was written for PFRL


def compute_eltwise_huber_quantile_loss(y: Tensor, t: Tensor, taus: Tensor) -> Tensor:
    """Compute the quantile Huber losses of all pairs, [B, N, N'], with `quantile_huber_of_pairs`.

    Args:
        y: Predicted quantiles, [B, N].
        t: Quantiles of the target, [B, N'].
        taus: Fractions of the predicted quantiles, [B, N].
    """
    return quantile_huber_of_pairs(y, t, taus)


def compute_value_loss(eltwise_loss: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """Average losses [B, N, N'] over N', sum over N, then take the "mean" or "sum" over the minibatch.

    Raises:
        ValueError: If `batch_accumulator` is not "mean" or "sum".
    """
    return weighted_mean(eltwise_loss.mean(2).sum(1), None, batch_accumulator)


def compute_weighted_value_loss(eltwise_loss: Tensor, weights: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """Compute the loss of `compute_value_loss`, with each row multiplied by its importance weight (`weights`, [B]).

    Raises:
        ValueError: If `batch_accumulator` is not "mean" or "sum".
    """
    return weighted_mean(eltwise_loss.mean(2).sum(1), weights, batch_accumulator)


__getattr__ = old_names(__name__)
