"""Updates of target networks."""

import copy
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


def frozen_copy(module: nn.Module) -> nn.Module:
    """Return a copy of a module, for use as a target network: in evaluation mode, with frozen parameters."""
    frozen = copy.deepcopy(module).eval().requires_grad_(False)
    for part in frozen.modules():
        if isinstance(part, nn.RNNBase):
            part.flatten_parameters()  # needed because a deep copy makes the weights non-contiguous
    return frozen


def synchronize_parameters(
    src: nn.Module, dst: nn.Module, method: str, tau: float | None = None, unless: Tensor | None = None
) -> None:
    """Update the parameters and buffers of one module from a module with the same structure.

    Args:
        src: Source of the values.
        dst: Module that is changed.
        method: "hard" copies all values. "soft" sets floating-point values to `tau * src + (1 - tau) * dst` and copies
            all other values, for example counters.
        tau: Weight of the source in a soft update, from 0 to 1.
        unless: Scalar tensor on the modules' device. If it is 1, floating-point values stay unchanged; if it is 0, they
            are updated. The scalar is not copied to the CPU. If None, the values are updated.

    Raises:
        ValueError: If `method` is not "hard" or "soft", if `tau` is out of range, or if the modules differ in names,
            shapes or dtypes.
    """
    if method == "hard":
        copy_param(dst, src)
    elif method == "soft":
        if tau is None:
            raise ValueError("tau is None, expected a number from 0 to 1 for a soft update")
        soft_copy_param(dst, src, tau, unless)
    else:
        raise ValueError(f"method is {method!r}, expected 'hard' or 'soft'")


def copy_param(target_link: nn.Module, source_link: nn.Module) -> None:
    """Copy all parameters and buffers of `source_link` into `target_link`."""
    pairs = _pairs(source_link, target_link)
    if pairs is None:
        target_link.load_state_dict(source_link.state_dict())
        return
    with torch.no_grad():
        torch._foreach_copy_([*pairs.dst, *pairs.discrete_dst], [*pairs.src, *pairs.discrete_src])


def check_same_form(target_link: nn.Module, source_link: nn.Module) -> None:
    """Raise an error if the parameters or buffers of two modules do not match.

    Raises:
        ValueError: If the modules differ in names, shapes or dtypes.
    """
    source, target = (
        {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
        for module in (source_link, target_link)
    )
    _check_alike(source, target)


def soft_copy_param(target_link: nn.Module, source_link: nn.Module, tau: float, unless: Tensor | None = None) -> None:
    """Soft update: target = tau * source + (1 - tau) * target (Lillicrap et al. 2015, arXiv:1509.02971).

    Args:
        target_link: Module that is changed.
        source_link: Source of the values.
        tau: Weight of the source, from 0 to 1.
        unless: Scalar tensor on the modules' device. If it is 1, floating-point values stay unchanged; if it is 0, they
            are updated. The scalar is not copied to the CPU. If None, the values are updated.

    Raises:
        ValueError: If `tau` is not from 0 to 1, or if the modules differ in names, shapes or dtypes.
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau is {tau!r}, expected a number from 0 to 1")
    pairs = _pairs(source_link, target_link)
    if pairs is None:
        raise ValueError(f"{type(target_link).__name__} has state that is not a tensor, which cannot be averaged")
    with torch.no_grad():
        if unless is None:
            torch._foreach_lerp_(pairs.dst, pairs.src, tau)
        else:
            differences = torch._foreach_sub(pairs.src, pairs.dst)
            torch._foreach_mul_(differences, tau * (1 - unless))
            torch._foreach_add_(pairs.dst, differences)
        if pairs.discrete_dst:
            torch._foreach_copy_(pairs.discrete_dst, pairs.discrete_src)


def copy_grad(target_link: nn.Module, source_link: nn.Module) -> None:
    """Copy the gradients of the parameters of `source_link` to the parameters of `target_link`."""
    for target, source in zip(target_link.parameters(), source_link.parameters(), strict=True):
        target.grad = None if source.grad is None else source.grad.clone()


# The pairs of corresponding tensors of two modules are cached, as long as both modules contain these tensors.


class _Pairs(NamedTuple):
    source: "weakref.ref[nn.Module]"
    src: list[Tensor]
    dst: list[Tensor]
    discrete_src: list[Tensor]
    discrete_dst: list[Tensor]
    slots: list[tuple[dict[str, Any], str, Tensor]]  # dict that contains the tensor, key, tensor

    def are_valid_for(self, source: nn.Module) -> bool:
        return self.source() is source and all(place.get(name) is tensor for place, name, tensor in self.slots)


_cache: "weakref.WeakKeyDictionary[nn.Module, _Pairs]" = weakref.WeakKeyDictionary()


def _pairs(source: nn.Module, target: nn.Module) -> _Pairs | None:
    """Return the pairs of corresponding tensors. None if a module has state other than parameters and buffers."""
    pairs = _cache.get(target)
    return pairs if pairs is not None and pairs.are_valid_for(source) else _find_pairs(source, target)


def _find_pairs(source: nn.Module, target: nn.Module) -> _Pairs | None:
    sources, targets = _named_slots(source), _named_slots(target)
    if sources is None or targets is None:
        return None
    _check_alike({k: slot[2] for k, slot in sources.items()}, {k: slot[2] for k, slot in targets.items()})
    pairs = _Pairs(weakref.ref(source), [], [], [], [], [*sources.values(), *targets.values()])
    updated: set[int] = set()
    for name, (_, _, dst) in targets.items():
        if id(dst) in updated:
            continue  # a shared parameter is updated only once
        updated.add(id(dst))
        floating = dst.is_floating_point() or dst.is_complex()
        (pairs.src if floating else pairs.discrete_src).append(sources[name][2])
        (pairs.dst if floating else pairs.discrete_dst).append(dst)
    _cache[target] = pairs
    return pairs


def _named_slots(module: nn.Module) -> dict[str, tuple[dict[str, Any], str, Tensor]] | None:
    slots: dict[str, tuple[dict[str, Any], str, Tensor]] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        owner, _, key = name.rpartition(".")
        try:
            part = module.get_submodule(owner)
        except AttributeError:
            return None
        place: dict[str, Any] = part._parameters if key in part._parameters else part._buffers
        if place.get(key) is not value or not isinstance(value, Tensor):
            return None
        slots[name] = (place, key, value)
    return slots


def _check_alike(source: dict[str, Tensor], target: dict[str, Tensor]) -> None:
    if source.keys() != target.keys():
        raise ValueError(f"src and dst differ: only one of them has {sorted(source.keys() ^ target.keys())}")
    for name, tensor in source.items():
        texts = [f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in (tensor, target[name])]
        if texts[0] != texts[1]:
            raise ValueError(f"src and dst differ: {name} is {texts[0]} in src and {texts[1]} in dst")
