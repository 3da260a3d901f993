"""Compares the interface of the package with PFRL's, which `tests/data/pfrl_api.json` holds."""

import ast
import functools
import importlib
import inspect
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from hook_parts import N_ENVS, REPLAYING, made, replaying
from probe_pfrl import names_set_by, signature_of

from pfrl_like.learning.overrides.hooks import HookMethod

ROOT = Path(__file__).parents[2]
FACTS: dict[str, str] = json.loads((ROOT / "tests/data/pfrl_api.json").read_text(encoding="utf-8"))
#: Names of each module, the root's included.
NAMES = {module: [*paths] for module, paths in groupby(FACTS, lambda path: path.partition(":")[0])}
#: Defaults that are alike: nothing is in them.
EMPTY: list[Any] = [[], (), {}, None]
ABSENT = object()


def found(path: str) -> Any:
    """The object of the package at a path of PFRL; `ABSENT` if there is none."""
    module, _, name = path.partition(":")
    try:
        value: Any = importlib.import_module(f"pfrl_like.{module}".removesuffix("."))
    except ModuleNotFoundError:
        return ABSENT
    for part in name.split(".") if name else ():
        value = ABSENT if value is ABSENT else getattr(value, part, ABSENT)
    return ABSENT if isinstance(value, HookMethod) else value  # a method that the agent refuses


@functools.cache
def agent(name: str) -> Any:
    """An agent of one of PFRL's classes; None for the name of another class."""
    return made(name) if name in N_ENVS else replaying(name) if name in REPLAYING else None


def is_attribute(path: str) -> bool:
    """True if the name is an attribute of objects that the class, or a base of it, declares or sets."""
    cls, name = found(path.rpartition(".")[0]), path.rpartition(".")[2]
    own = [each for each in getattr(cls, "__mro__", ()) if each.__module__.startswith("pfrl_like")]
    declared = any(name in inspect.get_annotations(each) or name in names_set_by(each) for each in own)
    return declared or bool(own) and hasattr(agent(cls.__name__), name)


def members(cls: str) -> dict[str, str]:
    """Paths of a class's public members -> paths at which PFRL defines them; inherited ones are included."""
    defined = {}
    for base in (cls, *FACTS[cls].split()[1:]):
        for path in NAMES[base.partition(":")[0]]:
            owner, _, name = path.rpartition(".")
            if owner == base:
                defined.setdefault(f"{cls}.{name}", path)
    return defined


@functools.cache
def parameters(signature: str) -> ast.arguments:
    (function,) = ast.parse(f"def f{signature}: ...").body
    assert isinstance(function, ast.FunctionDef)
    return function.args


def defaults(arguments: ast.arguments) -> dict[str, Any]:
    """Default values, or their names, by parameter."""
    pairs = [*zip(arguments.args[len(arguments.args) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(each, value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    return {each.arg: evaluated(value) for each, value in pairs}


def evaluated(source: ast.expr) -> Any:
    try:
        value = ast.literal_eval(source)
    except ValueError:
        return ast.unparse(source)
    if value is ...:
        return value
    return EMPTY if value in EMPTY else (type(value) is bool, value)  # 0 is 0.0, and not False


def differences_of_parameters(theirs: ast.arguments, ours: ast.arguments, is_method: bool) -> Iterator[str]:
    """Names of the parameters of PFRL that are absent or at another place; with "=" where the defaults differ."""
    places = [each.arg for each in ours.args]
    keywords = {each.arg for each in (*ours.args, *ours.kwonlyargs)}
    for place, each in enumerate(theirs.args):
        if (not is_method or place > 0) and places[place : place + 1] != [each.arg]:
            yield each.arg
    yield from (each.arg for each in theirs.kwonlyargs if each.arg not in keywords)
    wanted, given = defaults(theirs), defaults(ours)
    for name in wanted.keys() & keywords:
        if name not in given or wanted[name] not in (given[name], ...):
            yield f"{name}="
    if theirs.vararg and not ours.vararg:
        yield "*args"
    if theirs.kwarg and not ours.kwarg:
        yield "**kwargs"
    if not theirs.vararg:
        unknown = {*places[is_method:], *keywords.difference(places)} - {each.arg for each in theirs.args}
        yield from (f"{name} has no default" for name in unknown - {each.arg for each in theirs.kwonlyargs} - {*given})


def differences(module: str) -> set[str]:
    """Names and parameters of PFRL's module that are not as PFRL's, written as `pfrl_departures` does."""
    pairs = {}
    for path in NAMES[module]:
        text = FACTS[path]
        if text.split()[0] == "class":
            pairs |= members(path)
        if "." not in path.partition(":")[2]:
            pairs[path] = path
    return {each for path, definition in pairs.items() for each in differences_of_one(path, definition)}


def differences_of_one(path: str, definition: str) -> Iterator[str]:
    ours, text = found(path), FACTS[definition]
    inherited = path != definition and ours is found(definition)
    if inherited or "." in path.partition(":")[2] and found(path.rpartition(".")[0]) is ABSENT:
        return  # the base, or the class, differs
    if ours is ABSENT:
        if text not in ("property", "value") or not is_attribute(path):
            yield path
    elif text.startswith("("):
        if isinstance(ours, type):
            ours = ours.__init__
        own = signature_of(ours, "pfrl_like")
        for name in differences_of_parameters(parameters(text), parameters(own), "." in path.partition(":")[2]):
            yield f"{path}({name})"
    elif ":" in text and text.split()[0] != "class" and ours is not found(text):
        yield path
