"""A2C: synchronous advantage actor-critic in several environments (Mnih et al. 2016, arXiv:1602.01783)."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch
from pfrl_like.distributions import log_prob_and_entropy
from pfrl_like.functions.losses import actor_critic_loss, weighted_mean
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_lengths, check_numbers_in
from pfrl_like.learning.minibatches import all_steps
from pfrl_like.learning.model_outputs import policy_and_value
from pfrl_like.learning.on_policy import OnPolicyAgent
from pfrl_like.learning.overrides.on_policy import fill_returns, learn_by_update
from pfrl_like.learning.rollout import Episodes
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def a2c_loss(
    model: Any, batch: Batch, *, pi_loss_coef: float = 1.0, v_loss_coef: float = 0.5, entropy_coeff: float = 0.01
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute the loss of the steps of a rollout (arXiv:1602.01783, section 4, with the sign reversed).

    Args:
        model: Module from observations to (distribution of actions, values [N, 1]).
        batch: Steps with `advantage` and `returns`.
        pi_loss_coef: Weight of the policy's loss, the mean of -A log pi(a | s).
        v_loss_coef: Weight of the value loss, the mean of squared errors.
        entropy_coeff: Weight of the entropy.

    Returns:
        The scalar loss, and detached statistics: "actor_loss", "value" and "entropy", means over the rows.
    """
    distribution, value = policy_and_value(model, batch)
    advantage, returns = batch.required("advantage", "returns")
    log_prob, entropy = log_prob_and_entropy(distribution, batch.action)
    losses = actor_critic_loss(
        log_prob, advantage, entropy, value, returns,
        pi_loss_coef=pi_loss_coef, v_loss_coef=v_loss_coef, entropy_coef=entropy_coeff,
    )  # fmt: skip
    with torch.no_grad():
        stats = {
            "actor_loss": -weighted_mean(log_prob * advantage, batch.weight),
            "value": value.mean(),
            "entropy": weighted_mean(entropy, batch.weight),
        }
    return weighted_mean(losses, batch.weight), stats


@settings(optimizer=change_optimizer)
class A2C(OnPolicyAgent):
    """Advantage actor-critic agent.

    A subclass may override `update` with one of two signatures. The agent calls the subclass's method after each
    rollout. `update(batch, ...)` receives the steps as a `Batch` of features. `update()`, the signature of PFRL's A2C,
    reads the steps from attributes. With T = `update_steps` and P = `num_processes` the attributes are `states` [T + 1,
    P, ...], `actions` [T, P, ...], `rewards` [T, P], `masks` [T, P] (0 after the last step of an episode),
    `value_preds` and `returns` [T + 1, P], all float32, and the shapes `obs_shape` and `action_shape`. If the rollout
    ends with a terminal step, the last row of `states` repeats the previous row.

    Args:
        model: Module from observations to (distribution of actions, values [B, 1]), for example a
            `pfrl_like.nn.Branched`.
        optimizer: Optimiser of the model's parameters.
        gamma: Discount factor per step.
        num_processes: Number of environments. The agent updates after every `update_steps * num_processes` steps,
            summed over all environments.
        gpu: CUDA device index. None or a negative index means the CPU.
        update_steps: Number of steps of each environment between updates.
        phi: Feature extractor applied once to each observation, when the agent selects the action.
        pi_loss_coef: Weight of the policy loss.
        v_loss_coef: Weight of the value loss.
        entropy_coeff: Weight of the entropy bonus.
        use_gae: True to use generalised advantage estimates with lambda = `tau`; False sets lambda to 1.
        tau: Lambda of the generalised advantage estimates.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        average_actor_loss_decay: Decay of the running mean of the policy's loss. The mean is a statistic and does not
            affect training.
        average_entropy_decay: Decay of the running mean of the entropy. The mean is a statistic and does not affect
            training.
        average_value_decay: Decay of the running mean of the value. The mean is a statistic and does not affect
            training.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        device: Device as a string or `torch.device`, instead of `gpu`.
        recurrent: True to train the model on sequences. The model must have the interface of `pfrl_like.nn.Recurrent`.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _saved_numbers = ("average_actor_loss", "average_value", "average_entropy")

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        gamma: float,
        num_processes: int,
        gpu: int | None = None,
        update_steps: int = 5,
        phi: Callable[[Any], Any] | None = lambda x: x,
        pi_loss_coef: float = 1.0,
        v_loss_coef: float = 0.5,
        entropy_coeff: float = 0.01,
        use_gae: bool = False,
        tau: float = 0.95,
        act_deterministically: bool = False,
        max_grad_norm: float | None = None,
        average_actor_loss_decay: float = 0.999,
        average_entropy_decay: float = 0.999,
        average_value_decay: float = 0.999,
        batch_states: Callable[..., Any] = default_batch_states,
        *,
        device: torch.device | str | None = None,
        recurrent: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.num_processes, self.update_steps = num_processes, update_steps
        self.pi_loss_coef, self.v_loss_coef, self.entropy_coeff = pi_loss_coef, v_loss_coef, entropy_coeff
        self.use_gae, self.tau = use_gae, tau
        self.average_actor_loss_decay = average_actor_loss_decay
        self.average_entropy_decay, self.average_value_decay = average_entropy_decay, average_value_decay
        self.average_actor_loss = self.average_value = self.average_entropy = 0.0
        check_lengths(self, "num_processes", "update_steps")
        check_numbers_in(self, **dict.fromkeys(("pi_loss_coef", "v_loss_coef", "entropy_coeff"), (0, None)))
        decays = [f"{name}_decay" for name in self._saved_numbers]
        check_numbers_in(self, tau=(0, 1), **dict.fromkeys(decays, (0, 1)))
        super().__init__(
            {"model": model}, {"optimizer": optimizer}, rollout_size=update_steps * num_processes, windows={},
            **keywords_for(OnPolicyAgent, locals()),
        )  # fmt: skip

    def learn(self, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one gradient step on the `a2c_loss` of the whole rollout, or call the subclass's `update`."""
        if self._overridden_hooks and self._override_episodes is None:
            return learn_by_update(self, episodes)
        steps = self._with_advantages(episodes, self.tau if self.use_gae else 1.0)
        batch = all_steps(dataclasses.replace(episodes, steps=steps))
        if self.learner_group is not None:
            batch = self.learner_group.share(batch)
        loss, stats = a2c_loss(
            self.model, batch, pi_loss_coef=self.pi_loss_coef, v_loss_coef=self.v_loss_coef,
            entropy_coeff=self.entropy_coeff,
        )  # fmt: skip
        self.gradient_steps["optimizer"](loss)
        self.n_updates += 1
        if self.learner_group is not None:
            stats = {**self.learner_group.statistics(stats)}
        for name, value in stats.items():
            self._move_average(f"average_{name}", value)
        return steps.required("advantage")[0], {"loss": loss.detach(), **stats}

    def _compute_returns(self, next_value: Tensor) -> None:
        """Compute `returns` from `rewards`, `masks` and `value_preds`. PFRL's `update()` calls this method.

        Args:
            next_value: Values of the last row of `states`, [P].
        """
        fill_returns(self, next_value)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return running means of the policy's loss, the values and the entropies, 0 before the first update."""
        means = self.average_actor_loss, self.average_value, self.average_entropy
        return list(zip(("average_actor", "average_value", "average_entropy"), means, strict=True))
