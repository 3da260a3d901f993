"""Truncated Quantile Critics (Kuznetsov et al. 2020, arXiv:2005.04269)."""

from collections.abc import Sequence
from typing import Any

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.functions.losses import truncated_mixture
from pfrl_like.learning.critics import average
from pfrl_like.learning.model_outputs import wrong_critic
from pfrl_like.utils.checks import check_counts


class TQC(SoftActorCritic):
    """Soft Actor-Critic with critics of quantiles; the targets leave the largest quantiles out.

    The policy follows the mean of all critics' quantiles.

    Args:
        args: As `SoftActorCritic`; the critics give a `QuantileDiscreteActionValue` of one action, such as a
            `QuantileFCSAQFunction`. More than two are given as `further_q_funcs`; the paper has five of 25 quantiles.
        n_dropped: Number of quantiles that the targets leave out for each critic.
        kwargs: As `SoftActorCritic`.

    Raises:
        ValueError: If `n_dropped` is negative, or on values outside those that `SoftActorCritic` names, with the value
            got; when a run begins, or at the first update, if no quantile is left.
        TypeError: If the parts do not fit together, or on an unknown keyword; when a run begins, if a critic gives no
            quantiles.
    """

    _policy_pool = staticmethod(average)
    _critic_type = QuantileDiscreteActionValue

    def __init__(self, *args: Any, n_dropped: int = 2, **kwargs: Any) -> None:
        check_counts(least=0, n_dropped=n_dropped)
        self.n_dropped = n_dropped
        super().__init__(*args, **kwargs)

    def _pool(self, values: Sequence[Any]) -> QuantileDiscreteActionValue:
        """`truncated_mixture` of the critics' quantiles."""
        for value in values:
            if not isinstance(value, self._critic_type):
                raise wrong_critic(type(value), self._critic_type)
        mixture = truncated_mixture([value.quantiles.squeeze(2) for value in values], self.n_dropped)
        return QuantileDiscreteActionValue(mixture.unsqueeze(2))
