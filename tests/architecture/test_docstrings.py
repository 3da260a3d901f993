"""Everything public says what it is; an overriding method may leave that to the method it overrides."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2] / "pfrl_like"
MODULES = [
    ".".join(("pfrl_like", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__main__.py"
]


def public_members(module: Any) -> Iterator[tuple[str, Any]]:
    """Public functions and classes defined in a module, and the methods of those classes that are no Protocols."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for attribute in () if getattr(value, "_is_protocol", False) else vars(value):
                member = getattr(value, attribute)
                is_method = inspect.isroutine(member) or isinstance(member, property)
                if not attribute.startswith("_") and is_method and "<lambda>" not in repr(member):
                    yield f"{name}.{attribute}", member


def test_modules_have_docstrings() -> None:
    assert not [name for name in MODULES if not importlib.import_module(name).__doc__]


def test_public_names_have_docstrings() -> None:
    assert not [
        f"{name}.{member}"
        for name in MODULES
        for member, value in public_members(importlib.import_module(name))
        if not inspect.getdoc(value)
    ]


#: Phrases that readers stumble over, and what to write in their place.
AVOID = {
    r"\b(is|are) told of\b": "is logged",
    r"\bgo(es)? on\b": "continues, resumes",
    r"as if it had never": "is rolled back",
    r"none of this program": "True if ...",
    r"seen, done": "observations, actions, rewards",
    r"\bdescends? on\b": "minimises",
    r"\bhanded (in|on|over)\b": "given, passed",
}


def test_words_are_plain() -> None:
    """In docstrings, comments, errors and logs; a path is named with the phrase and with what to write."""
    odd = {
        (str(path.relative_to(PACKAGE)), found.group(), better)
        for path in sorted(PACKAGE.rglob("*.py"))
        for phrase, better in AVOID.items()
        for found in re.finditer(phrase, path.read_text(encoding="utf-8"))
    }
    assert not odd


def test_a_docstring_begins_with_what_is_returned_or_done() -> None:
    riddles = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                first = (ast.get_docstring(node) or "").split("\n")[0]
                if re.match(r"(What|Whether|How)\b", first):
                    riddles.append(f"{path.name}: {first}")
    assert not riddles
