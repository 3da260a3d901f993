"""The size of the house: files, folders, functions, classes, lines of code. Bounds may be lowered, not raised.

A line of code is one that is neither blank nor comment nor docstring.
"""

import ast
import functools
import inspect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pfrl_like
from pfrl_like import agents
from pfrl_like.agent import Agent, AsyncAgent, BatchAgent

PACKAGE = Path(pfrl_like.__file__).parent
TESTS = Path(__file__).parents[1]
#: Lines of code that the package and the tests may have.
MOST_LINES, MOST_LINES_OF_TESTS = 52_300, 66_000
MOST_FILES = 530
#: Files in a folder, beside `__init__.py`: one for each algorithm, each runner.
MOST_IN_A_FOLDER = {"agents": 40, "algos": 40, "experiments": 32}
MOST_LINES_OF_A_FILE = {"learning/off_policy.py": 350}
MOST_LINES_OF_A_FUNCTION, LONGER_FUNCTIONS = 60, 5
#: Classes from an agent to the interface, `Agent` and `BatchAgent` counted as one, and ancestors beside that line.
LONGEST_LINE, MOST_BESIDE = 5, 2
VARIANTS_OF_VARIANTS = ("CalQL", "COMBO")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring(node: Documented) -> range:
    first = node.body[0] if node.body else None
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return range(first.lineno, (first.end_lineno or 0) + 1) if text and first is not None else range(0)


def documented(node: ast.AST) -> Iterator[Documented]:
    """A node and the classes and functions in it; expressions, most of a tree, are passed over."""
    if isinstance(node, Documented):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from documented(child)


@functools.cache
def measured(path: Path) -> tuple[int, list[str]]:
    """The lines of code of a file, and the functions in it that are longer than a screen."""
    source, longer = path.read_text(encoding="utf-8"), []
    lines = {i for i, line in enumerate(source.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    for node in documented(ast.parse(source)):
        text = docstring(node)
        lines.difference_update(text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            length = (node.end_lineno or 0) - node.lineno + 1 - len(text)
            longer += [f"{path}:{node.name}"] * (length > MOST_LINES_OF_A_FUNCTION)
    return len(lines), longer


def lines_of_code(path: Path) -> int:
    return measured(path)[0]


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_the_package_and_the_tests_have_so_many_lines() -> None:
    assert sum(map(lines_of_code, files(PACKAGE))) <= MOST_LINES
    assert sum(map(lines_of_code, files(TESTS))) <= MOST_LINES_OF_TESTS


def test_there_are_few_files_and_no_folder_is_full() -> None:
    paths = files(PACKAGE)
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in paths if path.name != "__init__.py")
    assert len(paths) <= MOST_FILES
    assert not {folder: n for folder, n in folders.items() if n > MOST_IN_A_FOLDER.get(folder, 25)}
    assert [path.name for path in TESTS.glob("*.py")] == ["conftest.py"]


def test_no_file_is_long() -> None:
    lines = {str(path.relative_to(PACKAGE)): lines_of_code(path) for path in files(PACKAGE)}
    assert not {name: n for name, n in lines.items() if n > MOST_LINES_OF_A_FILE.get(name, 300)}


def test_few_functions_are_longer_than_a_screen() -> None:
    found = [name for path in files(PACKAGE) for name in measured(path)[1]]
    assert len(found) <= LONGER_FUNCTIONS, found


def line_to_interface(kind: Any) -> list[Any]:
    """The classes from an agent to `Agent`, by its longest way."""
    if kind is Agent:
        return [Agent]
    ways = [line_to_interface(base) for base in kind.__bases__ if issubclass(base, Agent)]
    return [kind, *max(ways, key=len)]


def test_agents_stand_near_the_interface_with_few_ancestors_beside() -> None:
    for name, kind in vars(agents).items():
        if not (inspect.isclass(kind) and issubclass(kind, Agent)):
            continue
        line = line_to_interface(kind)
        beside = {base for base in kind.__mro__ if base.__module__.startswith("pfrl_like")} - {*line}
        assert len({*line} - {BatchAgent}) <= LONGEST_LINE + (name in VARIANTS_OF_VARIANTS), line
        assert len(beside - {AsyncAgent}) <= MOST_BESIDE, beside  # which is PFRL's interface of A3C and ACER
