"""Policy heads (last layers of networks) for discrete actions."""

from collections.abc import Sequence

from torch import Tensor, nn

from pfrl_like.distributions.categorical import Categorical, ProductOfCategoricals
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class MultiCategoricalHead(nn.Module):
    """Head for a MultiDiscrete action space. Its input is the logits [..., sum(nvec)].

    Args:
        nvec: Number of actions in each dimension, for example `action_space.nvec`. If the space is MultiBinary with
            size n, pass [2] * n.

    Raises:
        ValueError: If `nvec` is empty or contains a number below 1.
    """

    def __init__(self, nvec: Sequence[int]) -> None:
        super().__init__()
        self.nvec = tuple(int(n) for n in nvec)
        if not self.nvec or min(self.nvec) < 1:
            raise ValueError(f"nvec is {self.nvec}, expected positive numbers")

    def forward(self, logits: Tensor) -> ProductOfCategoricals:
        """Return a distribution of batch shape [...] and event shape [len(nvec)]."""
        return ProductOfCategoricals(logits, self.nvec)


@ignores_training
class SoftmaxCategoricalHead(nn.Module):
    """Head for n discrete actions. Its input is the logits [..., n]."""

    def forward(self, logits: Tensor) -> Categorical:
        """Return a distribution of batch shape [...]."""
        return Categorical(logits)
