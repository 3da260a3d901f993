"""Last layers that make networks policies of finitely many actions."""

from torch import Tensor, nn

from pfrl_like.distributions.categorical import Categorical
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class SoftmaxCategoricalHead(nn.Module):
    """Last layer of a network of logits [..., n] of n actions."""

    def forward(self, logits: Tensor) -> Categorical:
        """The distribution, of batch shape [...]."""
        return Categorical(logits)
