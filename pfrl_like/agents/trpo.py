"""Trust Region Policy Optimisation (Schulman et al. 2015, arXiv:1502.05477)."""

import contextlib
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pfrl_like.batch import Batch
from pfrl_like.functions.losses import explained_variance, standardized, weighted_mean
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_lengths, check_numbers_in
from pfrl_like.learning.minibatches import all_steps, check_all_finite, epochs_of
from pfrl_like.learning.model_outputs import output_of, policy_of
from pfrl_like.learning.on_policy import OnPolicyAgent
from pfrl_like.learning.overrides.episode_list import episode_memory
from pfrl_like.learning.rollout import Episodes
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.nn.branched import Branched
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.nn.recurrent_branched import RecurrentBranched
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.conjugate_gradient import conjugate_gradient
from pfrl_like.utils.old_names import old_names

#: Constant that is added to the denominator of the step size, as in PFRL.
_EPS = 1e-8
#: Norm of the residual at which the conjugate-gradient method stops.
_TOLERANCE = 1e-5


def surrogate_gain(distribution: Any, batch: Batch, entropy_coef: float = 0.0) -> Tensor:
    """Compute the surrogate objective, a scalar: mean of ratio * A (arXiv:1502.05477, eq. 14) + weighted entropy.

    Args:
        distribution: The policy's distributions of actions for the rows, [N].
        batch: Steps with `log_prob` and `advantage`.
        entropy_coef: Weight of the entropy.
    """
    old_log_prob, advantage = batch.required("log_prob", "advantage")
    ratio = (distribution.log_prob(batch.action) - old_log_prob).exp()
    gain = weighted_mean(ratio * advantage, batch.weight)
    return gain + entropy_coef * weighted_mean(distribution.entropy(), batch.weight) if entropy_coef else gain


def value_loss(vf: Any, batch: Batch) -> Tensor:
    """Compute the mean squared error between values and `returns`, a scalar."""
    return weighted_mean((output_of(vf, batch).squeeze(-1) - batch.required("returns")[0]).square(), batch.weight)


def natural_step(
    gain: Tensor, kl: Tensor, params: Sequence[Tensor], *, max_kl: float, damping: float, max_iter: int
) -> Tensor:
    """Compute the natural-gradient step (arXiv:1502.05477, appendix C).

    The second-order approximation of the KL divergence between the policies before and after the step is `max_kl`.

    Args:
        gain: The objective that the step increases, a scalar.
        kl: KL divergence from the current policy, a scalar. Its value and its gradient are 0 at the current parameters.
        params: All parameters that `gain` and `kl` depend on.
        max_kl: Approximate KL divergence after the step, in nats.
        damping: Number added to the diagonal of the Fisher matrix, the second derivative of `kl`.
        max_iter: Maximum number of conjugate-gradient iterations.

    Returns:
        Change of all n parameters in one vector, [n].

    Raises:
        ValueError: If `gain` or `kl` does not depend on one of the parameters.
    """
    try:
        kl_grad = _flat(torch.autograd.grad(kl, params, create_graph=True))
        gain_grad = _flat(torch.autograd.grad(gain, params, retain_graph=True)).detach()
    except RuntimeError as error:
        if "not have been used" not in str(error):
            raise
        advice = "call requires_grad_(False) on the parameter"
        raise ValueError(f"policy has a parameter that its actions do not depend on: {advice} ({error})") from error

    def fisher_product(vector: Tensor) -> Tensor:
        return _flat(torch.autograd.grad(kl_grad.dot(vector), params, retain_graph=True)).detach() + damping * vector

    direction = conjugate_gradient(fisher_product, gain_grad, _TOLERANCE, max_iter)
    return direction * (2 * max_kl / (direction.dot(fisher_product(direction)) + _EPS)).sqrt()


@settings(vf_optimizer=change_optimizer)
class TRPO(OnPolicyAgent):
    """Trust Region Policy Optimisation agent.

    Args:
        policy: Module from observations to distributions of actions. It must be twice differentiable.
        vf: Module from observations to values [B, 1]. It must not share parameters with the policy.
        vf_optimizer: Optimiser of the parameters of `vf`.
        obs_normalizer: Normaliser of features. Each update first computes the advantages, then updates the normaliser
            with the collected features, then makes the gradient steps. None disables normalisation.
        gpu: CUDA device index. None or a negative index means the CPU.
        gamma: Discount factor per step.
        lambd: Lambda of the generalised advantage estimate.
        phi: Feature extractor applied once to each observation, when the agent selects the action.
        entropy_coef: Weight of the entropy bonus.
        update_interval: Number of steps between updates, summed over all environments.
        max_kl: Maximum KL divergence between the policies before and after an update, averaged over the steps, in nats.
        vf_epochs: Number of epochs of value-function training per update.
        vf_batch_size: Number of steps per minibatch of value-function training.
        standardize_advantages: True to standardise the advantages of an update to mean 0 and standard deviation 1.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the policy and the value function on sequences. Both must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_recurrent_sequence_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole
            episodes.
        line_search_max_backtrack: Maximum number of times that the line search halves the step.
        conjugate_gradient_max_iter: Maximum number of conjugate-gradient iterations.
        conjugate_gradient_damping: Number added to the diagonal of the Fisher matrix.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient of the value loss; None disables clipping.
        value_stats_window: Number of recent values to average for the statistics.
        entropy_stats_window: Number of recent entropies to average for the statistics.
        kl_stats_window: Number of recent KL divergences to average for the statistics. If the line search fails, no KL
            divergence is added.
        policy_step_size_stats_window: Number of recent step sizes to average for the statistics. A step size is the
            applied fraction of the full step, or 0 if the line search failed.
        logger: Logger for the trials of the line search (level INFO) and for rejected updates (non-finite loss or
            gradient).
        device: Device as a string or `torch.device`, instead of `gpu`.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    saved_attributes = ("policy", "vf", "vf_optimizer", "obs_normalizer")
    _acting_network_name = "policy"
    _saved_numbers = ("explained_variance",)
    memory = episode_memory

    kl_record: deque[float]
    policy_step_size_record: deque[float]

    def __init__(
        self,
        policy: torch.nn.Module,
        vf: torch.nn.Module,
        vf_optimizer: torch.optim.Optimizer,
        obs_normalizer: EmpiricalNormalization | None = None,
        gpu: int | None = None,
        gamma: float = 0.99,
        lambd: float = 0.95,
        phi: Callable[[Any], Any] | None = lambda x: x,
        entropy_coef: float = 0.01,
        update_interval: int = 2048,
        max_kl: float = 0.01,
        vf_epochs: int = 3,
        vf_batch_size: int = 64,
        standardize_advantages: bool = True,
        batch_states: Callable[..., Any] = default_batch_states,
        recurrent: bool = False,
        max_recurrent_sequence_len: int | None = None,
        line_search_max_backtrack: int = 10,
        conjugate_gradient_max_iter: int = 10,
        conjugate_gradient_damping: float = 1e-2,
        act_deterministically: bool = False,
        max_grad_norm: float | None = None,
        value_stats_window: int = 1000,
        entropy_stats_window: int = 1000,
        kl_stats_window: int = 100,
        policy_step_size_stats_window: int = 100,
        logger: logging.Logger | None = None,
        *,
        device: torch.device | str | None = None,
    ) -> None:
        self.policy, self.vf, self.vf_optimizer = policy, vf, vf_optimizer
        self.lambd, self.entropy_coef, self.max_kl = lambd, entropy_coef, max_kl
        self.update_interval, self.vf_epochs, self.vf_batch_size = update_interval, vf_epochs, vf_batch_size
        self.standardize_advantages = standardize_advantages
        self.max_recurrent_sequence_len = max_recurrent_sequence_len
        self.line_search_max_backtrack = line_search_max_backtrack
        self.conjugate_gradient_max_iter = conjugate_gradient_max_iter
        self.conjugate_gradient_damping = conjugate_gradient_damping
        self.explained_variance = float("nan")
        windows = {
            "value": value_stats_window, "entropy": entropy_stats_window,
            "kl": kl_stats_window, "policy_step_size": policy_step_size_stats_window,
        }  # fmt: skip
        counts = ("update_interval", "vf_epochs", "vf_batch_size", "conjugate_gradient_max_iter")
        check_lengths(self, *counts, optional=("max_recurrent_sequence_len",))
        check_numbers_in(self, lambd=(0, 1), entropy_coef=(0, None), max_kl=(0, None))
        check_numbers_in(self, conjugate_gradient_damping=(0, None))
        check_counts(least=0, line_search_max_backtrack=line_search_max_backtrack)
        super().__init__(
            {"policy": policy, "vf": vf}, {"vf_optimizer": vf_optimizer}, rollout_size=update_interval,
            **keywords_for(OnPolicyAgent, locals()),
        )  # fmt: skip
        _check_parameters(policy, vf, vf_optimizer)
        self.model = (RecurrentBranched if recurrent else Branched)(policy, vf)

    def learn(self, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one policy step within the trust region, then train the value function for `vf_epochs` epochs."""
        steps = self._with_advantages(episodes, self.lambd)
        value, advantage, returns = steps.required("value", "advantage", "returns")
        if self.standardize_advantages:
            steps = steps.replace(advantage=standardized(advantage))
        episodes = self.normalized_anew(episodes, steps)
        recurrent_states = episodes.states or (None, None)
        policy_episodes, vf_episodes = (dataclasses.replace(episodes, states=state) for state in recurrent_states)
        stats = self.update_policy(all_steps(policy_episodes, self.max_recurrent_sequence_len))
        sizes = self.vf_batch_size, self.vf_epochs, self.max_recurrent_sequence_len
        for minibatches in epochs_of(vf_episodes, *sizes, self.learner_group):
            for batch in minibatches:
                self.gradient_steps["vf_optimizer"](value_loss(self.vf, batch))
        self.n_updates += 1
        self.explained_variance = float(explained_variance(value, returns))
        return advantage, stats

    def rollback(self, updates: int) -> None:
        """Leave `n_updates` unchanged. It counts policy steps, and no policy step was skipped.

        On a GPU, only steps of the value function are skipped, if their loss is NaN or infinite. A policy step that is
        NaN or infinite raises an error at once.
        """

    def update_policy(self, batch: Batch) -> dict[str, Tensor]:
        """Update the policy by a line search. Return the statistics "policy_step_size" and, after success, "kl"."""
        params = [param for param in self.policy.parameters() if param.requires_grad]
        # The recurrent layers of cuDNN have no second derivatives.
        with torch.backends.cudnn.flags(enabled=False) if self.recurrent else contextlib.nullcontext():
            distribution = policy_of(self.policy, batch)
            with torch.no_grad():
                old = policy_of(self.policy, batch)
            gain = surrogate_gain(distribution, batch, self.entropy_coef)
            step = natural_step(
                gain, kl_divergence(old, distribution).mean(), params, max_kl=self.max_kl,
                damping=self.conjugate_gradient_damping, max_iter=self.conjugate_gradient_max_iter,
            )  # fmt: skip
        check_all_finite(gradient=step)
        before, gain, size = _flat(params).detach(), gain.detach(), 1.0
        for _ in range(self.line_search_max_backtrack + 1):
            _assign(params, before + size * step)
            with torch.no_grad():
                distribution = policy_of(self.policy, batch)
                new_gain = surrogate_gain(distribution, batch, self.entropy_coef)
                kl = kl_divergence(old, distribution).mean()
            self.logger.info("line search: step %s, improvement %s, kl %s", size, float(new_gain - gain), float(kl))
            if new_gain >= gain and kl <= self.max_kl:  # both comparisons are False for NaN
                return {"kl": kl, "policy_step_size": kl.new_tensor(size)}
            size *= 0.5
        _assign(params, before)
        self.logger.info("line search failed: no step improves the objective within max_kl; the policy is unchanged")
        return {"policy_step_size": gain.new_zeros(())}

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return moving averages, NaN before the first value, and the explained variance (see `PPO.get_statistics`)."""
        return [*self._window_means(), ("explained_variance", self.explained_variance)]


def _check_parameters(policy: torch.nn.Module, vf: torch.nn.Module, vf_optimizer: torch.optim.Optimizer) -> None:
    """Raise an error if the policy has no trainable parameter, or shares a parameter with `vf` or `vf_optimizer`."""
    policy_params = {id(param) for param in policy.parameters() if param.requires_grad}
    if not policy_params:
        raise ValueError("policy has no trainable parameter: call requires_grad_(True) on the parameters to train")
    vf_params = {id(param) for group in vf_optimizer.param_groups for param in group["params"]}
    for name, params in (("vf", set(map(id, vf.parameters()))), ("vf_optimizer", vf_params)):
        if policy_params & params:
            raise ValueError(f"{name} has parameters of policy, but only the trust-region step may change them")


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


@torch.no_grad()
def _assign(params: Sequence[Tensor], flat: Tensor) -> None:
    for param, values in zip(params, torch.split(flat, [param.numel() for param in params]), strict=True):
        param.copy_(values.view_as(param))


__getattr__ = old_names(__name__)
