"""Models of ACER: policy, action value and value of a state from one set of features."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import DiscreteActionValue, SingleActionValue
from pfrl_like.batch import map_nested
from pfrl_like.learning.compatibility.declarations import (
    check_distribution,
    check_output,
    check_takes_state,
    kind_of_actions,
)
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.declared import declares, output_of


@declares(output=lambda head: (output_of(head.pi), output_of(head.q), Tensor))
@ignores_training
class ACERDiscreteActionHead(nn.Module):
    """Model of finitely many actions, whose value of a state is the mean of its action values.

    Args:
        pi: Policy, a module from observations to categorical distributions.
        q: Q-function, a module from observations to a `DiscreteActionValue`.

    Raises:
        TypeError: If they give something else.
    """

    def __init__(self, pi: nn.Module, q: nn.Module) -> None:
        super().__init__()
        check_output("pi", pi, Categorical)
        check_takes_state("q", q)
        check_output("q", q, DiscreteActionValue)
        self.pi = pi
        self.q = q

    def forward(self, obs: Any) -> tuple[Any, DiscreteActionValue, Tensor]:
        """The distribution of actions, Q(s, .), and V(s) = sum_a pi(a) Q(s, a), [B]."""
        distribution, action_value = self.pi(obs), self.q(obs)
        return distribution, action_value, torch.linalg.vecdot(distribution.probs, action_value.q_values)


@declares(output=lambda head: (output_of(head.pi), SingleActionValue, Tensor))
@ignores_training
class ACERContinuousActionHead(nn.Module):
    """Model of continuous actions: a stochastic dueling network (arXiv:1611.01224, eq. 13).

    Q(s, a) = V(s) + A(s, a) - mean over i of A(s, u_i), with u_1, ..., u_n drawn from the policy.

    Args:
        pi: Policy, a module from observations to distributions of actions.
        v: Module from observations to V(s), [B, 1].
        adv: Module from (observations, actions) to A(s, a), [B, 1].
        n: Samples of each evaluation.

    Raises:
        TypeError: If the actions of `pi` are discrete, or have no density.
    """

    def __init__(self, pi: nn.Module, v: nn.Module, adv: nn.Module, n: int = 5) -> None:
        super().__init__()
        given = check_output("pi", pi, Distribution)
        check_distribution("pi", given, densities=True)
        if kind_of_actions(given) == "discrete":
            raise TypeError(
                f"pi gives a {given.__name__}, of discrete actions, but this head is for continuous ones: use a "
                "Gaussian head, or ACERDiscreteActionHead for a SoftmaxCategoricalHead"
            )
        self.pi = pi
        self.v = v
        self.adv = adv
        self.n = n

    def forward(self, obs: Any) -> tuple[Any, SingleActionValue, Tensor]:
        """The distribution of actions, Q(s, .), whose every evaluation draws anew, and V(s), [B, 1]."""
        distribution, value = self.pi(obs), self.v(obs)

        def evaluate(action: Tensor) -> Tensor:
            samples = distribution.sample((self.n,)).flatten(0, 1)
            repeated = map_nested(lambda leaf: leaf.expand(self.n, *leaf.shape).flatten(0, 1), obs)
            mean = self.adv((repeated, samples)).view(self.n, -1, 1).mean(0)
            q_value: Tensor = value + self.adv((obs, action)) - mean
            return q_value

        return distribution, SingleActionValue(evaluate), value
