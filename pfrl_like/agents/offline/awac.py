"""Advantage-Weighted Actor-Critic (arXiv:2006.09359) and Critic Regularized Regression (arXiv:2006.15134)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.offline.advantage_weighted import AdvantageWeightedActorCritic, sampled_advantage
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import exponential_weight
from pfrl_like.learning.compatibility.parts import check_positive
from pfrl_like.learning.critics import Targets
from pfrl_like.utils.checks import check_choice, check_counts


class AWAC(AdvantageWeightedActorCritic):
    """Advantage-Weighted Actor-Critic: recorded actions have the weights min(exp(A(s, a) / lam), max_weight).

    The advantage A is Q(s, a) less the mean value of actions drawn from the policy.

    Args:
        args: As `AdvantageWeightedActorCritic`.
        lam: Temperature of the weights, positive; the smaller, the more the advantage counts.
        n_action_samples: Actions of the policy drawn in each state.
        max_weight: Largest weight, positive.
        kwargs: As `AdvantageWeightedActorCritic`.

    Raises:
        ValueError: On values outside those named here or in `AdvantageWeightedActorCritic`, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    def __init__(
        self, *args: Any, lam: float = 1.0, n_action_samples: int = 1, max_weight: float = 20.0, **kwargs: Any
    ) -> None:
        self.lam, self.n_action_samples, self.max_weight = lam, n_action_samples, max_weight
        check_positive(self, "lam", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(*args, **kwargs)

    def _weight(self, batch: Batch) -> Tensor:
        """`exponential_weight` of the advantage, [N]."""
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples)
        return exponential_weight(advantage, self.lam, self.max_weight)


#: Reductions of the values of the policy's actions, by `advantage_type`.
EXPECTED: dict[str, Callable[[Tensor, int], Tensor]] = {"mean": torch.mean, "max": torch.amax}


def binary_weight(advantage: Tensor) -> Tensor:
    """1 where the advantage is positive, 0 elsewhere, in its shape (arXiv:2006.15134, eq. 3)."""
    return (advantage > 0).to(advantage.dtype)


class CRR(AdvantageWeightedActorCritic):
    """Critic Regularized Regression: weights recorded actions by their advantage over actions of the policy.

    Critics bootstrap from an action of the policy's target network. With one critic an update equals that of d3rlpy
    2.8. With several critics d3rlpy computes the advantage from their mean value, this agent from the least. d3rlpy
    copies the targets every 100 updates by default.

    Args:
        args: As `AdvantageWeightedActorCritic`.
        advantage_type: "mean" or "max": the reduction of the drawn actions' values that is subtracted from Q(s, a).
        weight_type: "exp" for min(exp(A / beta), max_weight), "binary" for 1 where A is positive and 0 elsewhere.
        beta: Temperature of the exponential weights, positive; the smaller, the more the advantage counts.
        n_action_samples: Actions of the policy drawn in each state.
        max_weight: Largest exponential weight, positive.
        kwargs: As `AdvantageWeightedActorCritic`.

    Raises:
        ValueError: On values outside those named here or in `AdvantageWeightedActorCritic`, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _targets = Targets(moved="every update")

    def __init__(
        self,
        *args: Any,
        advantage_type: str = "mean",
        weight_type: str = "exp",
        beta: float = 1.0,
        n_action_samples: int = 4,
        max_weight: float = 20.0,
        **kwargs: Any,
    ) -> None:
        check_choice("advantage_type", advantage_type, tuple(EXPECTED))
        check_choice("weight_type", weight_type, ("exp", "binary"))
        self.advantage_type, self.weight_type = advantage_type, weight_type
        self.beta, self.n_action_samples, self.max_weight = beta, n_action_samples, max_weight
        check_positive(self, "beta", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(*args, **kwargs)

    def _weight(self, batch: Batch) -> Tensor:
        """`exponential_weight` or `binary_weight` of the advantage, [N]."""
        pool = EXPECTED[self.advantage_type]
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples, pool)
        if self.weight_type == "binary":
            return binary_weight(advantage)
        return exponential_weight(advantage, self.beta, self.max_weight)
