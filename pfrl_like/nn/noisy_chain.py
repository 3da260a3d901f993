"""Conversion of a network's linear layers to noisy ones."""

from typing import Any

from torch import nn

from pfrl_like.nn.noisy_linear import FactorizedNoisyLinear


def to_factorized_noisy(module: nn.Module, *args: Any, **kwargs: Any) -> None:
    """Replace every `torch.nn.Linear` inside a module, at any depth and in place, by a `FactorizedNoisyLinear`.

    Call it before the optimiser is made, which would otherwise hold the parameters of the replaced layers. A layer that
    is used in several places is replaced by a single one. Layers that are already noisy stay, and so do those of an
    `nn.MultiheadAttention`, which does not call them. The noise stays on in evaluation, as in PFRL.

    Args:
        module: The module whose layers are replaced.
        *args: Further arguments of `FactorizedNoisyLinear`, such as `sigma_scale`.
        **kwargs: Further keyword arguments of `FactorizedNoisyLinear`.

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
