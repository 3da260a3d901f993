"""IMPALA: actor-critic with V-trace, an off-policy correction (Espeholt et al. 2018, arXiv:1802.01561)."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import mse_loss

from pfrl_like.batch import Batch
from pfrl_like.distributions import log_prob_and_entropy
from pfrl_like.functions.losses import explained_variance, weighted_mean
from pfrl_like.functions.returns import vtrace
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_lengths, check_numbers_in, check_positive
from pfrl_like.learning.minibatches import all_steps, check_all_finite, evaluate_episodes
from pfrl_like.learning.model_outputs import policy_and_value
from pfrl_like.learning.on_policy import OnPolicyAgent
from pfrl_like.learning.rollout import Episodes
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.optimizers.compiled_step import Update
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.contexts import evaluation_mode


def vtrace_steps(agent: Any, episodes: Episodes, *, lambd: float, rho_clip: float, c_clip: float) -> Batch:
    """Return the steps with the columns that V-trace computes for the current policy (arXiv:1802.01561, section 4).

    The importance ratio of a step is pi(a | s) / mu(a | s): pi is the current policy, and mu the policy that acted. If
    all ratios are 1 and `lambd` is 1, `returns` contains the returns of all later steps of the episode in the rollout,
    and `advantage` contains their differences from the values.

    Args:
        agent: Agent with a model of policy and values.
        episodes: Episodes with features. The column `log_prob` contains the logarithms of mu(a | s). If it is missing,
            the ratios are 1. The columns `advantage` and `returns` do not change if they exist.
        lambd: Lambda of the V-trace targets.
        rho_clip: Maximum importance ratio of a step's own error.
        c_clip: Maximum importance ratio in the traces, the weights of the errors of later steps.

    Returns:
        The steps with `log_prob` and `value` of the current model, `advantage`, which includes the clipped ratio, and
        `returns`, the V-trace targets of the values.

    Raises:
        NonFiniteError: If one of these columns contains NaN or infinity.
    """
    with torch.no_grad(), evaluation_mode(agent.model):
        log_prob, value, last_value = evaluate_episodes(agent, episodes)
        steps = episodes.steps
        ratio = (log_prob - (log_prob if steps.log_prob is None else steps.log_prob)).exp()
        returns, advantage = vtrace(
            steps.reward, steps.discount, value, episodes.next_values(value, last_value), ratio, episodes.continues,
            lambd, rho_clip, c_clip,
        )  # fmt: skip
        advantage = advantage if steps.advantage is None else steps.advantage
        returns = returns if steps.returns is None else steps.returns
        check_all_finite(log_prob=log_prob, value=value, advantage=advantage, returns=returns)
    return steps.replace(log_prob=log_prob, value=value, advantage=advantage, returns=returns)


def impala_loss(model: Any, batch: Batch, *, value_coeff: float = 0.5, entropy_coeff: float = 0.01) -> Update:
    """Compute the loss of the steps of a rollout (arXiv:1802.01561, section 4.2, with the sign reversed).

    The loss is the mean of -A log pi(a | s) + value_coeff (v - V)**2 - entropy_coeff H, with the V-trace advantages A =
    rho (r + gamma v' - V) and targets v.

    Args:
        model: Module from observations to (distribution of actions, values [N, 1]).
        batch: Steps or sequences with `advantage` and `returns` of V-trace.
        value_coeff: Weight of the value loss, the mean of squared errors.
        entropy_coeff: Weight of the entropy.

    Returns:
        The scalar loss, and detached statistics: "policy_loss" and "value_loss", means over the rows.
    """
    distribution, value = policy_and_value(model, batch)
    advantage, returns = batch.required("advantage", "returns")
    log_prob, entropy = log_prob_and_entropy(distribution, batch.action)
    policy_loss = -weighted_mean(log_prob * advantage, batch.weight)
    value_loss = weighted_mean(mse_loss(value, returns, reduction="none"), batch.weight)
    loss = policy_loss + value_coeff * value_loss - entropy_coeff * weighted_mean(entropy, batch.weight)
    return loss, {"policy_loss": policy_loss.detach(), "value_loss": value_loss.detach()}


@settings(optimizer=change_optimizer)
class IMPALA(OnPolicyAgent):
    """Actor-critic agent that corrects the steps of an older policy by V-trace.

    The agent stores the log-probability of each action when it acts. An update computes importance ratios from them, so
    that it may also learn from steps of copies of the agent that have older parameters.

    Args:
        model: Module from observations to (distribution of actions, values [B, 1]), for example a
            `pfrl_like.nn.Branched`.
        optimizer: Optimiser of the model's parameters.
        gamma: Discount factor per step.
        update_interval: Number of steps between updates, summed over all environments.
        rho_clip: Maximum importance ratio of a step's own error. It determines the policy whose value is learned: a
            value near 0 favours the policy that acted, and infinity the current policy.
        c_clip: Maximum importance ratio in the traces, the weights of the errors of later steps. Smaller values reduce
            the variance of the targets.
        vtrace_lambda: Lambda of the V-trace targets. 1 uses all later steps of the rollout, 0 only the next step.
        value_coeff: Weight of the value loss.
        entropy_coeff: Weight of the entropy bonus.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        recurrent: True to train the model on sequences. The model must have the interface of `pfrl_like.nn.Recurrent`.
        max_recurrent_sequence_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole
            episodes.
        obs_normalizer: Normaliser of features. Each update first computes the advantages, then updates the normaliser
            with the collected features, then makes the gradient step. None disables normalisation.
        phi: Feature extractor applied once to each observation, when the agent selects the action.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        gpu: CUDA device index. None or a negative index means the CPU.
        device: Device as a string or `torch.device`, instead of `gpu`.
        value_stats_window: Number of recent values to average for the statistics.
        entropy_stats_window: Number of recent entropies to average for the statistics.
        value_loss_stats_window: Number of recent value losses (one per update) to average for the statistics.
        policy_loss_stats_window: Number of recent policy losses (one per update) to average for the statistics.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    saved_attributes = ("model", "optimizer", "obs_normalizer")
    _saved_numbers = ("explained_variance",)
    _acting_columns = ("log_prob",)

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        gamma: float = 0.99,
        *,
        update_interval: int = 256,
        rho_clip: float = 1.0,
        c_clip: float = 1.0,
        vtrace_lambda: float = 1.0,
        value_coeff: float = 0.5,
        entropy_coeff: float = 0.01,
        max_grad_norm: float | None = None,
        act_deterministically: bool = False,
        recurrent: bool = False,
        max_recurrent_sequence_len: int | None = None,
        obs_normalizer: EmpiricalNormalization | None = None,
        phi: Callable[[Any], Any] | None = lambda x: x,
        batch_states: Callable[..., Any] = default_batch_states,
        gpu: int | None = None,
        device: torch.device | str | None = None,
        value_stats_window: int = 1000,
        entropy_stats_window: int = 1000,
        value_loss_stats_window: int = 100,
        policy_loss_stats_window: int = 100,
        logger: logging.Logger | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.update_interval, self.max_recurrent_sequence_len = update_interval, max_recurrent_sequence_len
        self.rho_clip, self.c_clip, self.vtrace_lambda = rho_clip, c_clip, vtrace_lambda
        self.value_coeff, self.entropy_coeff = value_coeff, entropy_coeff
        self.explained_variance = float("nan")
        check_lengths(self, "update_interval", optional=("max_recurrent_sequence_len",))
        check_positive(self, "rho_clip", "c_clip")
        check_numbers_in(self, vtrace_lambda=(0, 1), value_coeff=(0, None), entropy_coeff=(0, None))
        windows = {
            "value": value_stats_window, "entropy": entropy_stats_window,
            "value_loss": value_loss_stats_window, "policy_loss": policy_loss_stats_window,
        }  # fmt: skip
        super().__init__(
            {"model": model}, {"optimizer": optimizer}, rollout_size=update_interval,
            **keywords_for(OnPolicyAgent, locals()),
        )  # fmt: skip

    def learn(self, episodes: Episodes) -> Update:
        """Make one gradient step on the `impala_loss` of the whole rollout."""
        steps = self._with_advantages(episodes, self.vtrace_lambda)
        value, advantage, returns = steps.required("value", "advantage", "returns")
        batch = all_steps(self.normalized_anew(episodes, steps), self.max_recurrent_sequence_len)
        if self.learner_group is not None:
            batch = self.learner_group.share(batch)
        loss, stats = impala_loss(self.model, batch, value_coeff=self.value_coeff, entropy_coeff=self.entropy_coeff)
        self.gradient_steps["optimizer"](loss)
        self.n_updates += 1
        self.explained_variance = float(explained_variance(value, returns))
        return advantage, {"loss": loss.detach(), **stats}

    def _with_advantages(self, episodes: Episodes, gae_lambda: float) -> Batch:
        """Return the steps with the columns of V-trace, see `vtrace_steps`."""
        return vtrace_steps(self, episodes, lambd=gae_lambda, rho_clip=self.rho_clip, c_clip=self.c_clip)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return moving averages, the number of updates, and the explained variance (see `PPO.get_statistics`)."""
        others = [("n_updates", self.n_updates), ("explained_variance", self.explained_variance)]
        return [*self._window_means(), *others]
