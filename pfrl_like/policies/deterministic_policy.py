"""Policies that always act alike."""

from torch import Tensor, nn

from pfrl_like.distributions.delta import DeltaVector
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class DeterministicHead(nn.Module):
    """Last layer of a network that makes actions [B, n] a distribution of no spread."""

    def forward(self, loc: Tensor) -> DeltaVector:
        """The distribution, of batch shape [B] and event shape [n], whose samples carry the gradient of `loc`."""
        return DeltaVector(loc)
