"""Multi-layer perceptron with batch normalisation."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.initializers import init_lecun_normal
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class LinearBN(nn.Module):
    """A linear layer followed by batch normalisation (arXiv:1502.03167).

    Args:
        in_size: Size of the input.
        out_size: Size of the output.
    """

    def __init__(self, in_size: int, out_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_size, out_size)
        self.bn = nn.BatchNorm1d(out_size)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, in_size] to [B, out_size]."""
        out: Tensor = self.bn(self.linear(x))
        return out


@ignores_training
class MLPBN(nn.Module):
    """`MLP` with batch normalisation before each nonlinearity (arXiv:1502.03167).

    In training mode a batch must have at least two rows.

    Args:
        in_size: Size of the input.
        out_size: Size of the output.
        hidden_sizes: Sizes of the hidden layers; empty for a single linear layer.
        normalize_input: True to apply batch normalisation to the input, too.
        normalize_output: True to apply batch normalisation to the output, too.
        nonlinearity: Function or module that maps a tensor to a tensor of the same shape.
        last_wscale: Factor by which the initial weights of the last layer are multiplied.
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        hidden_sizes: Sequence[int],
        normalize_input: bool = True,
        normalize_output: bool = False,
        nonlinearity: Callable[[Tensor], Tensor] = F.relu,
        last_wscale: float = 1,
    ) -> None:
        super().__init__()
        self.in_size, self.out_size = in_size, out_size
        self.hidden_sizes = list(hidden_sizes)
        self.normalize_input, self.normalize_output = normalize_input, normalize_output
        self.nonlinearity = nonlinearity
        sizes = [in_size, *self.hidden_sizes]
        if normalize_input:
            self.input_bn = nn.BatchNorm1d(in_size)
        self.hidden_layers = nn.ModuleList(LinearBN(a, b) for a, b in zip(sizes, sizes[1:], strict=False))
        self.output = nn.Linear(sizes[-1], out_size)
        init_lecun_normal(self.output.weight, scale=last_wscale)
        if normalize_output:
            self.output_bn = nn.BatchNorm1d(out_size)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, in_size] to [B, out_size]."""
        if self.normalize_input:
            x = self.input_bn(x)
        for layer in self.hidden_layers:
            x = self.nonlinearity(layer(x))
        x = self.output(x)
        return self.output_bn(x) if self.normalize_output else x
