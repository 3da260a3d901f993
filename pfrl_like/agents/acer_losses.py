"""Losses of ACER, pure functions, and its heads (Wang et al. 2016, arXiv:1611.01224)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence

from pfrl_like.action_value import DiscreteActionValue, SingleActionValue
from pfrl_like.batch import map_nested
from pfrl_like.distributions import parameters_of, with_parameters
from pfrl_like.functions.losses import half_square, trust_region_gradient
from pfrl_like.functions.returns import retrace
from pfrl_like.learning.compatibility.parts import check_takes_state, kind_of_actions
from pfrl_like.learning.model_outputs import OutputError, wrong_value
from pfrl_like.utils.contexts import ignores_training


class Targets(NamedTuple):
    """Targets of consecutive steps, without gradients; all [N].

    Attributes:
        q: Retrace target of Q(s, a).
        advantage: Weight of the log-probability in the loss of the policy.
        value: Target of V(s), for models whose value is not the mean of Q.
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
    """Targets of consecutive steps of one episode (arXiv:1611.01224, eq. 5, 14, algorithms 2, 3).

    Q_ret_t = reward_t + discount_t * (V_{t+1} + c_{t+1} (Q_ret_{t+1} - Q_{t+1})), c = min(1, ratio**(1 / action_size));
    Q_opc is the same with c = 1. The advantage is Q_ret - V, or Q_opc - V; the target of V is
    V + min(1, ratio) (Q_ret - Q).

    Args:
        reward: Reward of each step, [N].
        discount: gamma, or 0 where the step ended in a terminal state, [N].
        q: Q(s, a) of the actions taken, [N].
        value: V(s), [N].
        last_value: Value of the state after the last step, [1].
        ratio: Probability of each action under the policy that learns, divided by that under the one that acted, [N];
            None if they are the same.
        action_size: Numbers in a continuous action; 1 for discrete actions.
        use_Q_opc: True to compute the advantages from Q_opc.
    """
    next_value = torch.cat([value[1:], last_value])
    trace = None if ratio is None else ratio.pow(1 / action_size)
    q_ret = _retrace(reward, discount, q, next_value, trace)
    q_for_policy = _retrace(reward, discount, q, next_value, None) if use_Q_opc else q_ret
    error = q_ret - q
    return Targets(q_ret, q_for_policy - value, value + (error if ratio is None else ratio.clamp(max=1.0) * error))


def _retrace(reward: Tensor, discount: Tensor, q: Tensor, next_value: Tensor, ratio: Tensor | None) -> Tensor:
    """`retrace` of a single column."""
    reward, discount, q, next_value = (x.unsqueeze(1) for x in (reward, discount, q, next_value))
    ratio = None if ratio is None else ratio.unsqueeze(1)
    return retrace(reward, discount, q, next_value, ratio, torch.ones_like(reward, dtype=torch.bool)).squeeze(1)


def policy_loss(
    distribution: Any,
    action: Tensor,
    advantage: Tensor,
    ratio: Tensor | None = None,
    truncation_threshold: float | None = None,
) -> Tensor:
    """-min(c, ratio) * advantage * log pi(a), the truncated importance sampling of arXiv:1611.01224, eq. 7, [N].

    Args:
        distribution: Distributions of actions, of batch shape [N].
        action: Actions taken, [N, ...].
        advantage: Advantage of each action, [N]; takes no gradient.
        ratio: Probability of each action under the policy that learns, divided by that under the one that acted, [N];
            None if they are the same.
        truncation_threshold: c; None for no truncation.
    """
    weight = advantage
    if ratio is not None:
        weight = weight * (ratio if truncation_threshold is None else ratio.clamp(max=truncation_threshold))
    loss: Tensor = -weight * distribution.log_prob(action)
    return loss


def bias_correction(
    distribution: Any, behaviour: Any, action_value: Any, value: Tensor, truncation_threshold: float
) -> Tensor:
    """Correction of the truncated loss of the policy, estimated by the critic (eq. 7, second term), [N].

    -sum_a max(0, pi(a) - c mu(a)) (Q(a) - V) log pi(a) for categorical distributions, and for others
    -max(0, 1 - c mu(a') / pi(a')) (Q(a') - V) log pi(a') of one sample a' of pi.

    Args:
        distribution: Distributions of actions pi, of batch shape [N].
        behaviour: Distributions of the policy that acted, mu.
        action_value: Q(s, .), with `q_values` [N, n_actions] if distributions are categorical.
        value: V(s), [N].
        truncation_threshold: c.
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
    correction: Tensor = -weight * distribution.log_prob(action)
    return correction


def within_trust_region(
    distribution: Any, average: Any, loss: Callable[[Any], Tensor], delta: float
) -> tuple[Tensor, Tensor]:
    """A loss whose gradient keeps the policy near an average policy (arXiv:1611.01224, section 3.3).

    The gradient is taken with respect to the statistics of the distributions, projected by `trust_region_gradient`, and
    propagated from there. The statistics are means and deviations, or the logarithms of the probabilities of
    categorical distributions. The paper takes the probabilities; with logarithms the constraint stays finite where
    probabilities vanish.

    Args:
        distribution: Distributions of actions that are learnt, of batch shape [N].
        average: Distributions of the average policy.
        loss: Function from distributions to the loss of each row, [N].
        delta: Bound of the linearised divergence.

    Returns:
        A loss for each row, [N], of which only the gradient has a meaning; and the divergences
        KL(average || distribution), [N], detached.
    """
    statistics = parameters_of(distribution)
    leaves = [each.detach().requires_grad_(each.requires_grad) for each in statistics]
    learnt = [leaf for leaf in leaves if leaf.requires_grad]
    with torch.enable_grad():
        twin = with_parameters(distribution, *leaves)
        kl = kl_divergence(average, twin)
        gradient = torch.autograd.grad(-loss(twin).sum(), learnt, retain_graph=True)
        kl_gradient = torch.autograd.grad(kl.sum(), learnt)
    direction = trust_region_gradient(_flat(gradient), _flat(kl_gradient), delta)
    learnt = [each for each in statistics if each.requires_grad]
    return -(direction * _flat(learnt)).sum(1), kl.detach()


def _flat(tensors: Any) -> Tensor:
    """Tensors [N, ...], flattened and concatenated to [N, P]."""
    return torch.cat([tensor.flatten(1) for tensor in tensors], 1)


def value_losses(q: Tensor, value: Tensor, targets: Targets, *, learns_value: bool) -> Tensor:
    """(Q_ret - Q)**2 / 2, and (target - V)**2 / 2 if V is learnt separately (arXiv:1611.01224, eq. 14), [N]."""
    loss = half_square(targets.q - q)
    return loss + half_square(targets.value - value) if learns_value else loss


@ignores_training
class ACERDiscreteActionHead(nn.Module):
    """Model of discrete actions, whose value of a state is the mean of its action values.

    Args:
        pi: Policy, a module from observations to categorical distributions.
        q: Q-function, a module from observations to a `DiscreteActionValue`.

    Raises:
        TypeError: If `q` takes actions, too; when the head is called, if `pi` or `q` gives something else.
    """

    def __init__(self, pi: nn.Module, q: nn.Module) -> None:
        super().__init__()
        check_takes_state("q", q)
        self.pi = pi
        self.q = q

    def forward(self, obs: Any) -> tuple[Any, DiscreteActionValue, Tensor]:
        """The distribution of actions, Q(s, .), and V(s) = sum_a pi(a) Q(s, a), [B]."""
        distribution, action_value = self.pi(obs), self.q(obs)
        if not isinstance(distribution, Categorical):
            raise wrong_value(distribution, Categorical, "pi")
        if not isinstance(action_value, DiscreteActionValue):
            raise wrong_value(action_value, DiscreteActionValue, "q")
        return distribution, action_value, torch.linalg.vecdot(distribution.probs, action_value.q_values)


@ignores_training
class ACERContinuousActionHead(nn.Module):
    """Model of continuous actions: a stochastic dueling network (arXiv:1611.01224, eq. 13).

    Q(s, a) = V(s) + A(s, a) - mean over i of A(s, u_i), with u_1, ..., u_n drawn from the policy.

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
        self.pi = pi
        self.v = v
        self.adv = adv
        self.n = n

    def forward(self, obs: Any) -> tuple[Any, SingleActionValue, Tensor]:
        """The distribution of actions, Q(s, .), which draws new samples at every evaluation, and V(s), [B, 1]."""
        distribution, value = self.pi(obs), self.v(obs)
        if kind_of_actions(distribution) == "discrete":
            raise OutputError(
                f"pi gives {type(distribution).__name__}, of discrete actions, but this head is for continuous ones: "
                "use a Gaussian head, or ACERDiscreteActionHead for a SoftmaxCategoricalHead"
            )

        def evaluate(action: Tensor) -> Tensor:
            samples = distribution.sample((self.n,)).flatten(0, 1)
            repeated = map_nested(lambda leaf: leaf.expand(self.n, *leaf.shape).flatten(0, 1), obs)
            mean = self.adv((repeated, samples)).view(self.n, -1, 1).mean(0)
            q_value: Tensor = value + self.adv((obs, action)) - mean
            return q_value

        return distribution, SingleActionValue(evaluate), value
