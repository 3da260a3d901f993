"""Compositions in tests: the agent that the printed source makes."""

from typing import Any

from pfrl_like.utils import set_random_seed
from pfrl_like.zoo.composition import evaluate, names_of
from pfrl_like.zoo.names import import_of
from pfrl_like.zoo.source import statements


def evaluated(value: Any, given: dict[str, Any], seed: int = 0) -> Any:
    """The result of a composition."""
    set_random_seed(seed)
    return evaluate(value, given)


def run_source(value: Any, given: dict[str, Any], seed: int = 0) -> Any:
    """The result of the source of a composition, which is run with the caller's objects."""
    imports = [import_of(path) for path in names_of(value)]
    lines = [f"from {each.module} import {each.imported}" for each in imports if each.imported]
    modules = [f"import {each.module}" for each in imports if not each.imported]
    scope = dict(given)
    set_random_seed(seed)
    exec("\n".join([*lines, *modules, *statements(value, "result = ")]), scope)
    return scope["result"]
