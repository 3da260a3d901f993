"""Every name that PFRL's example scripts import is here, and every call of theirs binds.

`tests/data/peers/pfrl_examples.json` has the facts: path of the name -> its calls, each the number of positional
arguments, followed by the names of keyword arguments.
"""

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

FACTS = json.loads((Path(__file__).parents[1] / "data/peers/pfrl_examples.json").read_text(encoding="utf-8"))
#: Their `**kwargs` are PFRL's, too.
FORWARDING = {"nn.to_factorized_noisy", "optimizers.SharedRMSpropEpsInsideSqrt", "wrappers.Render"}


def found(path: str) -> Any:
    """The module, or the attribute of a module, at a path of PFRL."""
    module, _, name = path.rpartition(".")
    parent = found(module) if module else importlib.import_module("pfrl_like")
    return getattr(parent, name) if hasattr(parent, name) else importlib.import_module(f"pfrl_like.{path}")


@pytest.mark.parametrize("path", FACTS)
def test_the_name_is_here_and_its_calls_bind(path: str) -> None:
    value = found(path)
    for n_positional, *keywords in FACTS[path]:
        signature = inspect.signature(value)
        signature.bind(*[None] * n_positional, **dict.fromkeys(keywords))
        assert path in FORWARDING or {*keywords} <= {*signature.parameters}
