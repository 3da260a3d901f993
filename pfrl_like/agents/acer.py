"""Actor-critic with experience replay (Wang et al. 2016, arXiv:1611.01224)."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Categorical

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
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.copy_param import copy_param, frozen_copy, soft_copy_param

#: Column of the replay buffer with the statistics of the distributions that actions were drawn from.
MU = "mu"


class ACER(AsyncActorCritic, AsyncAgent):
    """Actor-critic with experience replay; `experiments.train_agent_async` trains it in several processes.

    After `t_max` steps, or at an episode's end, it learns from these steps, and then `n_times_replay` times from a part
    of an episode in the replay buffer. Every process has its own replay buffer.

    Args:
        model: Module from observations to a distribution of actions, an `ActionValue` and the value of the state:
            `ACERDiscreteActionHead`, `ACERContinuousActionHead`, or a module with one of them as its last layer.
        optimizer: Optimiser of the model's parameters. The processes share its state.
        t_max: Maximum number of steps between updates. The agent also updates at the end of each episode.
        gamma: Discount factor per step.
        replay_buffer: An episodic replay buffer; None for no replay.
        beta: Weight of the entropy in the loss.
        phi: Feature extractor applied to each observation.
        pi_loss_coef: Weight of the loss of the policy, entropy included.
        Q_loss_coef: Weight of the loss of the values.
        use_trust_region: Keep the policy near an average policy (section 3.3).
        trust_region_alpha: Fraction of the average policy's parameters that is kept at an update.
        trust_region_delta: Bound of the linearised divergence from the average policy.
        truncation_threshold: Largest importance weight; None for no truncation and no correction of the bias.
        disable_online_update: Learn from replay alone.
        n_times_replay: Updates from replay after `t_max` steps.
        replay_start_size: No replay while the buffer holds fewer transitions of finished episodes.
        normalize_loss_by_steps: Divide the loss by the number of steps.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        recurrent: True if the model has the interface of `pfrl_like.nn.Recurrent`. Replay starts from the model's
            recurrent states, which are stored every `t_max` steps; the average model starts from the same states.
        use_Q_opc: Take the advantages of the policy from Q_opc, which has no importance weights, as the paper advises
            for continuous actions.
        average_entropy_decay: Decay of the running mean of the entropy. The mean is only reported as a statistic.
        average_value_decay: Decay of the running mean of the value. The mean is only reported as a statistic.
        average_kl_decay: Decay of the running mean of the divergence from the average policy. The mean is only reported
            as a statistic.
        logger: Logger for rejected updates (non-finite loss or gradient).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If the arguments do not fit together, or if a keyword is unknown.
    """

    average_value: float
    average_entropy: float
    average_kl: float
    _averaged = ("value", "entropy", "kl")
    _further_outputs = (ActionValue, Tensor)
    _model_parts = "(distribution, ActionValue, values)"
    saved_attributes = ("model", "optimizer", "shared_average_model")
    #: Directories of PFRL have no average model: it starts as a copy of the model.
    saved_instead = {"shared_average_model": "model"}

    #: An update from replay takes one sequence.
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
            raise ValueError("disable_online_update is True and replay_buffer is None: nothing would be learnt from")
        self.replay_buffer = replay_buffer
        self.beta = beta
        self.pi_loss_coef = pi_loss_coef
        self.Q_loss_coef = Q_loss_coef
        self.use_trust_region = use_trust_region
        self.trust_region_alpha = trust_region_alpha
        self.trust_region_delta = trust_region_delta
        self.truncation_threshold = truncation_threshold
        self.disable_online_update = disable_online_update
        self.n_times_replay = n_times_replay
        self.replay_start_size = replay_start_size
        self.normalize_loss_by_steps = normalize_loss_by_steps
        self.use_Q_opc = use_Q_opc
        check_counts(least=0, n_times_replay=n_times_replay, replay_start_size=replay_start_size)
        from_0 = ("beta", "pi_loss_coef", "Q_loss_coef", "trust_region_delta")
        check_numbers_in(self, trust_region_alpha=(0, 1), **dict.fromkeys(from_0, (0, None)))
        check_optional_numbers(self, truncation_threshold=(0, None))
        self.shared_average_model = frozen_copy(model)
        self._last_distribution: Any = None
        if "init_history_data_for_online_update" in self._overridden_hooks:
            self.init_history_data_for_online_update()

    @property
    def shared_attributes(self) -> tuple[str, ...]:
        """The model, its average and the optimiser."""
        return ("shared_model", "shared_average_model", "optimizer")

    @property
    def episodic_update_len(self) -> int:
        """Longest sequence of an update from replay, `t_max`."""
        return self.t_max

    # Acting and observing

    def _value(self, obs: Any, active: Any = None) -> Any:
        distribution = super()._value(obs, active)
        if self.training:
            self._last_distribution = distribution
        return distribution

    def _store(self, step: tuple[Any, ...], next_mask: Any, active: Any) -> None:
        """Append the last step to the replay buffer, with the distributions that its actions were drawn from."""
        if self.replay_buffer is None:
            return
        statistics = [each.numpy() for each in parameters_of(self._last_distribution)]
        mu = [tuple(each[i] for each in statistics) for i in range(len(step[2]))]
        store_step(self, step, np.logical_or(step[4], step[5]), next_mask, active, **{MU: mu})

    def stop_episode(self) -> None:
        """Abandon the running episodes: the next steps belong to new ones. Runners call it first."""
        super().stop_episode()
        if self.replay_buffer is not None and self.training and self.batch_last_obs is not None:
            for env_id in range(len(self.batch_last_obs)):
                self.replay_buffer.stop_current_episode(env_id)

    # Learning

    def _learn_from(self, batch: Batch) -> None:
        """Make an update after `t_max` steps or at an episode's end, and then `n_times_replay` updates from replay."""
        if not self.disable_online_update:
            self.learn(batch)
        for _ in range(self.n_times_replay):
            self.update_from_replay()

    def update_from_replay(self) -> None:
        """Learn from a part of an episode in the replay buffer, if the buffer holds enough."""
        buffer: Any = self.replay_buffer
        if buffer is None or len(buffer) < self.replay_start_size or not buffer.n_episodes:
            return
        batch = buffer.sample_sequences(1, self.t_max, self.gamma)
        update = partial(overrides.update_from_sequence, self) if self._overridden_hooks else super().update
        if not buffer.prioritized:
            update(batch)
            return
        error = torch.zeros(0)
        try:
            error, _ = update(batch)
        finally:  # the buffer waits for errors, and a refused update gives none
            buffer.update_priorities(batch.index[: len(error)], error)

    def update(
        self, batch: Any = None, errors_out: list[float] | None = None, **steps: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once, from consecutive steps of one episode; callers change the parameters only through this.

        A subclass may override it in two forms; it is then called for the last steps and for those from replay.
        `update(batch, ...)` gets the steps as a `Batch` of features. The other form gets the arguments of PFRL's
        `update`, by name: `t_start`, `t_stop`, `R`, the value after the steps, and dicts by time, with one row of the
        models' outputs: `actions`, `rewards`, `values`, `action_values`, `action_distribs`, `action_distribs_mu` (None
        for the last steps) and `avg_action_distribs`.

        Args:
            batch: The steps in order, with raw observations.
            errors_out: Cleared and filled with the absolute errors, if given.
            **steps: Within an overridden method, PFRL's arguments in place of `batch`.

        Returns:
            Errors of the values, [N] (of a sequence: the largest, [1]; of PFRL's arguments none, [0]), and the
            statistics of the loss.

        Raises:
            ValueError: If the batch holds several sequences.
            NonFiniteError: If the loss or a gradient is NaN or infinite; nothing is changed. `batch` of the error holds
                the steps.
        """
        return overrides.update_by_loss(self, steps) if steps else super().update(batch, errors_out)

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """`update` for a batch of features instead of observations; the average model follows."""
        learnt = super().learn(batch)
        if self.trust_region_alpha < 1 and self._hooked_batch is None:
            soft_copy_param(self.shared_average_model, self.model, 1 - self.trust_region_alpha)
        return learnt

    def sync_parameters(self) -> None:
        """Copy the shared parameters to the acting model; within PFRL's methods the average model follows, too."""
        copy_param(self.model, self._shared_model)
        if self._hooked_batch is not None and self.trust_region_alpha < 1:
            soft_copy_param(self.shared_average_model, self.model, 1 - self.trust_region_alpha)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Losses of policy and values for consecutive steps; off-policy steps have `mu` in `extra`."""
        distribution, action_value, value = self._outputs_for(batch)
        mu = (batch.extra or {}).get(MU)
        behaviour = None if mu is None else allowed(with_parameters(distribution, *mu), batch.action_mask)
        q = action_value.evaluate_actions(batch.action).reshape(-1)
        with torch.no_grad():
            ratio = None
            if behaviour is not None:
                ratio = (distribution.log_prob(batch.action) - behaviour.log_prob(batch.action)).exp()
            categorical = isinstance(distribution, Categorical)
            targets = acer_targets(
                batch.reward, batch.discount, q, value, self._last_value(batch), ratio,
                action_size=1 if categorical else batch.action[0].numel(), use_Q_opc=self.use_Q_opc,
            )  # fmt: skip

        def of_policy(distribution: Any) -> Tensor:
            threshold = self.truncation_threshold
            loss = policy_loss(distribution, batch.action, targets.advantage, ratio, threshold)
            if behaviour is None or threshold is None:
                return loss
            return loss + bias_correction(distribution, behaviour, action_value, value.detach(), threshold)

        stats: dict[str, Tensor] = {}
        if self.use_trust_region:
            with torch.no_grad():
                average = self._outputs_for(batch, self.shared_average_model)[0]
            pi_loss, stats["kl"] = within_trust_region(distribution, average, of_policy, self.trust_region_delta)
        else:
            pi_loss = of_policy(distribution)
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

    # Methods of PFRL's that a subclass may override

    def _learn_by_hooks(self, statevar: Any) -> None:
        """Call the methods of PFRL's that a subclass overrides, by `update_on_policy`.

        Args:
            statevar: Features of the last observation, tensors [1, ...]; None if it is terminal.
        """
        overrides.lay_out_outputs(self)
        self.update_on_policy(statevar)
        if self.past_rewards:  # if an overridden `update_on_policy` has not cleared the steps
            self.init_history_data_for_online_update()

    def update_on_policy(self, statevar: Any) -> None:
        """Learn from the last steps, unless `disable_online_update`.

        The steps are attributes, dicts by time from `t_start` to before `t`: `past_actions`, `past_rewards`, and, with
        one row of the models' outputs for each, `past_values`, `past_action_values`, `past_action_distrib` and
        `past_avg_action_distrib`.

        Args:
            statevar: Features of the last observation, tensors [1, ...]; None if it is terminal.
        """
        overrides.update_on_policy(self, statevar)

    def init_history_data_for_online_update(self) -> None:
        """Clear the last steps after an update from them; if overridden, it is also called when the agent is built."""
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
        """Loss of consecutive steps, a scalar.

        Args:
            t_start: Time of the first step.
            t_stop: Time after the last step.
            R: Value of the state after the last step.
            actions: Actions, by time.
            rewards: Rewards, by time.
            values: Values of the states, by time.
            action_values: Q(s, .), by time, of one row each.
            action_distribs: The policy's distributions, by time, of batch shape [1].
            action_distribs_mu: Distributions of the policy that acted, by time; None for the last steps, whose policy
                is the same.
            avg_action_distribs: The average policy's distributions, by time.
        """
        times = range(t_start, t_stop)
        action = [torch.as_tensor(actions[time]).unsqueeze(0) for time in times]
        q = torch.cat([action_values[t].evaluate_actions(a).reshape(1) for t, a in zip(times, action, strict=True)])
        value = torch.cat([values[time].reshape(1) for time in times])
        reward = torch.tensor([float(rewards[time]) for time in times])
        mu = [action_distribs_mu[time] if action_distribs_mu else None for time in times]
        categorical = isinstance(action_distribs[t_start], Categorical)
        with torch.no_grad():
            ratios = [_ratio(action_distribs[t], each, a) for t, each, a in zip(times, mu, action, strict=True)]
            targets = acer_targets(
                reward, torch.full_like(reward, self.gamma), q, value, torch.tensor([float(R)]),
                torch.cat(ratios) if action_distribs_mu else None,
                action_size=1 if categorical else action[0].numel(), use_Q_opc=self.use_Q_opc,
            )  # fmt: skip
        pi_loss = torch.cat([
            self.compute_one_step_pi_loss(
                action=action[i], advantage=targets.advantage[i].item(), action_distrib=action_distribs[time],
                action_distrib_mu=mu[i], action_value=action_values[time], v=value[i].item(),
                avg_action_distrib=avg_action_distribs[time],
            ).reshape(1)
            for i, time in enumerate(times)
        ])  # fmt: skip
        losses = self.Q_loss_coef * value_losses(q, value, targets, learns_value=not categorical)
        losses = losses + self.pi_loss_coef * pi_loss
        if self._hooked_batch is not None and self._hooked_batch.weight is not None:
            losses = losses * self._hooked_batch.weight
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
        """Loss of the policy in one step, [1], entropy included.

        Args:
            action: The action, [1, ...].
            advantage: Its advantage.
            action_distrib: The policy's distribution, of batch shape [1].
            action_distrib_mu: Distribution of the policy that acted; None if it is the same.
            action_value: Q(s, .).
            v: Value of the state.
            avg_action_distrib: The average policy's distribution.
        """
        value, threshold = torch.tensor([v]), self.truncation_threshold
        with torch.no_grad():
            ratio = None if action_distrib_mu is None else _ratio(action_distrib, action_distrib_mu, action)

        def of_policy(distribution: Any) -> Tensor:
            loss = policy_loss(distribution, action, torch.tensor([advantage]), ratio, threshold)
            if action_distrib_mu is None or threshold is None:
                return loss
            return loss + bias_correction(distribution, action_distrib_mu, action_value, value, threshold)

        if self.use_trust_region:
            pi_loss, kl = within_trust_region(action_distrib, avg_action_distrib, of_policy, self.trust_region_delta)
            self.average_kl = self._running_mean("kl", kl)
        else:
            pi_loss = of_policy(action_distrib)
        entropy: Tensor = action_distrib.entropy()
        return pi_loss - self.beta * entropy

    def _state_value(self, outputs: Any, action_mask: Tensor | None) -> Tensor:
        """Values of states; if actions are masked, means of the action values under the masked policy."""
        distribution, action_value = outputs[:2]
        if action_mask is None or not hasattr(action_value, "q_values"):
            return outputs[2]  # type: ignore[no-any-return]
        mean: Tensor = torch.linalg.vecdot(allowed(distribution, action_mask).probs, action_value.q_values)
        return mean

    def _outputs_for(self, batch: Batch, model: torch.nn.Module | None = None) -> tuple[Any, Any, Tensor]:
        """Distributions without forbidden actions, action values, and values, [N]."""
        outputs = output_of(self.model if model is None else model, batch)
        value = self._state_value(outputs, batch.action_mask)
        return allowed(outputs[0], batch.action_mask), outputs[1], value.reshape(-1)


def _ratio(distribution: Any, behaviour: Any, action: Tensor) -> Tensor:
    """Probability of an action divided by that under the policy that acted, [1]; 1 if `behaviour` is None."""
    if behaviour is None:
        return torch.ones(1)
    ratio: Tensor = (distribution.log_prob(action) - behaviour.log_prob(action)).exp()
    return ratio
