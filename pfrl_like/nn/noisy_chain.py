"""Conversion of a network's linear layers to noisy linear layers."""

from typing import Any

from torch import nn

from pfrl_like.nn.noisy_linear import FactorizedNoisyLinear


def to_factorized_noisy(module: nn.Module, *args: Any, **kwargs: Any) -> None:
    """Replace every `torch.nn.Linear` inside a module, at any depth and in place, by a `FactorizedNoisyLinear`.

    Call this function before you make the optimiser; otherwise the optimiser has the parameters of the replaced layers.
    A layer that is used in several places is replaced by a single layer. Layers that are already noisy are not
    replaced. Layers of an `nn.MultiheadAttention` are not replaced either, because it does not call them. The noise is
    also active in evaluation, as in PFRL.

    Args:
        module: Module whose layers are replaced.
        *args: Additional arguments of `FactorizedNoisyLinear`, for example `sigma_scale`.
        **kwargs: Additional keyword arguments of `FactorizedNoisyLinear`.

    Raises:
        TypeError: If `module` itself is a linear layer, which cannot be replaced in place.
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
