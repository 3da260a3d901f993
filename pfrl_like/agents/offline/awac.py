"""Advantage-Weighted Actor-Critic (Nair et al. 2020, arXiv:2006.09359)."""

from typing import Any

from torch import Tensor

from pfrl_like.agents.offline.advantage_weighted import AdvantageWeightedActorCritic, sampled_advantage
from pfrl_like.batch import Batch
from pfrl_like.functions.offline import exponential_weight
from pfrl_like.learning.compatibility.parts import check_positive
from pfrl_like.utils.checks import check_counts


class AWAC(AdvantageWeightedActorCritic):
    """Advantage-Weighted Actor-Critic: a recorded action counts min(exp(A(s, a) / lam), max_weight) times.

    The advantage is that over the mean value of actions drawn from the policy.

    Args:
        args: As `AdvantageWeightedActorCritic`.
        lam: Temperature of the weights, positive; the smaller, the more the advantage counts.
        n_action_samples: Actions that are drawn.
        max_weight: Largest weight, positive.
        kwargs: As `AdvantageWeightedActorCritic`.

    Raises:
        ValueError: On values outside those named here, and as `AdvantageWeightedActorCritic`.
        TypeError: As `AdvantageWeightedActorCritic`.
    """

    def __init__(
        self, *args: Any, lam: float = 1.0, n_action_samples: int = 1, max_weight: float = 20.0, **kwargs: Any
    ) -> None:
        self.lam, self.n_action_samples, self.max_weight = lam, n_action_samples, max_weight
        check_positive(self, "lam", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(*args, **kwargs)

    def weight(self, batch: Batch) -> Tensor:
        """`exponential_weight` of the advantage."""
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples)
        return exponential_weight(advantage, self.lam, self.max_weight)
