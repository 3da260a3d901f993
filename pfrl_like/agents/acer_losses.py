"""Losses of ACER as pure functions, and model heads of ACER (Wang et al. 2016, arXiv:1611.01224)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, kl_divergence

from pfrl_like.action_value import DiscreteActionValue, SingleActionValue
from pfrl_like.batch import map_nested
from pfrl_like.distributions import parameters_of, with_parameters
from pfrl_like.functions.losses import half_square, trust_region_gradient
from pfrl_like.functions.returns import retrace
from pfrl_like.learning.compatibility.parts import check_takes_state, kind_of_actions
from pfrl_like.learning.model_outputs import OutputError, wrong_value
from pfrl_like.utils.contexts import ignores_training


class Targets(NamedTuple):
    """Targets of consecutive steps, [N] each. No gradient flows into the targets.

    Attributes:
        q: Retrace target of Q(s, a).
        advantage: Weight of the log-probability in the policy loss.
        value: Target of V(s), for models that learn V separately from Q.
    """

    q: Tensor
    advantage: Tensor
    value: Tensor


def acer_targets(
    reward: Tensor,
    discount: Tensor,
    q: Tensor,
    value: Tensor,
    last_value: Tensor,
    ratio: Tensor | None,
    *,
    action_size: int = 1,
    use_Q_opc: bool = False,
) -> Targets:
    """Compute the targets of consecutive steps of one episode (arXiv:1611.01224, eq. 5, 14, algorithms 2, 3).

    Q_ret_t = reward_t + discount_t * (V_{t+1} + c_{t+1} (Q_ret_{t+1} - Q_{t+1})), c = min(1, ratio**(1 / action_size)).
    Q_opc has the same formula with c = 1. The advantage is Q_ret - V, or Q_opc - V if `use_Q_opc` is True. The target
    of V is V + min(1, ratio) (Q_ret - Q).

    Args:
        reward: Reward of each step, [N].
        discount: gamma, or 0 where the step ended in a terminal state, [N].
        q: Q(s, a) of the actions taken, [N].
        value: V(s), [N].
        last_value: Value of the state after the last step, [1].
        ratio: Importance ratio pi(a) / mu(a) of each action, [N]; mu is the behaviour policy. None if pi and mu are
            equal.
        action_size: Number of dimensions of a continuous action; 1 for discrete actions.
        use_Q_opc: True to compute the advantages from Q_opc.
    """
    next_value = torch.cat([value[1:], last_value])
    trace = None if ratio is None else ratio.pow(1 / action_size)
    same_episode = torch.ones_like(reward, dtype=torch.bool)
    q_ret = retrace(reward, discount, q, next_value, trace, same_episode)
    q_for_policy = retrace(reward, discount, q, next_value, None, same_episode) if use_Q_opc else q_ret
    error = q_ret - q
    return Targets(q_ret, q_for_policy - value, value + (error if ratio is None else ratio.clamp(max=1.0) * error))


def policy_loss(
    distribution: Distribution,
    action: Tensor,
    advantage: Tensor,
    ratio: Tensor | None = None,
    truncation_threshold: float | None = None,
) -> Tensor:
    """Compute the truncated policy loss -min(c, ratio) * advantage * log pi(a), [N] (arXiv:1611.01224, eq. 7).

    Args:
        distribution: Action distributions, batch shape [N].
        action: Actions taken, [N, ...].
        advantage: Advantage of each action, [N]; no gradient flows into it.
        ratio: Importance ratio pi(a) / mu(a) of each action, [N]; mu is the behaviour policy. None if pi and mu are
            equal.
        truncation_threshold: Maximum importance weight c. None disables truncation.
    """
    weight = advantage
    if ratio is not None:
        weight = weight * (ratio if truncation_threshold is None else ratio.clamp(max=truncation_threshold))
    return -weight * distribution.log_prob(action)


def bias_correction(
    distribution: Distribution, behaviour: Any, action_value: Any, value: Tensor, truncation_threshold: float
) -> Tensor:
    """Compute the bias correction of the truncated policy loss with the critic, [N] (eq. 7, second term).

    For categorical distributions the correction is -sum_a max(0, pi(a) - c mu(a)) (Q(a) - V) log pi(a). For other
    distributions it is -max(0, 1 - c mu(a') / pi(a')) (Q(a') - V) log pi(a') with one sample a' from pi.

    Args:
        distribution: Action distributions of the policy pi, batch shape [N].
        behaviour: Action distributions of the behaviour policy mu.
        action_value: Q(s, .). It has `q_values` [N, n_actions] if the distributions are categorical.
        value: V(s), [N].
        truncation_threshold: Maximum importance weight c.
    """
    if isinstance(distribution, Categorical):
        with torch.no_grad():
            weight = (distribution.probs - truncation_threshold * behaviour.probs).clamp_min(0.0)
            weight = weight * (action_value.q_values - value.unsqueeze(1))
        return -torch.linalg.vecdot(weight, distribution.logits)  # type: ignore[no-any-return]
    with torch.no_grad():
        action = distribution.sample()
        inverse_ratio = (behaviour.log_prob(action) - distribution.log_prob(action)).exp()
        weight = (1 - truncation_threshold * inverse_ratio).clamp_min(0.0)
        weight = weight * (action_value.evaluate_actions(action).reshape(-1) - value)
    return -weight * distribution.log_prob(action)  # type: ignore[no-any-return]


def within_trust_region(
    distribution: Any, average: Any, loss: Callable[[Any], Tensor], delta: float
) -> tuple[Tensor, Tensor]:
    """Compute a surrogate loss that keeps the policy near an average policy (arXiv:1611.01224, section 3.3).

    The gradient of the loss with respect to the parameters of the distributions is projected by
    `trust_region_gradient`. The surrogate loss passes the projected gradient from these parameters to the network. The
    parameters are means and standard deviations, or the log-probabilities of categorical distributions. The paper uses
    probabilities. With log-probabilities the constraint stays finite if a probability approaches 0.

    Args:
        distribution: Action distributions of the trained policy, batch shape [N].
        average: Action distributions of the average policy.
        loss: Function called as `loss(distribution)`. It returns the loss of each row, [N].
        delta: Bound of the linearised KL divergence.

    Returns:
        The surrogate loss of each row, [N], and the detached divergences KL(average || distribution), [N]. Only the
        gradient of the surrogate loss is meaningful.
    """
    parameters = parameters_of(distribution)
    leaves = [each.detach().requires_grad_(each.requires_grad) for each in parameters]
    trainable_leaves = [leaf for leaf in leaves if leaf.requires_grad]
    with torch.enable_grad():
        detached_distribution = with_parameters(distribution, *leaves)
        kl = kl_divergence(average, detached_distribution)
        gradient = torch.autograd.grad(-loss(detached_distribution).sum(), trainable_leaves, retain_graph=True)
        kl_gradient = torch.autograd.grad(kl.sum(), trainable_leaves)
    direction = trust_region_gradient(_flat(gradient), _flat(kl_gradient), delta)
    trainable = [each for each in parameters if each.requires_grad]
    return -(direction * _flat(trainable)).sum(1), kl.detach()


def _flat(tensors: Any) -> Tensor:
    """Flatten tensors [N, ...] and concatenate them to [N, P]."""
    return torch.cat([tensor.flatten(1) for tensor in tensors], 1)


def value_losses(q: Tensor, value: Tensor, targets: Targets, *, learns_value: bool) -> Tensor:
    """Compute (Q_ret - Q)**2 / 2, plus (target - V)**2 / 2 if `learns_value`, [N] (arXiv:1611.01224, eq. 14)."""
    loss = half_square(targets.q - q)
    return loss + half_square(targets.value - value) if learns_value else loss


# The output of this module is the same in training mode and in evaluation mode.
@ignores_training
class ACERDiscreteActionHead(nn.Module):
    """Model of ACER for discrete actions. V(s) is the mean of Q(s, a) under the policy.

    Args:
        pi: Policy, a module from observations to categorical distributions.
        q: Q-function, a module from observations to a `DiscreteActionValue`.

    Raises:
        TypeError: At construction, if `q` takes the action as input. When the head is called, if `pi` does not return
            categorical distributions or `q` does not return a `DiscreteActionValue`.
    """

    def __init__(self, pi: nn.Module, q: nn.Module) -> None:
        super().__init__()
        check_takes_state("q", q)
        self.pi, self.q = pi, q

    def forward(self, obs: Any) -> tuple[Any, DiscreteActionValue, Tensor]:
        """Return the action distribution, Q(s, .), and V(s) = sum_a pi(a) Q(s, a), [B]."""
        distribution, action_value = self.pi(obs), self.q(obs)
        if not isinstance(distribution, Categorical):
            raise wrong_value(distribution, Categorical, "pi")
        if not isinstance(action_value, DiscreteActionValue):
            raise wrong_value(action_value, DiscreteActionValue, "q")
        return distribution, action_value, torch.linalg.vecdot(distribution.probs, action_value.q_values)


# The output of this module is the same in training mode and in evaluation mode.
@ignores_training
class ACERContinuousActionHead(nn.Module):
    """Model of ACER for continuous actions, a stochastic dueling network (arXiv:1611.01224, eq. 13).

    Q(s, a) = V(s) + A(s, a) - mean over i of A(s, u_i), where u_1, ..., u_n are sampled from the policy.

    Args:
        pi: Policy, a module from observations to distributions of actions.
        v: Module from observations to V(s), [B, 1].
        adv: Module from (observations, actions) to A(s, a), [B, 1].
        n: Number of samples for each evaluation.

    Raises:
        TypeError: When the head is called, if the actions of `pi` are discrete.
    """

    def __init__(self, pi: nn.Module, v: nn.Module, adv: nn.Module, n: int = 5) -> None:
        super().__init__()
        self.pi, self.v, self.adv = pi, v, adv
        self.n = n

    def forward(self, obs: Any) -> tuple[Any, SingleActionValue, Tensor]:
        """Return the action distribution, Q(s, .), and V(s) [B, 1]. Each evaluation of Q draws new samples."""
        distribution, value = self.pi(obs), self.v(obs)
        if kind_of_actions(distribution) == "discrete":
            raise OutputError(
                f"pi gives {type(distribution).__name__}, a distribution of discrete actions, but this head is "
                "for continuous actions: use a Gaussian head for pi, or ACERDiscreteActionHead in place of this head"
            )

        def evaluate(action: Tensor) -> Tensor:
            samples = distribution.sample((self.n,)).flatten(0, 1)
            repeated = map_nested(lambda leaf: leaf.expand(self.n, *leaf.shape).flatten(0, 1), obs)
            mean = self.adv((repeated, samples)).view(self.n, -1, 1).mean(0)
            return value + self.adv((obs, action)) - mean  # type: ignore[no-any-return]

        return distribution, SingleActionValue(evaluate), value
