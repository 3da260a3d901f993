"""Soft Actor-Critic for discrete actions (Christodoulou 2019, arXiv:1910.07207)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.acting import wrong_type, wrong_value
from pfrl_like.agents.critics import distribution_of
from pfrl_like.agents.declared_parts import check_output, check_takes_state
from pfrl_like.agents.dqn import value_of
from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.batch import Batch, map_nested
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.recurrent import is_recurrent, one_step_forward


def probabilities(distribution: Any) -> tuple[Tensor, Tensor]:
    """Probabilities of all actions and their logarithms, both [N, n_actions]; 0 for the logarithm of nothing."""
    probs = distribution.probs
    return probs, torch.where(probs > 0, probs, 1.0).log()


def discrete_sac_next_value(policy: Any, target_critics: Sequence[Any], batch: Batch, temperature: Any) -> Tensor:
    """Mean of min Q'(s', a) - temperature * log pi(a|s') over the policy's actions, [N] (arXiv:1910.07207, eq. 10).

    Args:
        policy: The policy, which gives categorical distributions.
        target_critics: The critics' targets, which give a `DiscreteActionValue`.
        batch: Transitions or sequences.
        temperature: Weight of the entropy.
    """
    distribution = distribution_of(policy, batch, next=True)
    probs, log_probs = probabilities(distribution)
    q = torch.stack([q_values(value_of_state(critic, batch, next=True)) for critic in target_critics]).amin(0)
    mean: Tensor = torch.linalg.vecdot(probs, q - temperature * log_probs)
    return mean


def discrete_sac_policy_loss(
    policy: Any, critics: Sequence[Any], batch: Batch, temperature: Any, accumulator: str = "mean"
) -> tuple[Tensor, Tensor]:
    """Mean of temperature * log pi(a|s) - min Q(s, a) over the policy's actions (arXiv:1910.07207, eq. 12).

    Args:
        policy: The policy, which takes the gradient.
        critics: The critics.
        batch: Transitions or sequences.
        temperature: Weight of the entropy; takes no gradient.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and the entropy, [N], detached.
    """
    probs, log_probs = probabilities(distribution_of(policy, batch))
    with torch.no_grad():
        q = torch.stack([q_values(value_of_state(critic, batch)) for critic in critics]).amin(0)
    loss = torch.linalg.vecdot(probs, temperature * log_probs - q)
    return weighted_mean(loss, batch.weight, accumulator), -torch.linalg.vecdot(probs, log_probs).detach()


def value_of_state(critic: Any, batch: Batch, *, next: bool = False) -> Any:
    """Q(s, .) of every row, or Q(s', .) of the `next` states; a recurrent critic's memory begins with the sequence.

    The states that the batch brings along are those of the policy.
    """
    after_first = None
    if next and batch.lengths is not None and is_recurrent(critic):
        count = len(batch.lengths)
        with torch.no_grad():
            first_obs = map_nested(lambda leaf: leaf[:count], batch.obs)
            _, after_first = one_step_forward(critic, first_obs, None)
    return value_of(critic, batch.replace(recurrent_state=None, next_recurrent_state=after_first), next=next)


def q_values(value: Any) -> Tensor:
    """Q(s, .) of all actions, [N, n_actions].

    Raises:
        TypeError: If it is no plain `DiscreteActionValue`.
    """
    if type(value) is not DiscreteActionValue:
        raise wrong_value(value, DiscreteActionValue, "a critic")
    return value.q_values


def value_of_taken(critic: Any, batch: Batch) -> DiscreteActionValue:
    """Q(s, a) of the actions of the batch, as an action value of one action."""
    return DiscreteActionValue(q_values(value_of_state(critic, batch)).gather(1, batch.action.long().unsqueeze(1)))


class DiscreteSAC(SoftActorCritic):
    """Soft Actor-Critic for discrete actions; forbidden actions are left out everywhere.

    Args:
        args: As `SoftActorCritic`; the policy gives categorical distributions, such as one that ends in a
            `SoftmaxCategoricalHead`, and the critics are Q-functions of the state, `q_func1(obs)`, which give a
            `DiscreteActionValue`. An `entropy_target` is positive here, such as 0.5 * log(n_actions).
        kwargs: As `SoftActorCritic`.

    Raises:
        ValueError: As `SoftActorCritic`.
        TypeError: As `SoftActorCritic`, and if a critic gives something else (one that declares nothing: when a run
            begins, or at the first update).
    """

    value_type: type[Any] = Categorical
    action_kind = ("discrete", "discrete", "another SAC")
    value_of = staticmethod(value_of_taken)
    densities_of = staticmethod(probabilities)

    def check_declared(self, modules: Mapping[str, nn.Module]) -> None:
        """Refuse a policy that is not categorical, and critics that are no plain Q-functions of the state.

        Raises:
            TypeError: Naming the argument.
        """
        check_output("policy", modules["policy"], self.value_type)
        for name in self.critic_names:
            check_takes_state(name, modules[name])
            given = check_output(name, modules[name], DiscreteActionValue)
            if isinstance(given, type) and issubclass(given, DiscreteActionValue) and given is not DiscreteActionValue:
                raise wrong_type(given, DiscreteActionValue, name)

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """`discrete_sac_next_value` of the targets."""
        with evaluating_readers(self.policy):
            mean = discrete_sac_next_value(self.policy, self.bootstrap_critics(), batch, self._temperature())
        return DiscreteActionValue(mean.unsqueeze(1)), batch.reward

    def improve_policy(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Descend on `discrete_sac_policy_loss`, and on the temperature's loss with the entropy itself."""
        loss, entropy = discrete_sac_policy_loss(
            self.policy, self.critics, batch, self._temperature(), self.batch_accumulator
        )
        step("policy_optimizer", loss)
        self.improve_temperature(-entropy, batch, step)
        return {"policy_loss": loss.detach(), "entropy": entropy}
