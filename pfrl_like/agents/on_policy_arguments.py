"""What an on-policy agent is made of: which parts and numbers fit, and what is said of the others."""

import numbers
from collections.abc import Mapping
from typing import Any

import torch

from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.recurrent import is_recurrent


def check_parts(agent: Any, modules: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Refuse what is no such part, and parts that do not fit together.

    Args:
        agent: The agent, which has the other parts as attributes.
        modules: The modules that learn, by argument.
        optimizers: Their optimisers, likewise.
    """
    for name, module in modules.items():
        _check_kind(name, module, isinstance(module, torch.nn.Module), "a torch.nn.Module")
        if is_recurrent(module) != bool(agent.recurrent):
            keeps = "keeps a" if is_recurrent(module) else "keeps no"
            raise TypeError(
                f"recurrent is {agent.recurrent}, but {name} is a {type(module).__name__}, which {keeps} recurrent "
                "state: recurrent=True and modules made of pfrl_like.nn.RecurrentSequential belong together"
            )
    for name, optimizer in optimizers.items():
        _check_kind(name, optimizer, isinstance(optimizer, torch.optim.Optimizer), "a torch.optim.Optimizer")
        _check_learns(name, optimizer, modules)
    normalizer = agent.obs_normalizer
    fits = normalizer is None or isinstance(normalizer, EmpiricalNormalization)
    _check_kind("obs_normalizer", normalizer, fits, "a pfrl_like.nn.EmpiricalNormalization or None")
    _check_kind("phi", agent.phi, callable(agent.phi), "a function of one observation, or None")
    _check_kind("batch_states", agent.batch_states, callable(agent.batch_states), "a function")
    check_numbers_in(agent, gamma=(0, 1))
    if agent.max_grad_norm is not None:
        check_numbers_in(agent, max_grad_norm=(0, None))


def check_numbers_in(agent: Any, **ranges: tuple[float, float | None]) -> None:
    """Refuse attributes that are no numbers within their range (least, largest or None), both included.

    Raises:
        TypeError: If one is no number.
        ValueError: If one is outside.
    """
    for name, (least, largest) in ranges.items():
        value = getattr(agent, name)
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.80}, expected a number")
        if not (float(value) >= least and (largest is None or float(value) <= largest)):
            expected = f"at least {least}" if largest is None else f"a number from {least} to {largest}"
            raise ValueError(f"{name} is {value!r}, expected {expected}")


def check_lengths(agent: Any, *names: str, optional: tuple[str, ...] = ()) -> None:
    """Refuse attributes that are no positive integers; the `optional` ones may be None."""
    check_counts(**{name: getattr(agent, name) for name in names})
    check_counts(optional=True, **{name: getattr(agent, name) for name in optional})


def _check_kind(name: str, part: Any, fits: bool, expected: str) -> None:
    if not fits:
        raise TypeError(f"{name} is {part!r:.80} ({type(part).__name__}), expected {expected}")


def _check_learns(name: str, optimizer: torch.optim.Optimizer, modules: Mapping[str, torch.nn.Module]) -> None:
    learning = {id(param) for module in modules.values() for param in module.parameters()}
    held = {id(param) for group in optimizer.param_groups for param in group["params"]}
    if learning.isdisjoint(held):
        ways = " or ".join(f"{module}.parameters()" for module in modules)
        raise ValueError(f"{name} holds no parameter of {' or '.join(modules)}: make it of {ways}")
