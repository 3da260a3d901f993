"""Last layers that make networks policies of bounded actions."""

from torch import Tensor, nn

from pfrl_like.distributions.squashed_gaussian import SquashedGaussian
from pfrl_like.policies.gaussian_policy import halves
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class SquashedGaussianHead(nn.Module):
    """Last layer of a network of 2n numbers for each state: means before squashing, and logarithms of scales.

    Actions are in [-1, 1]. The bounds of the scale are those of the authors of Soft Actor-Critic.

    Args:
        min_log_scale: Smallest logarithm of the standard deviation before squashing; lesser numbers count as it.
        max_log_scale: Largest one.

    Raises:
        ValueError: If the first is not less than the second.
    """

    def __init__(self, min_log_scale: float = -20.0, max_log_scale: float = 2.0) -> None:
        super().__init__()
        if not min_log_scale < max_log_scale:
            raise ValueError(f"min_log_scale is {min_log_scale!r}, expected less than max_log_scale, {max_log_scale!r}")
        self.min_log_scale = min_log_scale
        self.max_log_scale = max_log_scale

    def forward(self, loc_and_log_scale: Tensor) -> SquashedGaussian:
        """The distribution, of batch shape [...] and event shape [n], for an input [..., 2n].

        Raises:
            ValueError: If the input has an odd number of columns.
        """
        loc, log_scale = halves(loc_and_log_scale)
        log_scale = log_scale.clamp(self.min_log_scale, self.max_log_scale)
        return SquashedGaussian(loc, log_scale.exp(), log_scale)
