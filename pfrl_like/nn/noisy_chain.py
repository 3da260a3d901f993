"""Noise for all linear layers of a network."""

from typing import Any

from torch import nn

from pfrl_like.nn.noisy_linear import FactorizedNoisyLinear


def to_factorized_noisy(module: nn.Module, *args: Any, **kwargs: Any) -> None:
    """Replace every `torch.nn.Linear` inside a module, at any depth and in place, by a `FactorizedNoisyLinear`.

    Do this before the optimiser is made, which would otherwise hold the parameters of the layers replaced. A layer
    that stands in several places is replaced by one; layers that are noisy already stay, and so do those of an
    `nn.MultiheadAttention`, which it does not call. The noise stays on in evaluation, as in PFRL.

    Args:
        module: Whose layers are replaced.
        *args: Further arguments of `FactorizedNoisyLinear`, as `sigma_scale`.
        **kwargs: Likewise.

    Raises:
        TypeError: If the module is itself a linear layer, which cannot be replaced in place.
    """
    if isinstance(module, nn.Linear):
        raise TypeError("module is itself a Linear: put it into a Sequential, or use FactorizedNoisyLinear(module)")
    replaced: dict[nn.Module, FactorizedNoisyLinear] = {}
    for part in [*module.modules()]:
        for name, child in part._modules.items():
            if isinstance(child, nn.Linear) and not isinstance(part, FactorizedNoisyLinear | nn.MultiheadAttention):
                if child not in replaced:
                    replaced[child] = FactorizedNoisyLinear(child, *args, **kwargs)
                setattr(part, name, replaced[child])
