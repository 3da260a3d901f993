"""Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agent import AsyncAgent
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import actor_critic_loss, weighted_mean
from pfrl_like.functions.returns import lambda_returns
from pfrl_like.learning.async_actor_critic import AsyncActorCritic
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.model_outputs import policy_and_value
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def a3c_loss(
    log_prob: Tensor,
    entropy: Tensor,
    value: Tensor,
    returns: Tensor,
    *,
    beta: float = 1e-2,
    pi_loss_coef: float = 1.0,
    v_loss_coef: float = 0.5,
    weight: Tensor | None = None,
) -> Tensor:
    """Compute the sum of policy loss and value loss over consecutive steps (arXiv:1602.01783, algorithm S3).

    The loss of one step is pi_loss_coef * (-(R - V) log pi(a) - beta H) + v_loss_coef * (R - V)**2 / 2. In the policy
    loss no gradient flows through R - V.

    Args:
        log_prob: Log-probability of each action, [N].
        entropy: Entropy H of each distribution of actions, [N].
        value: Value V of each state, [N].
        returns: Return R of each step, bootstrapped after the last step, [N]; no gradient flows into it.
        beta: Weight of the entropy.
        pi_loss_coef: Weight of the policy loss, including the entropy term.
        v_loss_coef: Weight of the value loss.
        weight: Importance weight of each step, [N]; None sets all weights to 1.

    Returns:
        A scalar.
    """
    losses = actor_critic_loss(
        log_prob, (returns - value).detach(), entropy, value, returns,
        pi_loss_coef=pi_loss_coef, v_loss_coef=v_loss_coef / 2, entropy_coef=pi_loss_coef * beta,
    )  # fmt: skip
    return weighted_mean(losses, weight, "sum")


class A3C(AsyncActorCritic, AsyncAgent):
    """Asynchronous advantage actor-critic agent. `experiments.train_agent_async` trains it in several processes.

    Args:
        model: Module from observations to (distribution of actions, values [B, 1]), for example a
            `pfrl_like.nn.Branched`.
        optimizer: Optimiser of the model's parameters. The processes share its state.
        t_max: Maximum number of steps between updates. The agent also updates at the end of each episode.
        gamma: Discount factor per step.
        beta: Weight of the entropy in the loss.
        process_idx: Index of the process. The runner sets the index.
        phi: Feature extractor applied to each observation.
        pi_loss_coef: Weight of the policy loss, including the entropy term.
        v_loss_coef: Weight of the value loss.
        keep_loss_scale_same: True to multiply the loss by `t_max / n` if the episode ends after n < `t_max` steps.
        normalize_grad_by_t_max: True to divide the loss by the number of steps.
        use_average_reward: True to learn from rewards minus their running mean, for continuing tasks that maximise the
            mean reward per step (Sutton and Barto 2018, section 10.3). The attribute `average_reward` is the running
            mean of this process.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        recurrent: True if the model has the interface of `pfrl_like.nn.Recurrent`.
        average_entropy_decay: Decay of the running mean of the entropy. The mean is a statistic and does not affect
            training.
        average_value_decay: Decay of the running mean of the value. The mean is a statistic and does not affect
            training.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        average_reward_tau: Step size of `average_reward`. Each update adds this fraction of every step's advantage to
            `average_reward`.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _saved_numbers = ("average_reward",)

    average_value: float
    average_entropy: float

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        t_max: int,
        gamma: float,
        beta: float = 1e-2,
        process_idx: int | None = 0,
        phi: Callable[[Any], Any] | None = None,
        pi_loss_coef: float = 1.0,
        v_loss_coef: float = 0.5,
        keep_loss_scale_same: bool = False,
        normalize_grad_by_t_max: bool = False,
        use_average_reward: bool = False,
        act_deterministically: bool = False,
        max_grad_norm: float | None = None,
        recurrent: bool = False,
        average_entropy_decay: float = 0.999,
        average_value_decay: float = 0.999,
        batch_states: Callable[..., Any] = default_batch_states,
        *,
        average_reward_tau: float = 1e-2,
        logger: logging.Logger | None = None,
    ) -> None:
        super().__init__(
            model, optimizer, t_max, gamma, phi=phi, batch_states=batch_states, recurrent=recurrent,
            max_grad_norm=max_grad_norm, act_deterministically=act_deterministically, logger=logger,
            decays={"entropy": average_entropy_decay, "value": average_value_decay},
        )  # fmt: skip
        self.process_idx, self.beta, self.pi_loss_coef = process_idx, beta, pi_loss_coef
        self.v_loss_coef, self.keep_loss_scale_same = v_loss_coef, keep_loss_scale_same
        self.normalize_grad_by_t_max, self.use_average_reward = normalize_grad_by_t_max, use_average_reward
        self.average_reward_tau = average_reward_tau
        self.average_reward = 0.0
        check_numbers_in(self, average_reward_tau=(0, 1), beta=(0, None), pi_loss_coef=(0, None), v_loss_coef=(0, None))

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Compute `a3c_loss`, scaled according to `keep_loss_scale_same` and `normalize_grad_by_t_max`."""
        distribution, value = policy_and_value(self.model, batch)
        returns = self._returns(batch)
        entropy = distribution.entropy()
        scale = self._loss_scale(len(batch))
        loss = a3c_loss(
            distribution.log_prob(batch.action), entropy, value, returns,
            beta=self.beta, pi_loss_coef=scale * self.pi_loss_coef, v_loss_coef=scale * self.v_loss_coef,
            weight=batch.weight,
        )  # fmt: skip
        error = returns - value.detach()
        return loss, error, {"loss": loss.detach(), "value": value.detach(), "entropy": entropy.detach()}

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update the parameters with a batch whose observations are features."""
        error, stats = super().learn(batch)
        if self.use_average_reward:
            self.average_reward += self.average_reward_tau * float(error.sum())
        return error, stats

    def _returns(self, batch: Batch) -> Tensor:
        """Compute the return of each row, [N]: discounted rewards, plus the discounted value after the last row."""
        reward = batch.reward - self.average_reward if self.use_average_reward else batch.reward
        next_value = torch.cat([torch.zeros(len(batch) - 1), self._last_value(batch)])
        same_episode = torch.ones_like(reward, dtype=torch.bool)
        return lambda_returns(reward, batch.discount, next_value, same_episode, lambd=1.0)

    def _loss_scale(self, n_steps: int) -> float:
        scale = 1.0
        if self.keep_loss_scale_same and n_steps < self.t_max:
            scale *= self.t_max / n_steps
        if self.normalize_grad_by_t_max:
            scale /= n_steps
        return scale
