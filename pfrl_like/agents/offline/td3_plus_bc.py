"""TD3 with behavioural cloning (Fujimoto and Gu 2021, arXiv:2106.06860)."""

from typing import Any

from torch import Tensor

from pfrl_like.agents.td3 import TD3
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.functions.offline import over_mean_size, squared_distance
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import distribution_of, mean_value, value_of


def td3_plus_bc_policy_loss(
    policy: Any, q_function: Any, batch: Batch, alpha: float, accumulator: str = "mean"
) -> Tensor:
    """-alpha * Q(s, pi(s)) / mean |Q| + (pi(s) - a)**2, the square averaged over the numbers of an action.

    (arXiv:2106.06860, section 4.)

    Args:
        policy: The policy, which takes the gradient.
        q_function: The critic.
        batch: Transitions or sequences.
        alpha: Weight of the critic beside that of the recorded actions.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has weights.
    """
    action = distribution_of(policy, batch).rsample()
    q = mean_value(value_of(q_function, batch, action))
    distance = squared_distance(action, batch.action) / action[0].numel()
    return weighted_mean(distance - alpha * over_mean_size(q), batch.weight, accumulator)


class TD3PlusBC(TD3):
    """TD3 whose policy also imitates the actions that it learns from.

    In the paper observations have mean 0 and standard deviation 1 (`preprocessing`). An update is that of d3rlpy 2.8.

    Args:
        args: As `TD3`.
        alpha: Weight of the critic in the policy's loss, where the recorded actions have the weight 1; 0 is imitation
            alone.
        kwargs: As `TD3`.

    Raises:
        ValueError: If `alpha` is negative, and as `TD3`.
        TypeError: As `TD3`.
    """

    is_offline = True

    def __init__(self, *args: Any, alpha: float = 2.5, **kwargs: Any) -> None:
        self.alpha = alpha
        check_numbers_in(self, alpha=(0, None))
        super().__init__(*args, **kwargs)

    def policy_loss(self, batch: Batch) -> Tensor:
        """`td3_plus_bc_policy_loss` of the first critic."""
        return td3_plus_bc_policy_loss(self.policy, self.critics[0], batch, self.alpha, self.batch_accumulator)
