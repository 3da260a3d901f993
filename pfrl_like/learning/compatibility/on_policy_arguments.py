"""What an on-policy agent is made of: which parts and numbers fit, and what is said of the others."""

from collections.abc import Mapping
from typing import Any

from pfrl_like.learning.compatibility.parts import (
    check_kinds,
    check_max_grad_norm,
    check_numbers_in,
    check_optimizers,
    functions_of,
)
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.utils.recurrent import is_recurrent


def check_parts(agent: Any, modules: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Refuse what is no such part, and parts that do not fit together.

    Args:
        agent: The agent, which has the other parts as attributes.
        modules: The modules that learn, by argument.
        optimizers: Their optimisers, likewise.
    """
    normalizer = agent.obs_normalizer
    fits = normalizer is None or isinstance(normalizer, EmpiricalNormalization)
    expected = "a pfrl_like.nn.EmpiricalNormalization or None"
    check_kinds(modules, optimizers, ("obs_normalizer", normalizer, fits, expected), *functions_of(agent))
    for name, module in modules.items():
        if is_recurrent(module) != bool(agent.recurrent):
            keeps = "keeps a" if is_recurrent(module) else "keeps no"
            raise TypeError(
                f"recurrent is {agent.recurrent}, but {name} is a {type(module).__name__}, which {keeps} recurrent "
                "state: recurrent=True and modules made of pfrl_like.nn.RecurrentSequential belong together"
            )
    check_optimizers(agent, modules, optimizers)
    check_numbers_in(agent, gamma=(0, 1))
    check_max_grad_norm(agent)
