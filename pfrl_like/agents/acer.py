"""Actor-critic with experience replay (Wang et al. 2016, arXiv:1611.01224)."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import ActionValue
from pfrl_like.agent import AsyncAgent
from pfrl_like.agents.acer_losses import ACERContinuousActionHead as ACERContinuousActionHead
from pfrl_like.agents.acer_losses import ACERDiscreteActionHead as ACERDiscreteActionHead
from pfrl_like.agents.acer_losses import acer_targets, bias_correction, policy_loss, value_losses, within_trust_region
from pfrl_like.batch import Batch
from pfrl_like.distributions import parameters_of, with_parameters
from pfrl_like.learning.async_actor_critic import AsyncActorCritic
from pfrl_like.learning.compatibility.parts import check_numbers_in, check_optional_numbers
from pfrl_like.learning.model_outputs import allowed, output_of
from pfrl_like.learning.overrides import async_actor_critic as overrides
from pfrl_like.learning.recurrent_memory import store_step
from pfrl_like.optimizers.compiled_step import Update
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.copy_param import copy_param, frozen_copy, soft_copy_param
from pfrl_like.utils.old_names import old_names

#: Column of the replay buffer. It contains the parameters of the action distributions of the behaviour policy.
MU = "mu"


class ACER(AsyncActorCritic, AsyncAgent):
    """Actor-critic agent with experience replay. `experiments.train_agent_async` trains it in several processes.

    After `t_max` steps, or at the end of an episode, the agent makes one update from these steps and `n_times_replay`
    updates from the replay buffer. Each update from the replay buffer uses a part of one episode. Every process has its
    own replay buffer.

    Args:
        model: Module from observations to (distribution of actions, `ActionValue`, state value):
            `ACERDiscreteActionHead`, `ACERContinuousActionHead`, or a module that ends in one of these heads.
        optimizer: Optimiser of the model's parameters. The processes share its state.
        t_max: Maximum number of steps between updates. The agent also updates at the end of each episode.
        gamma: Discount factor per step.
        replay_buffer: Episodic replay buffer; None disables replay.
        beta: Weight of the entropy in the loss.
        phi: Feature extractor applied to each observation.
        pi_loss_coef: Weight of the policy loss, including the entropy term.
        Q_loss_coef: Weight of the value loss.
        use_trust_region: True to keep the policy near an average policy (arXiv:1611.01224, section 3.3).
        trust_region_alpha: Weight of the old parameters when the average policy is updated, in [0, 1].
        trust_region_delta: Bound of the linearised KL divergence from the average policy.
        truncation_threshold: Maximum importance weight; None disables truncation and bias correction.
        disable_online_update: True to learn only from replay.
        n_times_replay: Number of updates from replay after each update from the last steps.
        replay_start_size: Number of transitions of finished episodes in the replay buffer at which updates from replay
            begin.
        normalize_loss_by_steps: True to divide the loss by the number of steps.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        recurrent: True if the model has the interface of `pfrl_like.nn.Recurrent`. Replay starts from recurrent states
            of the model that are stored every `t_max` steps. The average model starts from the same states.
        use_Q_opc: True to compute the advantages in the policy loss from Q_opc, which has no importance weights. The
            paper recommends Q_opc for continuous actions.
        average_entropy_decay: Decay of the running mean of the entropy. The mean is a statistic and does not affect
            training.
        average_value_decay: Decay of the running mean of the value. The mean is a statistic and does not affect
            training.
        average_kl_decay: Decay of the running mean of the KL divergence from the average policy. The mean is a
            statistic and does not affect training.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    average_value: float
    average_entropy: float
    average_kl: float
    _averaged = ("value", "entropy", "kl")
    _further_outputs = (ActionValue, Tensor)
    _model_parts = "(distribution, ActionValue, values)"
    saved_attributes = ("model", "optimizer", "shared_average_model")
    #: A directory saved by PFRL contains no average model. `load` then copies the model to the average model.
    saved_instead = {"shared_average_model": "model"}

    #: Names of the attributes that are shared by all processes.
    shared_attributes = ("shared_model", "shared_average_model", "optimizer")
    #: Each update from replay samples one sequence.
    learns_from_sequences = True
    minibatch_size = 1

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        t_max: int,
        gamma: float,
        replay_buffer: AbstractEpisodicReplayBuffer | None,
        beta: float = 1e-2,
        phi: Callable[[Any], Any] | None = None,
        pi_loss_coef: float = 1.0,
        Q_loss_coef: float = 0.5,
        use_trust_region: bool = True,
        trust_region_alpha: float = 0.99,
        trust_region_delta: float = 1,
        truncation_threshold: float | None = 10,
        disable_online_update: bool = False,
        n_times_replay: int = 8,
        replay_start_size: int = 10**4,
        normalize_loss_by_steps: bool = True,
        act_deterministically: bool = False,
        max_grad_norm: float | None = None,
        recurrent: bool = False,
        use_Q_opc: bool = False,
        average_entropy_decay: float = 0.999,
        average_value_decay: float = 0.999,
        average_kl_decay: float = 0.999,
        logger: logging.Logger | None = None,
    ) -> None:
        super().__init__(
            model, optimizer, t_max, gamma, phi=phi, batch_states=batch_states, recurrent=recurrent,
            max_grad_norm=max_grad_norm, act_deterministically=act_deterministically, logger=logger,
            decays={"value": average_value_decay, "entropy": average_entropy_decay, "kl": average_kl_decay},
        )  # fmt: skip
        if replay_buffer is not None and not isinstance(replay_buffer, AbstractEpisodicReplayBuffer):
            raise TypeError(
                f"replay_buffer is {type(replay_buffer).__name__}, but ACER learns from parts of episodes: "
                "use EpisodicReplayBuffer, or None for no replay"
            )
        if replay_buffer is None and disable_online_update:
            raise ValueError("disable_online_update is True and replay_buffer is None: there is nothing to learn from")
        self.replay_buffer, self.beta, self.pi_loss_coef = replay_buffer, beta, pi_loss_coef
        self.Q_loss_coef, self.use_trust_region = Q_loss_coef, use_trust_region
        self.trust_region_alpha, self.trust_region_delta = trust_region_alpha, trust_region_delta
        self.truncation_threshold, self.disable_online_update = truncation_threshold, disable_online_update
        self.n_times_replay, self.replay_start_size = n_times_replay, replay_start_size
        self.normalize_loss_by_steps, self.use_Q_opc = normalize_loss_by_steps, use_Q_opc
        check_counts(least=0, n_times_replay=n_times_replay, replay_start_size=replay_start_size)
        from_0 = ("beta", "pi_loss_coef", "Q_loss_coef", "trust_region_delta")
        check_numbers_in(self, trust_region_alpha=(0, 1), **dict.fromkeys(from_0, (0, None)))
        check_optional_numbers(self, truncation_threshold=(0, None))
        self.shared_average_model = frozen_copy(model)
        self._last_distribution: Any = None
        if "init_history_data_for_online_update" in self._overridden_hooks:
            self.init_history_data_for_online_update()

    @property
    def episodic_update_len(self) -> int:
        """Maximum length of the sequence in an update from replay, `t_max`."""
        return self.t_max

    # Acting and observing

    def _value(self, obs: Any, active: Any = None) -> Any:
        distribution = super()._value(obs, active)
        if self.training:
            self._last_distribution = distribution
        return distribution

    def _store(self, step: tuple[Any, ...], next_mask: Any, active: Any) -> None:
        """Append to the replay buffer the last step and the parameters of the distributions of its actions."""
        if self.replay_buffer is None:
            return
        parameters = [each.numpy() for each in parameters_of(self._last_distribution)]
        mu = [tuple(each[i] for each in parameters) for i in range(len(step[2]))]
        store_step(self, step, np.logical_or(step[4], step[5]), next_mask, active, **{MU: mu})

    def stop_episode(self) -> None:
        """End the running episodes. The next steps start new episodes. Runners call this method before training."""
        super().stop_episode()
        if self.replay_buffer is not None and self.training and self.batch_last_obs is not None:
            for env_id in range(len(self.batch_last_obs)):
                self.replay_buffer.stop_current_episode(env_id)

    # Learning

    def _learn_from(self, batch: Batch) -> None:
        """Make one update from the last steps, then `n_times_replay` updates from the replay buffer."""
        if not self.disable_online_update:
            self.learn(batch)
        for _ in range(self.n_times_replay):
            self.update_from_replay()

    def update_from_replay(self) -> None:
        """Make one update from a part of an episode in the replay buffer, if the buffer is large enough."""
        buffer: Any = self.replay_buffer
        if buffer is None or len(buffer) < self.replay_start_size or not buffer.n_episodes:
            return
        batch = buffer.sample_sequences(1, self.t_max, self.gamma)
        update = partial(overrides.update_from_sequence, self) if self._overridden_hooks else super().update
        error = torch.zeros(0)
        try:
            error, _ = update(batch)
        finally:
            if buffer.prioritized:  # the buffer expects errors after each sample; a rejected update returns no errors
                buffer.update_priorities(batch.index[: len(error)], error)

    def update(self, batch: Any = None, errors_out: list[float] | None = None, **steps: Any) -> Update:
        """Make one update from consecutive steps of one episode. All updates call this method.

        A subclass may override this method with one of two signatures. The agent calls the subclass's method for the
        last steps and for steps from replay. `update(batch, ...)` receives the steps as a `Batch` of features. The
        other signature has the keyword arguments of PFRL's `update`: `t_start`, `t_stop`, `R` (the value after the last
        step), and dicts keyed by time. The dicts are `actions`, `rewards`, `values`, `action_values`,
        `action_distribs`, `action_distribs_mu` (None for the last steps) and `avg_action_distribs`. Each model output
        in a dict has one row.

        Args:
            batch: The steps in order, with raw observations.
            errors_out: If not None, the list is cleared and filled with the absolute errors.
            **steps: PFRL's keyword arguments in place of `batch`. They are allowed only while a subclass's method is
                running, for example its `update_on_policy`.

        Returns:
            The errors of the action values (target minus Q(s, a)) and the statistics of the loss. The errors have shape
            [N]. With a recurrent model they contain only the largest error of the sequence, [1]. With PFRL's arguments
            they are empty, [0].

        Raises:
            ValueError: If the batch contains several sequences.
            NonFiniteError: If the loss or a gradient is NaN or infinite. The agent does not change. The attribute
                `batch` of the error contains the steps.
        """
        return overrides.step_on_compute_loss(self, steps) if steps else super().update(batch, errors_out)

    def learn(self, batch: Batch) -> Update:
        """Update the model with a batch whose observations are features, then update the average model."""
        result = super().learn(batch)
        if self.trust_region_alpha < 1 and self._override_batch is None:
            soft_copy_param(self.shared_average_model, self.model, 1 - self.trust_region_alpha)
        return result

    def sync_parameters(self) -> None:
        """Copy the shared parameters to the acting model. Inside a subclass's method, also update the average model."""
        copy_param(self.model, self._shared_model)
        if self._override_batch is not None and self.trust_region_alpha < 1:
            soft_copy_param(self.shared_average_model, self.model, 1 - self.trust_region_alpha)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return loss, errors and statistics of consecutive steps. Steps from replay have the entry `mu` in `extra`."""
        distribution, action_value, value = self._outputs_for(batch)
        mu = (batch.extra or {}).get(MU)
        behaviour = None if mu is None else allowed(with_parameters(distribution, *mu), batch.action_mask)
        q = action_value.evaluate_actions(batch.action).reshape(-1)
        with torch.no_grad():
            ratio = None if behaviour is None else _ratio(distribution, behaviour, batch.action)
            categorical = isinstance(distribution, Categorical)
            targets = acer_targets(
                batch.reward, batch.discount, q, value, self._last_value(batch), ratio,
                action_size=1 if categorical else batch.action[0].numel(), use_Q_opc=self.use_Q_opc,
            )  # fmt: skip

        def loss_of(distribution: Any) -> Tensor:
            threshold = self.truncation_threshold
            loss = policy_loss(distribution, batch.action, targets.advantage, ratio, threshold)
            if behaviour is None or threshold is None:
                return loss
            return loss + bias_correction(distribution, behaviour, action_value, value.detach(), threshold)

        stats: dict[str, Tensor] = {}
        if self.use_trust_region:
            with torch.no_grad():
                average = self._outputs_for(batch, self.shared_average_model)[0]
            pi_loss, stats["kl"] = within_trust_region(distribution, average, loss_of, self.trust_region_delta)
        else:
            pi_loss = loss_of(distribution)
        entropy = distribution.entropy()
        losses = self.pi_loss_coef * (pi_loss - self.beta * entropy)
        losses = losses + self.Q_loss_coef * value_losses(q, value, targets, learns_value=not categorical)
        if batch.weight is not None:
            losses = losses * batch.weight
        loss = losses.mean() if self.normalize_loss_by_steps else losses.sum()
        stats["loss"] = loss.detach()
        if behaviour is None or self.disable_online_update:
            stats |= {"value": value.detach(), "entropy": entropy.detach()}
        return loss, targets.q - q.detach(), stats

    # PFRL's methods that a subclass may override

    def _learn_by_hooks(self, statevar: Any) -> None:
        """Call `update_on_policy`, which calls the methods of PFRL that a subclass overrides.

        Args:
            statevar: Features of the last observation, tensors [1, ...]; None if it is terminal.
        """
        overrides.store_model_outputs(self)
        self.update_on_policy(statevar)
        if self.past_rewards:  # a subclass's `update_on_policy` may leave the steps in place
            self.init_history_data_for_online_update()

    def update_on_policy(self, statevar: Any) -> None:
        """Learn from the last steps, unless `disable_online_update` is True.

        The steps are stored in attributes. Each attribute is a dict with the keys t_start, ..., t - 1: `past_actions`,
        `past_rewards`, `past_values`, `past_action_values`, `past_action_distrib` and `past_avg_action_distrib`. Each
        model output in a dict has one row.

        Args:
            statevar: Features of the last observation, tensors [1, ...]; None if it is terminal.
        """
        overrides.update_on_policy(self, statevar)

    def init_history_data_for_online_update(self) -> None:
        """Clear the last steps.

        If a subclass overrides this method, the agent calls it in the constructor and after each update from the last
        steps.
        """
        overrides.forget_steps(self)

    def compute_loss(
        self,
        t_start: int,
        t_stop: int,
        R: float,
        actions: Any,
        rewards: Any,
        values: Any,
        action_values: Any,
        action_distribs: Any,
        action_distribs_mu: Any,
        avg_action_distribs: Any,
    ) -> Tensor:
        """Return the loss of consecutive steps, a scalar.

        Args:
            t_start: Time of the first step.
            t_stop: Time after the last step.
            R: Value of the state after the last step.
            actions: Actions, keyed by time.
            rewards: Rewards, keyed by time.
            values: Values of the states, keyed by time.
            action_values: Q(s, .), keyed by time. Each entry has one row.
            action_distribs: Action distributions of the policy, keyed by time, batch shape [1].
            action_distribs_mu: Action distributions of the behaviour policy, keyed by time; None for the last steps,
                because the policy itself has acted.
            avg_action_distribs: Action distributions of the average policy, keyed by time.
        """
        times = range(t_start, t_stop)
        action = [torch.as_tensor(actions[time]).unsqueeze(0) for time in times]
        q = torch.cat([action_values[t].evaluate_actions(a).reshape(1) for t, a in zip(times, action, strict=True)])
        value = torch.cat([values[time].reshape(1) for time in times])
        reward = torch.tensor([float(rewards[time]) for time in times])
        mu = action_distribs_mu or dict.fromkeys(times)
        categorical = isinstance(action_distribs[t_start], Categorical)
        with torch.no_grad():
            pairs = zip(times, action, strict=True) if action_distribs_mu else ()
            ratios = [_ratio(action_distribs[time], action_distribs_mu[time], each) for time, each in pairs]
            targets = acer_targets(
                reward, torch.full_like(reward, self.gamma), q, value, torch.tensor([float(R)]),
                torch.cat(ratios) if ratios else None,
                action_size=1 if categorical else action[0].numel(), use_Q_opc=self.use_Q_opc,
            )  # fmt: skip
        pi_loss = torch.cat([
            self.compute_one_step_pi_loss(
                action=action[i], advantage=targets.advantage[i].item(), action_distrib=action_distribs[time],
                action_distrib_mu=mu[time], action_value=action_values[time], v=value[i].item(),
                avg_action_distrib=avg_action_distribs[time],
            ).reshape(1)
            for i, time in enumerate(times)
        ])  # fmt: skip
        losses = self.Q_loss_coef * value_losses(q, value, targets, learns_value=not categorical)
        losses = losses + self.pi_loss_coef * pi_loss
        if self._override_batch is not None and self._override_batch.weight is not None:
            losses = losses * self._override_batch.weight
        return losses.mean() if self.normalize_loss_by_steps else losses.sum()

    def compute_one_step_pi_loss(
        self,
        action: Tensor,
        advantage: float,
        action_distrib: Any,
        action_distrib_mu: Any,
        action_value: Any,
        v: float,
        avg_action_distrib: Any,
    ) -> Tensor:
        """Return the policy loss of one step, [1], including the entropy term.

        Args:
            action: The action, [1, ...].
            advantage: Advantage of the action.
            action_distrib: Action distribution of the policy, batch shape [1].
            action_distrib_mu: Action distribution of the behaviour policy; None if the policy itself has acted.
            action_value: Q(s, .).
            v: Value of the state.
            avg_action_distrib: Action distribution of the average policy.
        """
        value, threshold = torch.tensor([v]), self.truncation_threshold
        with torch.no_grad():
            ratio = None if action_distrib_mu is None else _ratio(action_distrib, action_distrib_mu, action)

        def loss_of(distribution: Any) -> Tensor:
            loss = policy_loss(distribution, action, torch.tensor([advantage]), ratio, threshold)
            if action_distrib_mu is None or threshold is None:
                return loss
            return loss + bias_correction(distribution, action_distrib_mu, action_value, value, threshold)

        if self.use_trust_region:
            pi_loss, kl = within_trust_region(action_distrib, avg_action_distrib, loss_of, self.trust_region_delta)
            self.average_kl = self._running_mean("kl", kl)
        else:
            pi_loss = loss_of(action_distrib)
        return pi_loss - self.beta * action_distrib.entropy()  # type: ignore[no-any-return]

    def _state_value(self, outputs: Any, action_mask: Tensor | None) -> Tensor:
        """Return the state values. If actions are masked, V(s) is the mean of Q(s, a) under the masked policy."""
        distribution, action_value = outputs[:2]
        if action_mask is None or not hasattr(action_value, "q_values"):
            return outputs[2]  # type: ignore[no-any-return]
        probs = allowed(distribution, action_mask).probs
        return torch.linalg.vecdot(probs, action_value.q_values)  # type: ignore[no-any-return]

    def _outputs_for(self, batch: Batch, model: torch.nn.Module | None = None) -> tuple[Any, Any, Tensor]:
        """Return the masked action distributions, the action values, and the state values [N]."""
        outputs = output_of(self.model if model is None else model, batch)
        value = self._state_value(outputs, batch.action_mask)
        return allowed(outputs[0], batch.action_mask), outputs[1], value.reshape(-1)


def _ratio(distribution: Distribution, behaviour: Distribution, action: Tensor) -> Tensor:
    """Return the importance ratio pi(a) / mu(a) of each action, [N], where mu is the behaviour policy."""
    return (distribution.log_prob(action) - behaviour.log_prob(action)).exp()


__getattr__ = old_names(__name__)
