"""Last layers that make networks policies of finitely many actions."""

from collections.abc import Sequence

from torch import Tensor, nn

from pfrl_like.distributions.categorical import Categorical, ProductOfCategoricals
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class MultiCategoricalHead(nn.Module):
    """Last layer of a network of logits [..., sum(nvec)] for actions of a MultiDiscrete space.

    Args:
        nvec: Number of actions of each choice, such as `action_space.nvec`; [2] * n for a MultiBinary space.

    Raises:
        ValueError: If it is empty, or holds a number less than 1.
    """

    def __init__(self, nvec: Sequence[int]) -> None:
        super().__init__()
        self.nvec = tuple(int(n) for n in nvec)
        if not self.nvec or min(self.nvec) < 1:
            raise ValueError(f"nvec is {self.nvec}, expected positive numbers")

    def forward(self, logits: Tensor) -> ProductOfCategoricals:
        """The distribution, of batch shape [...] and event shape [len(nvec)]."""
        return ProductOfCategoricals(logits, self.nvec)


@ignores_training
class SoftmaxCategoricalHead(nn.Module):
    """Last layer of a network of logits [..., n] of n actions."""

    def forward(self, logits: Tensor) -> Categorical:
        """The distribution, of batch shape [...]."""
        return Categorical(logits)
