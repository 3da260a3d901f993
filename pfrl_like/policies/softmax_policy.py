"""Heads of policies with finitely many actions: last layers of networks."""

from collections.abc import Sequence

from torch import Tensor, nn

from pfrl_like.distributions.categorical import Categorical, ProductOfCategoricals
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class MultiCategoricalHead(nn.Module):
    """Head for logits [..., sum(nvec)] of the actions of a MultiDiscrete space.

    Args:
        nvec: Number of actions of each choice, such as `action_space.nvec`; [2] * n for a MultiBinary space.

    Raises:
        ValueError: If `nvec` is empty, or holds a number less than 1.
    """

    def __init__(self, nvec: Sequence[int]) -> None:
        super().__init__()
        self.nvec = tuple(int(n) for n in nvec)
        if not self.nvec or min(self.nvec) < 1:
            raise ValueError(f"nvec is {self.nvec}, expected positive numbers")

    def forward(self, logits: Tensor) -> ProductOfCategoricals:
        """Distribution of batch shape [...] and event shape [len(nvec)]."""
        return ProductOfCategoricals(logits, self.nvec)


@ignores_training
class SoftmaxCategoricalHead(nn.Module):
    """Head for logits [..., n] of n actions."""

    def forward(self, logits: Tensor) -> Categorical:
        """Distribution of batch shape [...]."""
        return Categorical(logits)
