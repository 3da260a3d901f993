"""Head of deterministic policies."""

from torch import Tensor, nn

from pfrl_like.distributions.delta import DeltaVector
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class DeterministicHead(nn.Module):
    """Last layer of a network. It converts actions, [B, n], to distributions with zero variance."""

    def forward(self, loc: Tensor) -> DeltaVector:
        """Return a distribution of batch shape [B] and event shape [n]. Gradients flow from its samples to `loc`."""
        return DeltaVector(loc)
