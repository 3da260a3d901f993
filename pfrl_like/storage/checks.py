"""Checks that a loaded state dict matches a live module or optimiser. The checks change nothing."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from pfrl_like.errors import CheckpointError

# `_PER_ELEMENT`: keys of the state that torch's optimisers store for each element of a parameter. `_PER_PARAMETER`:
# keys of the state that they store once per parameter.
_PER_ELEMENT = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg", "grad_avg"}
_PER_ELEMENT |= {"acc_delta", "sum", "ax", "prev", "step_size"}
_PER_PARAMETER = {"step", "mu_product", "eta", "mu"}
# `_SQUARES`: keys whose values are sums or means of squares or magnitudes. `_NOT_NEGATIVE`: hyperparameters that torch
# rejects if they are negative.
_SQUARES = {"exp_avg_sq", "max_exp_avg_sq", "exp_inf", "square_avg", "acc_delta", "sum", "step_size"}
_NOT_NEGATIVE = {"lr", "initial_lr", "eps", "weight_decay", "momentum", "lr_decay", "alpha", "rho", "betas"}
# Hyperparameters that torch bounds from above.
_BELOW_ONE, _AT_MOST_ONE = {"betas"}, {"rho"}
# Hyperparameters that choose a kernel. They are not loaded, because a state saved on a GPU must load on a machine
# without a GPU.
_IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable")


def check_like(loaded: Any, live: Mapping[str, Any], path: object) -> None:
    """Raise an error if a state dict has different names, shapes or dtypes than the live model.

    Args:
        loaded: The state dict that was read from the file.
        live: `state_dict()` of the live model, on any device.
        path: The file, for error messages.

    Raises:
        CheckpointError: If a name is missing or unexpected, or a tensor differs in shape or dtype.
    """
    if not isinstance(loaded, dict):
        raise CheckpointError(path, f"contains {type(loaded).__name__}; expected a state dict")
    missing = [name for name in live if name not in loaded]
    unexpected = [name for name in loaded if name not in live]
    if missing or unexpected:
        parts = [f"has no {_listed(missing)}"] * bool(missing) + [f"also has {_listed(unexpected)}"] * bool(unexpected)
        raise CheckpointError(path, f"is the state of a different model: it {' and '.join(parts)}")
    for name, value in live.items():
        actual = loaded[name]
        if isinstance(value, torch.Tensor) != isinstance(actual, torch.Tensor):
            expected = "a tensor" if isinstance(value, torch.Tensor) else type(value).__name__
            raise CheckpointError(path, f"{name} is {type(actual).__name__}; expected {expected}")
        if not isinstance(value, torch.Tensor):
            continue
        if torch.nn.parameter.is_lazy(value):
            raise CheckpointError(path, f"cannot be loaded: live {name} has no shape: call the model first")
        if actual.shape != value.shape or actual.dtype != value.dtype:
            forms = [f"shape {tuple(x.shape)} and dtype {x.dtype}" for x in (actual, value)]
            raise CheckpointError(path, f"{name} has {forms[0]}; expected {forms[1]}")


def non_finite_parameter(model: torch.nn.Module, state: Mapping[str, Any]) -> str | None:
    """Return the name of the first parameter with NaN or infinity in `state`, or None.

    Buffers, for example attention masks, are not checked.
    """
    for name, _ in model.named_parameters(remove_duplicate=False):
        value = state.get(name)
        if isinstance(value, torch.Tensor) and not torch.isfinite(value).all():
            return name
    return None


def nan_state(state: Mapping[Any, Any]) -> str | None:
    """Return the name of the first tensor with NaN in an optimiser's state, or None."""
    for index, entry in state["state"].items():
        for key, value in entry.items() if isinstance(entry, dict) else ():
            if isinstance(value, torch.Tensor) and torch.isnan(value).any():
                return f"state[{index}][{key!r}]"
    return None


def checked_optimizer_state(loaded: Any, optimizer: torch.optim.Optimizer, path: object) -> dict[str, Any]:
    """Return the checked state dict for `optimizer.load_state_dict`.

    Args:
        loaded: The state dict that was read.
        optimizer: The live optimiser. Its choice of kernel (foreach, fused, capturable) is kept.
        path: The file, for error messages.

    Raises:
        CheckpointError: If groups, parameters, hyperparameters or shapes of states do not match `optimizer`.
    """
    try:
        return _checked(loaded, optimizer)
    except ValueError as error:
        raise CheckpointError(path, f"is the state of a different optimiser: {error}") from None


def _checked(loaded: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    live_groups = optimizer.param_groups
    if not isinstance(loaded, dict) or set(loaded) != {"state", "param_groups"}:
        raise ValueError("expected a dict of 'state' and 'param_groups'")
    state, groups = loaded["state"], loaded["param_groups"]
    if not isinstance(state, dict):
        raise ValueError("'state' is not a dict")
    if not isinstance(groups, list) or len(groups) != len(live_groups):
        raise ValueError(f"expected a list of {len(live_groups)} 'param_groups'")
    parameters: dict[int, torch.Tensor] = {}
    checked = []
    for i, (group, live) in enumerate(zip(groups, live_groups, strict=True)):
        indices = group.get("params") if isinstance(group, dict) else None
        if not isinstance(indices, list) or not all(type(index) is int for index in indices):
            raise ValueError(f"param_groups[{i}] has no list 'params'")
        if len(indices) != len(live["params"]):
            raise ValueError(f"param_groups[{i}] has {len(indices)} 'params'; expected {len(live['params'])}")
        parameters.update(zip(indices, live["params"], strict=True))
        checked.append(_checked_group(group, live, optimizer.defaults, f"param_groups[{i}]"))
    if len(parameters) != sum(len(group["params"]) for group in groups):
        raise ValueError("a parameter occurs twice in 'param_groups'")
    for index, entry in state.items():
        if index not in parameters or not isinstance(entry, dict):
            raise ValueError(f"state[{index!r}] does not belong to a parameter")
        live_entry = optimizer.state.get(parameters[index], {})
        for key, value in entry.items():
            _check_state(value, key, parameters[index], live_entry.get(key), f"state[{index}][{key!r}]")
    return {"state": state, "param_groups": checked}


def _checked_group(
    group: Mapping[str, Any], live: Mapping[str, Any], defaults: Mapping[str, Any], where: str
) -> dict[str, Any]:
    checked = dict(group)
    for key, value in live.items():
        if key in _IMPLEMENTATION:
            checked[key] = value
        elif key == "maximize" and group.get(key, value) is not value:
            raise ValueError(f"{where}['maximize'] is {group[key]!r}; expected {value!r}: the sign of the step differs")
        elif key in _NOT_NEGATIVE and _is_negative(group.get(key)) and not _is_negative(value):
            raise ValueError(f"{where}[{key!r}] is {group[key]!r}; expected a number >= 0")
        elif _is_too_large(key, group.get(key)) and not _is_too_large(key, value):
            bound = "numbers below 1" if key in _BELOW_ONE else "a number up to 1"
            raise ValueError(f"{where}[{key!r}] is {group[key]!r}; expected {bound}")
        elif key in group and key not in ("params", "param_names"):
            if not _same_kind(group[key], value):
                raise ValueError(f"{where}[{key!r}] is {group[key]!r}; expected a value like {value!r}")
        elif key in defaults and _is_number(value):
            raise ValueError(f"{where} has no {key!r}")
    return {**checked, **({"maximize": live["maximize"]} if "maximize" in live else {})}  # older files do not have it


def _check_state(value: Any, key: Any, parameter: torch.Tensor, live: Any, where: str) -> None:
    if key in _PER_PARAMETER:
        # PyTorch before 1.12 counted steps in plain integers.
        if not _is_number(value) or (key == "step" and _is_negative(value)):
            raise ValueError(f"{where} is not a finite number, or is negative")
        return
    if isinstance(live, torch.Tensor):
        shape = tuple(live.shape)
    elif key in _PER_ELEMENT:
        shape = tuple(parameter.shape)
    else:
        return
    if value is None and key == "momentum_buffer":  # the state of SGD before its first step
        return
    if not isinstance(value, torch.Tensor) or tuple(value.shape) != shape:
        actual = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"type {type(value).__name__}"
        raise ValueError(f"{where} has {actual}; expected a tensor of shape {shape}")
    if key in _SQUARES and _is_negative(value):
        raise ValueError(f"{where} has negative numbers, expected numbers >= 0")


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and bool(torch.isfinite(value).all())
    return type(value) in (int, float) and -math.inf < value < math.inf


def _is_negative(value: Any) -> bool:
    """True if a number, or one of several numbers, is negative."""
    if isinstance(value, list | tuple):
        return any(map(_is_negative, value))
    if isinstance(value, torch.Tensor):
        return bool(((torch.view_as_real(value) if value.is_complex() else value) < 0).any())
    return type(value) in (int, float) and value < 0


def _is_too_large(key: str, value: Any) -> bool:
    """True if a hyperparameter, or one of its numbers, is too large for torch's constructors."""
    numbers = value if isinstance(value, list | tuple) else [value]
    numbers = [float(number) for number in numbers if _is_number(number)]
    return any(key in _BELOW_ONE and number >= 1 or key in _AT_MOST_ONE and number > 1 for number in numbers)


def _same_kind(loaded: Any, live: Any) -> bool:
    if isinstance(live, list | tuple):
        same_length = isinstance(loaded, list | tuple) and len(loaded) == len(live)
        return same_length and all(_same_kind(a, b) for a, b in zip(loaded, live, strict=True))
    if isinstance(live, bool | str):
        return isinstance(loaded, type(live))
    return _is_number(loaded) if _is_number(live) else True


def _listed(names: list[str]) -> str:
    first = ", ".join(repr(name) for name in names[:5])
    return f"{first} and {len(names) - 5} more" if len(names) > 5 else first
