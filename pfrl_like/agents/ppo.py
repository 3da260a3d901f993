"""Proximal Policy Optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from pfrl_like.batch import Batch
from pfrl_like.distributions import log_prob_and_entropy
from pfrl_like.functions.losses import clipped_surrogate, estimated_kl, explained_variance, standardized, weighted_mean
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_lengths, check_numbers_in
from pfrl_like.learning.minibatches import epochs_of
from pfrl_like.learning.model_outputs import policy_and_value
from pfrl_like.learning.on_policy import OnPolicyAgent
from pfrl_like.learning.overrides.episode_list import episode_memory
from pfrl_like.learning.overrides.off_policy import check_not_compiled
from pfrl_like.learning.overrides.on_policy import loss_of_lossfun
from pfrl_like.learning.rollout import Episodes
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.learning.statistics import add_values
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.optimizers.compiled_step import CompiledStep, Step, Update
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.old_names import old_names


def ppo_loss(
    model: Any,
    batch: Batch,
    *,
    clip_eps: float = 0.2,
    clip_eps_vf: float | None = None,
    value_func_coef: float = 1.0,
    entropy_coef: float = 0.01,
) -> Update:
    """Compute the loss of a minibatch (arXiv:1707.06347, eq. 9, with the sign reversed).

    Args:
        model: Module from observations to (distribution of actions, values [N, 1]).
        batch: Steps or sequences with `log_prob` of the behaviour policy, `value`, `advantage` and `returns`.
        clip_eps: Clipping range: the ratio of probabilities is clipped to [1 - clip_eps, 1 + clip_eps].
        clip_eps_vf: Clipping range of the value: the new value is clipped to the old value +- clip_eps_vf (Engstrom et
            al. 2020, arXiv:2005.12729, section 3). None disables clipping.
        value_func_coef: Weight of the value loss, the mean of squared errors.
        entropy_coef: Weight of the entropy.

    Returns:
        The scalar loss, and detached statistics: "policy_loss", "value_loss" and "log_ratio", the logarithms of the
        ratios, [N].
    """
    distribution, value = policy_and_value(model, batch)
    old_log_prob, old_value, advantage, returns = batch.required("log_prob", "value", "advantage", "returns")
    if entropy_coef:
        log_prob, entropy = log_prob_and_entropy(distribution, batch.action)
    else:
        log_prob, entropy = distribution.log_prob(batch.action), None
    return ppo_objective(
        log_prob, entropy, value, old_log_prob, old_value, advantage, returns, batch.weight, clip_eps=clip_eps,
        clip_eps_vf=clip_eps_vf, value_func_coef=value_func_coef, entropy_coef=entropy_coef,
    )  # fmt: skip


def ppo_objective(
    log_prob: Tensor,
    entropy: Tensor | None,
    value: Tensor,
    old_log_prob: Tensor,
    old_value: Tensor,
    advantage: Tensor,
    returns: Tensor,
    weight: Tensor | None,
    *,
    clip_eps: float,
    clip_eps_vf: float | None,
    value_func_coef: float,
    entropy_coef: float,
) -> Update:
    """Compute `ppo_loss` from the outputs of a model.

    Args:
        log_prob: Log-probability of each action, [N].
        entropy: Entropy of each distribution of actions, [N]; None omits the entropy term.
        value: Values, [N].
        old_log_prob: Log-probabilities under the behaviour policy, [N].
        old_value: Values at the time of acting, [N].
        advantage: Advantages, [N]; no gradient flows into them.
        returns: Targets of the values, [N].
        weight: Importance weight of each step, [N]; None sets all weights to 1.
        clip_eps: Clipping range: the ratio of probabilities is clipped to [1 - clip_eps, 1 + clip_eps].
        clip_eps_vf: Clipping range of the value: the new value is clipped to the old value +- clip_eps_vf. None
            disables clipping.
        value_func_coef: Weight of the value loss.
        entropy_coef: Weight of the entropy.

    Returns:
        The scalar loss, and detached statistics: "policy_loss", "value_loss" and "log_ratio", [N].
    """
    log_ratio = log_prob - old_log_prob
    ratio = log_ratio.exp()
    surrogate = weighted_mean(clipped_surrogate(ratio, advantage, clip_eps), weight)
    value_error = mse_loss(value, returns, reduction="none")
    if clip_eps_vf is not None:
        clipped_value = old_value + (value - old_value).clamp(-clip_eps_vf, clip_eps_vf)
        value_error = torch.maximum(value_error, mse_loss(clipped_value, returns, reduction="none"))
    value_loss = weighted_mean(value_error, weight)
    loss = value_func_coef * value_loss - surrogate
    if entropy is not None:
        loss = loss - entropy_coef * weighted_mean(entropy, weight)
    stats = {"policy_loss": -surrogate, "value_loss": value_loss, "log_ratio": log_ratio}
    return loss, {name: value.detach() for name, value in stats.items()}


@settings(optimizer=change_optimizer)
class PPO(OnPolicyAgent):
    """Proximal Policy Optimisation agent.

    Args:
        model: Module from observations to (distribution of actions, values [B, 1]), for example a
            `pfrl_like.nn.Branched`.
        optimizer: Optimiser of the model's parameters.
        obs_normalizer: Normaliser of features. Each update first computes the advantages, then updates the normaliser
            with the collected features, then makes the gradient steps. None disables normalisation.
        gpu: CUDA device index. None or a negative index means the CPU.
        gamma: Discount factor per step.
        lambd: Lambda of the generalised advantage estimate.
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
        device: Device as a string or `torch.device`, instead of `gpu`.
        target_kl: Maximum estimated KL divergence from the behaviour policy, in nats, averaged over an epoch. After an
            epoch with a larger divergence, the remaining epochs of the update are skipped. None disables the limit.
        compile: True to compile the gradient step on a minibatch. Requires Adam, AdamW, RMSprop or SGD, and
            `recurrent=False`. The step is compiled at the second minibatch. The compilation takes about 30 s and is
            logged (level INFO). A change of the coefficients or clipping ranges requires another compilation.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    saved_attributes = ("model", "optimizer", "obs_normalizer")
    _saved_numbers = ("explained_variance",)
    memory = episode_memory

    value_loss_record: deque[float]
    policy_loss_record: deque[float]

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        obs_normalizer: EmpiricalNormalization | None = None,
        gpu: int | None = None,
        gamma: float = 0.99,
        lambd: float = 0.95,
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
        device: torch.device | str | None = None,
        target_kl: float | None = None,
        compile: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.lambd = lambd
        self.value_func_coef, self.entropy_coef = value_func_coef, entropy_coef
        self.update_interval, self.minibatch_size, self.epochs = update_interval, minibatch_size, epochs
        self.clip_eps, self.clip_eps_vf, self.target_kl = clip_eps, clip_eps_vf, target_kl
        self.standardize_advantages = standardize_advantages
        self.max_recurrent_sequence_len = max_recurrent_sequence_len
        self.explained_variance = float("nan")
        windows = {
            "value": value_stats_window, "entropy": entropy_stats_window,
            "value_loss": value_loss_stats_window, "policy_loss": policy_loss_stats_window,
        }  # fmt: skip
        check_lengths(self, "update_interval", "minibatch_size", "epochs", optional=("max_recurrent_sequence_len",))
        check_numbers_in(self, lambd=(0, 1), value_func_coef=(0, None), entropy_coef=(0, None), clip_eps=(0, None))
        check_numbers_in(self, **{n: (0, None) for n in ("clip_eps_vf", "target_kl") if getattr(self, n) is not None})
        super().__init__(
            {"model": model}, {"optimizer": optimizer}, rollout_size=update_interval,
            **keywords_for(OnPolicyAgent, locals()),
        )  # fmt: skip
        if minibatch_size > update_interval:
            self.logger.warning(
                "minibatch_size is %d, but update_interval gives only %d steps: a minibatch contains each step several "
                "times, or once if recurrent=True",
                minibatch_size, update_interval,
            )  # fmt: skip
        check_not_compiled(self, compile)
        self._compiled = CompiledStep(self.update_step, {"optimizer": optimizer}, max_grad_norm) if compile else None

    def learn(self, episodes: Episodes) -> Update:
        """Make gradient steps on the `loss` of minibatches, for at most `epochs` epochs."""
        steps = self._with_advantages(episodes, self.lambd)
        value, advantage, returns = steps.required("value", "advantage", "returns")
        if self.standardize_advantages:
            steps = steps.replace(advantage=self._standardized(episodes, steps))
        episodes = self.normalized_anew(episodes, steps)
        losses: dict[str, list[Tensor]] = {"policy_loss": [], "value_loss": []}
        step = self.gradient_steps["optimizer"]
        if self._compiled is not None and self._overridden_hooks:
            check_not_compiled(self, True)  # a method was overridden after construction
        sizes = self.minibatch_size, self.epochs, self.max_recurrent_sequence_len
        for minibatches in epochs_of(episodes, *sizes, self.learner_group):
            log_ratios = []
            for batch in minibatches:
                if self._compiled is not None:
                    log_ratio, stats = self._compiled(batch)
                    stats["log_ratio"] = log_ratio
                else:
                    loss, stats = self.loss(batch)
                    step(loss)
                self.n_updates += 1
                if self.target_kl is not None:
                    log_ratios.append(stats["log_ratio"])
                for name, values in losses.items():
                    if name in stats:
                        values.append(stats[name])
            if self.target_kl is not None and log_ratios and estimated_kl(self._of_all(log_ratios)) > self.target_kl:
                break
        self.explained_variance = float(explained_variance(value, returns))
        return advantage, {name: torch.stack(values) for name, values in losses.items() if values}

    def _standardized(self, episodes: Episodes, steps: Batch) -> Tensor:
        """Return the standardised advantages of `steps`, [N]. These are the steps of `episodes` with all columns."""
        return standardized(*steps.required("advantage"))

    def _of_all(self, parts: list[Tensor]) -> Tensor:
        """Concatenate rows, in a group of learners the rows of all processes."""
        rows = torch.cat(parts)
        return rows if self.learner_group is None else self.learner_group.rows_of_all(rows)

    def loss(self, batch: Batch) -> Update:
        """Compute `ppo_loss`, or the loss of PFRL's method `_lossfun` if a subclass overrides that method.

        A subclass may also override this method to use another loss.

        Args:
            batch: Steps of features, or packed sequences, with `obs`, `action`, `log_prob`, `value`, `advantage` and
                `returns`.

        Returns:
            The scalar loss, and detached statistics. "policy_loss" and "value_loss" are scalars; they are recorded if
            they are present. "log_ratio" contains the logarithms of the ratios, [N]. It is required if `target_kl` or
            `compile` is set.
        """
        if self._overridden_hooks:
            return loss_of_lossfun(self, *policy_and_value(self.model, batch), batch)
        return ppo_loss(
            self.model, batch, clip_eps=self.clip_eps, clip_eps_vf=self.clip_eps_vf,
            value_func_coef=self.value_func_coef, entropy_coef=self.entropy_coef,
        )  # fmt: skip

    def _lossfun(
        self,
        entropy: Tensor,
        vs_pred: Tensor,
        log_probs: Tensor,
        vs_pred_old: Tensor,
        log_probs_old: Tensor,
        advs: Tensor,
        vs_teacher: Tensor,
    ) -> Tensor:
        """Return the loss, a scalar.

        Args:
            entropy: Entropies of the distributions of actions, [N].
            vs_pred: Values, [N, 1].
            log_probs: Log-probabilities of the actions, [N].
            vs_pred_old: Values at the time of acting, [N, 1].
            log_probs_old: Log-probabilities under the behaviour policy, [N].
            advs: Advantages, [N].
            vs_teacher: Targets of the values, [N, 1].
        """
        loss, stats = ppo_objective(
            log_probs, entropy, vs_pred.squeeze(-1), log_probs_old, vs_pred_old.squeeze(-1), advs,
            vs_teacher.squeeze(-1), None if self._override_batch is None else self._override_batch.weight,
            clip_eps=self.clip_eps, clip_eps_vf=self.clip_eps_vf, value_func_coef=self.value_func_coef,
            entropy_coef=self.entropy_coef,
        )  # fmt: skip
        add_values(self, self._records, stats)
        return loss

    def update_step(self, batch: Batch, step: Step) -> Update:
        """Make a gradient step on a minibatch; return the log-ratios [N] and the losses.

        With `compile=True`, this method is compiled.
        """
        loss, stats = self.loss(batch)
        step("optimizer", loss)
        return stats.pop("log_ratio"), {"loss": loss.detach(), **stats}

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return moving averages, the number of gradient steps, and the explained variance.

        The `*_stats_window` arguments are the numbers of recent values in the averages. An average is NaN before the
        first value. "explained_variance" is 1 - Var(returns - values) / Var(returns) of the last update, or NaN if
        undefined.
        """
        others = [("n_updates", self.n_updates), ("explained_variance", self.explained_variance)]
        return [*self._window_means(), *others]


__getattr__ = old_names(__name__)
