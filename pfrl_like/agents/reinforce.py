"""REINFORCE (Williams 1992, doi:10.1007/BF00992696)."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from pfrl_like.batch import Batch
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.functions.returns import lambda_returns
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_lengths, check_numbers_in
from pfrl_like.learning.minibatches import all_steps, check_all_finite, episode_batches
from pfrl_like.learning.model_outputs import policy_of
from pfrl_like.learning.on_policy import OnPolicyAgent
from pfrl_like.learning.overrides.on_policy import accumulate_gradient, learn_by_sequences, step_along_gradient
from pfrl_like.learning.rollout import Episodes
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def reinforce_loss(model: Any, batch: Batch, *, beta: float = 0.0) -> Tensor:
    """Compute the sum over steps of -(R log pi(a | s) + beta H(pi(. | s))).

    R is the undiscounted return from the step to the end of the episode.

    Args:
        model: Module from observations to a distribution of actions.
        batch: Steps or sequences of whole episodes, with `returns`.
        beta: Weight of the entropy H.

    Returns:
        The scalar loss.
    """
    distribution = policy_of(model, batch)
    gain = batch.required("returns")[0] * distribution.log_prob(batch.action)
    if beta:
        gain = gain + beta * distribution.entropy()
    return weighted_mean(-gain, batch.weight, "sum")


@settings(optimizer=change_optimizer)
class REINFORCE(OnPolicyAgent):
    """REINFORCE agent. It learns from whole episodes with undiscounted returns.

    The return of a truncated episode is unknown. Therefore truncated episodes are discarded unless
    `learn_from_truncated` is True. A warning is logged for the first discarded episode.

    Args:
        model: Module from observations to a distribution of actions.
        optimizer: Optimiser of the model's parameters.
        gpu: CUDA device index. None or a negative index means the CPU.
        beta: Weight of the entropy bonus.
        phi: Feature extractor applied once to each observation, when the agent selects the action.
        batchsize: Number of episodes per update.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        average_entropy_decay: Decay of the running mean of the entropy. The mean is a statistic and does not affect
            training.
        backward_separately: True to backpropagate through one episode at a time, so that only one episode's graph is in
            memory. The gradients are equal up to rounding.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the model on whole episodes. The model must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        logger: Logger for the warning about discarded episodes and for rejected updates (non-finite loss or gradient).
        device: Device as a string or `torch.device`, instead of `gpu`.
        learn_from_truncated: True to learn from truncated episodes as if they were terminated. Use True if the time
            limit is part of the task.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _learns_in_group = False  # the processes would not end their episodes at the same updates
    _saved_numbers = ("average_entropy",)
    value_type = Distribution
    _warned_of_truncation = False

    #: A subclass's method that replaces a method of PFRL may read these attributes; see `accumulate_grad`.
    reward_sequences: list[list[float]] = []
    log_prob_sequences: list[list[Tensor]] = []
    entropy_sequences: list[list[Tensor]] = []
    n_backward: int = 0
    #: Episodes of the subclass's method that is running, for example `batch_update`.
    _override_sequences: Sequence[Batch] = ()

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        gpu: int | None = None,
        beta: float = 0,
        phi: Callable[[Any], Any] | None = lambda x: x,
        batchsize: int = 1,
        act_deterministically: bool = False,
        average_entropy_decay: float = 0.999,
        backward_separately: bool = False,
        batch_states: Callable[..., Any] = default_batch_states,
        recurrent: bool = False,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        *,
        device: torch.device | str | None = None,
        learn_from_truncated: bool = False,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.beta, self.batchsize, self.backward_separately = beta, batchsize, backward_separately
        self.average_entropy_decay, self.average_entropy = average_entropy_decay, 0.0
        self.learn_from_truncated = learn_from_truncated
        check_lengths(self, "batchsize")
        check_numbers_in(self, beta=(0, None), average_entropy_decay=(0, 1))
        super().__init__(
            {"model": model}, {"optimizer": optimizer}, rollout_size=None, windows={}, gamma=1.0,
            **keywords_for(OnPolicyAgent, locals()),
        )  # fmt: skip

    def is_due(self) -> bool:
        """Return True if there are enough episodes to learn from."""
        return self._rollout.n_ended >= self.batchsize

    def _record_acting(self, distribution: Any, value: Any, acting: Any) -> None:
        """Update the running mean with the entropies of the environments that act, in the order of the environments."""
        for each in distribution.entropy()[acting].tolist():
            self._move_average("average_entropy", each)

    def _truncate(self, env_ids: Any, rows: Any) -> None:
        """Discard the truncated episodes, unless `learn_from_truncated` is True. `rows` are their last steps."""
        if len(rows) and not self.learn_from_truncated:
            if not self._warned_of_truncation:
                self._warned_of_truncation = True
                self.logger.warning(
                    "truncated episodes are discarded; set learn_from_truncated=True to learn from them (this warning "
                    "is logged once)"
                )
            self._rollout.forget(rows)

    def update_from_rollout(self) -> None:
        """Make one update from the finished episodes, and discard the episodes."""
        self._learn_once(self._rollout.take(self.gamma, self.device))

    def learn(self, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one gradient step on the sum of `reinforce_loss` over all episodes, divided by `batchsize`."""
        steps = episodes.steps
        zeros = torch.zeros_like(steps.reward)
        returns = lambda_returns(steps.reward, steps.discount, zeros, episodes.continues, 1.0)
        check_all_finite(returns=returns)
        if self._overridden_hooks:
            learn_by_sequences(self, [*episode_batches(episodes)])
            return returns, {}
        episodes = dataclasses.replace(episodes, steps=steps.replace(returns=returns))
        if self.backward_separately:
            parts = (reinforce_loss(self.model, each, beta=self.beta) for each in episode_batches(episodes))
            loss = low_memory_sum(parts, self.gradient_steps["optimizer"].params)
        else:
            loss = reinforce_loss(self.model, all_steps(episodes), beta=self.beta)
        self.gradient_steps["optimizer"](loss / self.batchsize)
        self.n_updates += 1
        return returns, {"loss": loss.detach() / self.batchsize}

    def accumulate_grad(self) -> None:
        """Add the gradient of the loss of the stored sequences to the parameters' gradients, and clear the sequences.

        A subclass may override this method, `batch_update` or `update_with_accumulated_grad`. The agent then calls
        these methods as PFRL does. If `backward_separately` is True, the agent calls `accumulate_grad` for each
        episode, and `update_with_accumulated_grad` at the end. Otherwise it calls `batch_update` once for all episodes,
        and `batch_update` calls `accumulate_grad`.

        The sequences are stored in three attributes. Each attribute is a list with one list per episode.
        `log_prob_sequences` and `entropy_sequences` contain tensors [1] with graph. `reward_sequences` contains floats.
        The first float of each episode is 0, because PFRL's implementation ignores the first reward. `n_backward` is
        the number of calls of `accumulate_grad` since the last gradient step.
        """
        accumulate_gradient(self)

    def batch_update(self) -> None:
        """Make a gradient step on the loss of all episodes; see `accumulate_grad`."""
        self.accumulate_grad()
        step_along_gradient(self)

    def update_with_accumulated_grad(self) -> None:
        """Make an optimiser step with the accumulated gradient; see `accumulate_grad`."""
        step_along_gradient(self)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the running mean of the entropies, 0 before the first step."""
        return [("average_entropy", self.average_entropy)]


def low_memory_sum(losses: Iterable[Tensor], params: Sequence[Tensor]) -> Tensor:
    """Return a scalar that has the same value and the same gradient as the sum of `losses`.

    The graph of each loss is backpropagated and freed before the next loss is computed.

    Args:
        losses: Scalar losses.
        params: Parameters with respect to which the gradient is computed.
    """
    total, gradient = params[0].new_zeros(()), [torch.zeros_like(param) for param in params]
    for loss in losses:
        parts = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
        torch._foreach_add_(gradient, parts)
        total = total + loss.detach()
    linear = sum(((param * part).sum() for param, part in zip(params, gradient, strict=True)), total.new_zeros(()))
    return total + linear - linear.detach()
