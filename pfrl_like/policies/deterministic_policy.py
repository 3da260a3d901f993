"""Head of deterministic policies."""

from torch import Tensor, nn

from pfrl_like.distributions.delta import DeltaVector
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class DeterministicHead(nn.Module):
    """Last layer of a network that turns actions [B, n] into a distribution without spread."""

    def forward(self, loc: Tensor) -> DeltaVector:
        """Distribution of batch shape [B] and event shape [n]; samples carry the gradient of `loc`."""
        return DeltaVector(loc)
