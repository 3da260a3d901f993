"""APPO: PPO's clipped objective with V-trace advantages (arXiv:1707.06347, arXiv:1802.01561)."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.impala import vtrace_steps
from pfrl_like.agents.ppo import PPO
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import standardized
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_positive
from pfrl_like.learning.rollout import Episodes
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.utils.batch_states import batch_states as default_batch_states

#: Ratios below it have no effect, and would be 0 in a division.
_LEAST_RATIO = torch.finfo(torch.float32).tiny


class APPO(PPO):
    """Proximal Policy Optimisation agent that corrects the steps of an older policy by V-trace.

    The agent stores the log-probability of each action when it acts, so that it may also learn from steps of copies of
    the agent that have older parameters. Three policies take part in an update: mu, the policy that acted; pi_old, the
    policy at the beginning of the update; and pi, the policy that is trained. The V-trace advantages (arXiv:1802.01561,
    section 4) contain the clipped ratio pi_old / mu. The clipped objective (arXiv:1707.06347, eq. 7) contains the ratio
    pi / pi_old, so that the trust region lies around pi_old (Hilton et al. 2021, arXiv:2110.00641). If mu is pi_old,
    the loss is that of `PPO` with `lambd=1`.

    Args:
        model: Module from observations to (distribution of actions, values [B, 1]), for example a
            `pfrl_like.nn.Branched`.
        optimizer: Optimiser of the model's parameters.
        obs_normalizer: Normaliser of features. Each update first computes the advantages, then updates the normaliser
            with the collected features, then makes the gradient steps. None disables normalisation.
        gpu: CUDA device index. None or a negative index means the CPU.
        gamma: Discount factor per step.
        lambd: Lambda of the V-trace targets. 1 uses all later steps of the rollout, 0 only the next step.
        phi: Feature extractor applied once to each observation, when the agent selects the action.
        value_func_coef: Weight of the value loss.
        entropy_coef: Weight of the entropy bonus.
        update_interval: Number of steps between updates, summed over all environments.
        minibatch_size: Number of steps per minibatch. If `minibatch_size` exceeds `update_interval`, a minibatch
            contains steps several times, and a warning is logged.
        epochs: Number of epochs (passes over the collected steps) per update.
        clip_eps: Clipping range: the ratio of probabilities is clipped to [1 - clip_eps, 1 + clip_eps].
        clip_eps_vf: Clipping range of the value: the new value is clipped to the old value +- clip_eps_vf. None
            disables clipping.
        standardize_advantages: True to standardise the advantages of an update to mean 0 and standard deviation 1.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the model on sequences. The model must have the interface of `pfrl_like.nn.Recurrent`.
        max_recurrent_sequence_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole
            episodes.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        value_stats_window: Number of recent values to average for the statistics.
        entropy_stats_window: Number of recent entropies to average for the statistics.
        value_loss_stats_window: Number of recent value losses (one per minibatch) to average for the statistics.
        policy_loss_stats_window: Number of recent policy losses (one per minibatch) to average for the statistics.
        rho_clip: Maximum importance ratio of a step's own error. It determines the policy whose value is learned: a
            value near 0 favours the policy that acted, and infinity the current policy.
        c_clip: Maximum importance ratio in the traces, the weights of the errors of later steps. Smaller values reduce
            the variance of the targets.
        device: Device as a string or `torch.device`, instead of `gpu`.
        target_kl: Maximum estimated KL divergence from the policy at the beginning of the update, in nats, averaged
            over an epoch. After an epoch with a larger divergence, the remaining epochs of the update are skipped. None
            disables the limit.
        compile: True to compile the gradient step on a minibatch. Requires Adam, AdamW, RMSprop or SGD, and
            `recurrent=False`. The step is compiled at the second minibatch. The compilation takes about 30 s and is
            logged (level INFO). A change of the coefficients or clipping ranges requires another compilation.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    _acting_columns = ("log_prob",)

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        obs_normalizer: EmpiricalNormalization | None = None,
        gpu: int | None = None,
        gamma: float = 0.99,
        lambd: float = 1.0,
        phi: Callable[[Any], Any] | None = lambda x: x,
        value_func_coef: float = 1.0,
        entropy_coef: float = 0.01,
        update_interval: int = 2048,
        minibatch_size: int = 64,
        epochs: int = 10,
        clip_eps: float = 0.2,
        clip_eps_vf: float | None = None,
        standardize_advantages: bool = True,
        batch_states: Callable[..., Any] = default_batch_states,
        recurrent: bool = False,
        max_recurrent_sequence_len: int | None = None,
        act_deterministically: bool = False,
        max_grad_norm: float | None = None,
        value_stats_window: int = 1000,
        entropy_stats_window: int = 1000,
        value_loss_stats_window: int = 100,
        policy_loss_stats_window: int = 100,
        *,
        rho_clip: float = 1.0,
        c_clip: float = 1.0,
        device: torch.device | str | None = None,
        target_kl: float | None = None,
        compile: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        self.rho_clip, self.c_clip = rho_clip, c_clip
        check_positive(self, "rho_clip", "c_clip")
        super().__init__(**arguments_for(PPO, locals()))

    def _with_advantages(self, episodes: Episodes, gae_lambda: float) -> Batch:
        """Return the steps with the columns of V-trace, see `vtrace_steps`."""
        return vtrace_steps(self, episodes, lambd=gae_lambda, rho_clip=self.rho_clip, c_clip=self.c_clip)

    def _standardized(self, episodes: Episodes, steps: Batch) -> Tensor:
        """Standardise the advantages of pi_old, then multiply them by the clipped ratio again.

        The ratio is the weight of a step in mean and standard deviation. The mean is then a baseline that does not
        change the expected gradient. Subtracted from the products, it would move pi away from or towards mu.
        """
        acting_log_prob = episodes.steps.log_prob
        if acting_log_prob is None:
            return super()._standardized(episodes, steps)
        log_prob, advantage = steps.required("log_prob", "advantage")
        ratio = (log_prob - acting_log_prob).exp().clamp(min=_LEAST_RATIO, max=self.rho_clip)
        return ratio * standardized(advantage / ratio, ratio)
