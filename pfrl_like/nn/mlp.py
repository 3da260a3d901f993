"""Multi-layer perceptron."""

import itertools
from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.initializers import init_chainer_default, init_lecun_normal
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class MLP(nn.Module):
    """Linear layers with a nonlinearity after each layer except the last.

    Args:
        in_size: Size of the input.
        out_size: Size of the output.
        hidden_sizes: Sizes of the hidden layers; empty for a single linear layer.
        nonlinearity: Function or module that maps a tensor to a tensor of the same shape.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        hidden_sizes: Sequence[int],
        nonlinearity: Callable[[Tensor], Tensor] = F.relu,
        last_wscale: float = 1,
    ) -> None:
        super().__init__()
        self.in_size, self.out_size = in_size, out_size
        self.hidden_sizes = list(hidden_sizes)
        self.nonlinearity = nonlinearity
        sizes = [in_size, *self.hidden_sizes]
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
        # All layers are made before the first is initialised, so that the random numbers are used as in PFRL.
        self.hidden_layers = nn.ModuleList(map(init_chainer_default, layers))
        self.output = nn.Linear(sizes[-1], out_size)
        init_lecun_normal(self.output.weight, scale=last_wscale)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., in_size] to [..., out_size]."""
        for layer in self.hidden_layers:
            x = self.nonlinearity(fast_forward(layer, x))
        out: Tensor = fast_forward(self.output, x)
        return out
