"""Conversion of a network's linear layers to noisy linear layers."""

from typing import Any

from torch import nn

from pfrl_like.nn.noisy_linear import FactorizedNoisyLinear


def to_factorized_noisy(module: nn.Module, *args: Any, **kwargs: Any) -> None:
    """Replace every `torch.nn.Linear` inside a module, at any depth, by a `FactorizedNoisyLinear`, in place.

    Call this function before you make the optimiser. Otherwise the optimiser trains the parameters of the replaced
    layers. A layer that occurs several times is replaced by one noisy layer. Layers inside noisy layers are not
    replaced. Layers of an `nn.MultiheadAttention` are not replaced either, because it does not call its layers. The
    noise is also active in evaluation, as in PFRL.

    Args:
        module: Module whose layers are replaced.
        *args: Arguments of `FactorizedNoisyLinear` after `mu_link`, for example `sigma_scale`.
        **kwargs: Keyword arguments of `FactorizedNoisyLinear`.

    Raises:
        TypeError: If `module` itself is a linear layer, because it cannot be replaced in place.
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
