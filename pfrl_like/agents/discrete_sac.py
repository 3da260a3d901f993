"""Soft Actor-Critic for discrete actions (Christodoulou 2019, arXiv:1910.07207)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.action_value import DiscreteActionValue, min_of
from pfrl_like.agents.dqn import action_values
from pfrl_like.agents.soft_actor_critic import SoftActorCritic, Temperature, soft_reward
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.learning.compatibility.parts import check_takes_state
from pfrl_like.learning.critics import critic_loss, distribution_of, with_initial_states
from pfrl_like.utils.contexts import NO_LOCK, evaluation_mode


def probabilities(distribution: Any) -> tuple[Tensor, Tensor]:
    """Return probabilities and log-probabilities of all actions, [N, n_actions] each. log(0) is replaced by 0."""
    probs = distribution.probs
    return probs, torch.where(probs > 0, probs, 1.0).log()


def discrete_sac_next_value(policy: Any, target_critics: Sequence[Any], batch: Batch, temperature: Any) -> Tensor:
    """Return E_{a ~ pi}[min_i Q_i'(s', a) - temperature * log pi(a|s')], [N] (arXiv:1910.07207, eq. 10).

    The index i runs over the critics.

    Args:
        policy: Module from observations to categorical distributions pi.
        target_critics: Target networks of the critics. They return a `DiscreteActionValue` that is not distributional.
        batch: Transitions or sequences.
        temperature: Weight of the entropy.
    """
    distribution = distribution_of(policy, batch, next=True)
    probs, log_probs = probabilities(distribution)
    q = torch.stack([value_of_state(critic, batch, next=True).q_values for critic in target_critics]).amin(0)
    return torch.linalg.vecdot(probs, q - temperature * log_probs)  # type: ignore[no-any-return]


def discrete_sac_next_distribution(
    policy: Any, target_critics: Sequence[Any], batch: Batch
) -> tuple[Any, Tensor, Tensor]:
    """Sample an action in each next state; return the output of the critic that gives this action the smallest value.

    A mean of quantiles over the actions is not a quantile of the return. Therefore distributional critics bootstrap
    from one sampled action. The expected value over sampled actions is the value that `discrete_sac_next_value` returns
    without the entropy.

    Returns:
        For each row, the `ActionValue` of the critic with the smallest value; the sampled actions, [N]; and the
        log-probabilities of the sampled actions, [N].
    """
    distribution = distribution_of(policy, batch, next=True)
    action = distribution.sample()
    values = [value_of_state(critic, batch, next=True) for critic in target_critics]
    return min_of(values, action), action, distribution.log_prob(action)


def discrete_sac_next_quantiles(policy: Any, target_critics: Sequence[Any], batch: Batch, temperature: Any) -> Any:
    """Return the mean over actions, with the weights pi(a|s'), of quantiles minus temperature * log pi(a|s').

    The quantiles of an action are those of the critic that gives it the smallest value, as in d3rlpy 2.8.

    Args:
        policy: Module from observations to categorical distributions pi.
        target_critics: Target networks of the critics. They return quantiles or quantile functions.
        batch: Transitions or sequences.
        temperature: Weight of the entropy.

    Returns:
        A `QuantileDiscreteActionValue` with one action.
    """
    probs, log_probs = probabilities(distribution_of(policy, batch, next=True))
    values = [value_of_state(critic, batch, next=True).sampled() for critic in target_critics]
    quantiles = torch.stack([value.quantiles for value in values])
    least = torch.stack([value.q_values for value in values]).argmin(0)[None, :, None].expand_as(quantiles[:1])
    soft = quantiles.gather(0, least)[0] - (temperature * log_probs).unsqueeze(1)
    return type(values[0])((probs.unsqueeze(1) * soft).sum(2, keepdim=True))


def discrete_sac_policy_loss(
    policy: Any, critics: Sequence[Any], batch: Batch, temperature: Any, accumulator: str = "mean"
) -> tuple[Tensor, Tensor]:
    """Compute the mean of E_{a ~ pi}[temperature * log pi(a|s) - min_i Q_i(s, a)] (arXiv:1910.07207, eq. 12).

    The index i runs over the critics.

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        critics: The critics.
        batch: Transitions or sequences.
        temperature: Weight of the entropy, without gradient, or a function from minus the entropy, [N], to the weight.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and the entropy, [N], detached.
    """
    probs, log_probs = probabilities(distribution_of(policy, batch))
    with torch.no_grad():
        q = torch.stack([value_of_state(critic, batch).q_values for critic in critics]).amin(0)
    log_prob = torch.linalg.vecdot(probs, log_probs).detach()
    weight = temperature(log_prob) if callable(temperature) else temperature
    loss = torch.linalg.vecdot(probs, weight * log_probs - q)
    return weighted_mean(loss, batch.weight, accumulator), -log_prob


def value_of_state(critic: Any, batch: Batch, *, next: bool = False) -> Any:
    """Return Q(s, .), or Q(s', .) if `next` is True.

    A recurrent critic starts each sequence from its initial recurrent state.
    """
    return action_values(critic, with_initial_states(critic, batch, next=next), next=next)


class DiscreteSAC(SoftActorCritic):
    """Soft Actor-Critic for discrete actions. Masked actions have probability 0 and are excluded from all losses.

    The critics minimise half the squared TD error, as in the paper. d3rlpy 2.8 differs in two details. Its critics
    minimise the Huber loss of the TD error (`elementwise=huber`). It updates the temperature before it computes the
    policy's loss (`multipliers_first=True`).

    Args:
        policy: Module from observations to categorical distributions, for example one that ends in a
            `SoftmaxCategoricalHead`.
        q_func1: First critic, called as `q_func1(obs)`; it returns a `DiscreteActionValue` or a distributional subclass
            of it.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        initial_temperature: Initial temperature, positive. If `entropy_target` is None, the temperature stays constant
            and may be 0.
        entropy_target: Target entropy, positive, for example 0.5 * log(n_actions). The temperature is learnt to keep
            the policy's entropy near the target. None keeps the temperature constant.
        temperature_optimizer_lr: Learning rate of the Adam optimiser of the temperature; None uses Adam's default.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        elementwise: Function from TD errors to losses, element by element, for critics that are not distributional:
            `half_square`, (y - Q)**2 / 2 as in the paper, if None; `square`, (y - Q)**2, in d3rlpy 2.8.
        multipliers_first: False to update a Lagrange multiplier after the step on the loss that it weights; True to
            update it before, as in d3rlpy 2.8: the loss `temperature * log_prob - Q` then contains the new temperature.
        multiplier_optimizers: Functions from the parameters of a Lagrange multiplier to their optimiser, keyed by the
            name of the multiplier. Adam updates the others.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown. The
            error is also raised when a run begins, if a critic does not return a `DiscreteActionValue`.
    """

    value_type: type[Any] = Categorical
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("discrete", "discrete", "SoftActorCritic")
    value_of = staticmethod(value_of_state)
    _densities_of = staticmethod(probabilities)

    def _check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """Check that the critics do not take the action as input.

        Raises:
            TypeError: If a critic takes the action as input. The message names the argument.
        """
        for name, critic in self._critics_among(modules).items():
            check_takes_state(name, critic)

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic, for the actions of the batch."""
        values = [self.value_of(critic, batch) for critic in self.critics]
        next_action = None
        with torch.no_grad(), NO_LOCK if self.evaluates_critics else evaluation_mode(self.policy):
            bootstrap_inputs = self.policy, self._bootstrap_critics(), batch
            if all(type(value) is DiscreteActionValue for value in values):
                mean = discrete_sac_next_value(*bootstrap_inputs, self._multipliers["temperature"]())
                next_value: Any = DiscreteActionValue(mean.unsqueeze(1))
                reward = batch.reward
            elif all(getattr(value, "averages", False) for value in values):
                next_value = discrete_sac_next_quantiles(*bootstrap_inputs, self._multipliers["temperature"]())
                reward = batch.reward
            else:
                next_value, next_action, log_prob = discrete_sac_next_distribution(*bootstrap_inputs)
                reward = soft_reward(batch, log_prob, self._multipliers["temperature"]())
        action = {"action": batch.action.long(), "next_action": next_action}
        pairs = zip(values, self._rows_of_critics(batch), strict=True)
        return [critic_loss(value, rows, next_value, reward, **action, **self._loss_options) for value, rows in pairs]

    def policy_loss(self, batch: Batch, temperature: Temperature) -> tuple[Tensor, Tensor, Tensor]:
        """Return the policy's loss, the negative entropies and the entropies.

        The loss of the temperature uses the negative entropies in place of log-probabilities of sampled actions. The
        entropies are computed from the probabilities of all actions.
        """
        loss, entropy = discrete_sac_policy_loss(self.policy, self.critics, batch, temperature, self.batch_accumulator)
        return loss, -entropy, entropy
