"""Arguments that are critics and their optimisers, some of them in lists; errors call them as the caller does."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from pfrl_like.learning.compatibility.parts import check_kinds
from pfrl_like.learning.compatibility.replay_arguments import check_pairs
from pfrl_like.q_functions.ensemble import QFunctionEnsemble


def listed(argument: str, parts: Any) -> dict[str, Any]:
    """The parts of an argument that is a list of them, under names such as "q_funcs[0]".

    Raises:
        TypeError: If it is no list, for instance a single part.
    """
    single = isinstance(parts, nn.Module) and not isinstance(parts, nn.ModuleList)  # a Sequential lists its layers
    if single or not isinstance(parts, Iterable) or isinstance(parts, str | Mapping):
        raise TypeError(f"{argument} is a single {type(parts).__name__}, expected a list with one for each critic")
    return {f"{argument}[{i}]": part for i, part in enumerate(parts)}


def numbered(
    q_funcs: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Optimizer]
) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """Critics and their optimisers, by argument, under the names q_func1, q_func1_optimizer, ...

    Raises:
        TypeError: If one is no such part.
        ValueError: If there are not as many of these as of those, or none, or one critic comes twice, or an optimiser
            holds nothing of its critic, or an ensemble is one of several.
    """
    if len(q_funcs) != len(optimizers) or not q_funcs:
        raise ValueError(f"there are {len(q_funcs)} critics and {len(optimizers)} optimisers, expected one for each")
    check_kinds(q_funcs, optimizers)
    if len(set(map(id, q_funcs.values()))) < len(q_funcs):
        raise ValueError("two of the critics are the same module, expected one of its own for each")
    check_pairs(q_funcs, optimizers)
    check_no_ensemble_among(q_funcs)
    names = [f"q_func{i}" for i in range(1, len(q_funcs) + 1)]
    named = {f"{name}_optimizer": optimizer for name, optimizer in zip(names, optimizers.values(), strict=True)}
    return dict(zip(names, q_funcs.values(), strict=True)), named


def check_no_ensemble_among(q_funcs: Mapping[str, nn.Module]) -> None:
    """Refuse an ensemble of critics beside another critic.

    Raises:
        ValueError: If there is one.
    """
    for name, q_func in q_funcs.items() if len(q_funcs) > 1 else ():
        if any(isinstance(part, QFunctionEnsemble) for part in q_func.modules()):
            raise ValueError(
                f"{name} is an ensemble, whose members are the critics, and stands beside another; expected it alone"
            )


def two_or_more(
    q_func1: nn.Module,
    q_func2: nn.Module | None,
    q_func1_optimizer: torch.optim.Optimizer,
    q_func2_optimizer: torch.optim.Optimizer | None,
    further_q_funcs: Any,
    further_q_func_optimizers: Any,
) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """`numbered` for agents that take two critics as arguments of their own and others in lists.

    If the first is an ensemble, the second and its optimiser may be None.
    """
    second: dict[str, Any] = {"q_func2": q_func2}
    second_optimizer: dict[str, Any] = {"q_func2_optimizer": q_func2_optimizer}
    if isinstance(q_func1, QFunctionEnsemble) and q_func2 is None and q_func2_optimizer is None:
        second, second_optimizer = {}, {}
    return numbered(
        {"q_func1": q_func1, **second, **listed("further_q_funcs", further_q_funcs)},
        {
            "q_func1_optimizer": q_func1_optimizer,
            **second_optimizer,
            **listed("further_q_func_optimizers", further_q_func_optimizers),
        },
    )
