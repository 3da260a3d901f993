"""No six lines of statements stand twice among the files of agents and of the loops under them."""

import ast
from pathlib import Path

import pytest

import pfrl_like

PACKAGE = Path(pfrl_like.__file__).parent
FILES = sorted(path for folder in ("agents", "learning") for path in (PACKAGE / folder).rglob("*.py"))
WINDOW = 6


def statement_lines(source: str) -> list[list[str]]:
    """The lines of each function's statements, however they are broken and whatever they are indented by.

    Parameter lists, docstrings and the hand-over to `super().__init__` do not count.
    """
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return [[line for statement in function.body for line in lines_of(statement)] for function in functions]


def lines_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef):
        return []  # comes by itself
    if isinstance(statement, ast.Expr) and (
        isinstance(statement.value, ast.Constant) or ast.unparse(statement).startswith("super().__init__(")
    ):
        return []
    return [line.strip() for line in ast.unparse(statement).splitlines()]


def repetitions(sources: dict[str, str]) -> list[str]:
    seen: dict[tuple[str, ...], str] = {}
    found = []
    for name, source in sources.items():
        for lines in statement_lines(source):
            for start in range(len(lines) - WINDOW + 1):
                window = tuple(lines[start : start + WINDOW])
                if window in seen:
                    found.append(f"{name} repeats {seen[window]}: {window}")
                seen[window] = name
    return found


def test_no_six_lines_stand_twice() -> None:
    assert len(FILES) > 60
    assert repetitions({str(path.relative_to(PACKAGE)): path.read_text() for path in FILES}) == []


@pytest.mark.parametrize(("count", "found"), [(5, 0), (6, 1)])
def test_a_repetition_is_found(count: int, found: int) -> None:
    body = "".join(f"    a{i} = b(\n        {i}\n    )\n" for i in range(count))
    sources = {"one.py": f'def f(x):\n    """One."""\n{body}', "two.py": f"class A:\n  def g(self):\n    c()\n{body}"}
    assert len(repetitions(sources)) == found
