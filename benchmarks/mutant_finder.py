"""The mutants of a package: small mistakes, each in one expression of one function.

A mutant is named by function, operator and occurrence, so that it keeps its name when the function moves to another
file. `finder` looks for the same expression in a later package.
"""

import ast
import copy
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

Tree = dict[str, str]  # sources by path, relative to the package

SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
OPERATOR = {
    ast.Lt: "<", ast.LtE: "<", ast.Gt: "<", ast.GtE: "<", ast.Eq: "==", ast.NotEq: "==", ast.Add: "+", ast.Sub: "+",
    ast.Mult: "*", ast.Div: "*", ast.And: "and", ast.Or: "and",
}  # fmt: skip
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
#: Calls whose arguments are text for people.
MESSAGES = {"warn", "warn_once", "debug", "info", "warning", "error", "exception"}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPOUND = (*FUNCTION, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        function: Qualified name of the function, without module.
        operator: Kind of the mistake.
        occurrence: Its number among those of this function and operator, from 0.
        module: Last part of the module's name.
        expression: The expression that it changes.
        mutated: What the expression becomes.
        repeat: Its number among those of this function and operator whose expression is the same, from 0.
        path: The file, relative to the package.
        start: Offset in the file.
        end: Offset behind what is replaced.
        replacement: What stands there instead.
    """

    function: str
    operator: str
    occurrence: int
    module: str
    expression: str
    mutated: str
    repeat: int
    path: str
    start: int
    end: int
    replacement: str

    def case(self) -> dict[str, Any]:
        """What tells it from others: all that does not depend on the file."""
        return {
            "name": f"{self.function} : {self.operator} : {self.occurrence}", "operator": self.operator,
            "module": self.module, "expression": self.expression, "mutated": self.mutated, "repeat": self.repeat,
        }  # fmt: skip

    def apply(self, source: str) -> str:
        """The file with the mistake in it."""
        return source[: self.start] + self.replacement + source[self.end :]


@dataclass(frozen=True)
class Change:
    """A node, what it becomes, and both as text with as much around them as tells what they mean."""

    operator: str
    node: ast.AST
    new: ast.AST
    expression: str
    mutated: str


def read_tree(package: Path) -> Tree:
    """All sources of a package."""
    return {path.relative_to(package).as_posix(): path.read_text() for path in sorted(package.rglob("*.py"))}


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a file, in the order of its nodes."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = [line.encode() for line in source.splitlines()]
    occurrences: Counter[tuple[str, ...]] = Counter()
    found = []
    for function, change in _changes(ast.parse(source), (), []):
        operator, node = change.operator, change.node
        key, same = (function, operator), (function, operator, change.expression)
        row, end_row = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
        start = starts[row] + len(lines[row][: node.col_offset].decode())  # type: ignore[attr-defined]
        end = starts[end_row] + len(lines[end_row][: node.end_col_offset].decode())  # type: ignore[attr-defined]
        text = ast.unparse(change.new)
        found.append(
            Mutant(
                function, operator, occurrences[key], Path(path).stem, change.expression, change.mutated,
                occurrences[same], path, start, end, text if isinstance(node, ast.stmt) else f"({text})",
            )
        )  # fmt: skip
        occurrences.update((key, same))
    return found


def _changes(node: ast.AST, names: tuple[str, ...], parents: list[ast.AST]) -> Iterator[tuple[str, Change]]:
    """Changes with the qualified names of their functions; texts, annotations and signatures are left out."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.arguments)) or _is_message(node):
        return
    inside = any(isinstance(parent, FUNCTION) for parent in parents)
    if inside:
        yield from ((".".join(names), change) for change in _changes_of(node, parents))
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, (*FUNCTION, ast.ClassDef)):
        names, children = (*names, node.name), node.body
    elif isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value else []
    elif isinstance(node, ast.Assert):
        children = [node.test]
    for child in children:
        yield from _changes(child, names, [*parents, node])


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _called(node.func) in MESSAGES


def _called(function: ast.expr) -> str:
    """The last name of what is called."""
    return ast.unparse(function).rpartition(".")[2] if isinstance(function, (ast.Name, ast.Attribute)) else ""


def _changes_of(node: ast.AST, parents: list[ast.AST]) -> Iterator[Change]:
    """The changes of one node."""
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                if type(op) in SWAPPED:
                    ops = [*node.ops[:i], SWAPPED[type(op)](), *node.ops[i + 1 :]]
                    yield _change(OPERATOR[type(op)], node, ops=ops)
        case ast.BinOp() if type(node.op) in SWAPPED and not (_is_text(node.left) or _is_text(node.right)):
            yield _change(OPERATOR[type(node.op)], node, op=SWAPPED[type(node.op)]())
        case ast.AugAssign() if type(node.op) in SWAPPED and not _is_text(node.value):
            yield _change(OPERATOR[type(node.op)], node, op=SWAPPED[type(node.op)]())
        case ast.BoolOp():
            yield _change("and", node, op=SWAPPED[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield Change("not", node, node.operand, ast.unparse(node), ast.unparse(node.operand))
        case ast.Return(value=ast.Compare()):
            yield _change("return", node, value=ast.UnaryOp(ast.Not(), node.value))
        case ast.Call(func=ast.Attribute(attr="detach")):
            yield Change("detach", node, node.func.value, ast.unparse(node), ast.unparse(node.func.value))
        case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
            yield _change("min", node, func=ast.Name(EXTREMES[name]))
        case ast.Call(func=ast.Attribute(attr=name)) if name in EXTREMES:
            yield _change("min", node, func=ast.Attribute(node.func.value, EXTREMES[name]))
        case ast.Constant(value=bool()) if isinstance(parents[-1], ast.keyword) and parents[-1].arg != "strict":
            yield from _constant("flag", node, parents, not node.value)
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool) and node.value in (0, 1):
            yield from _constant("constant", node, parents, type(node.value)(1 - node.value))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _change(operator: str, node: ast.AST, **fields: Any) -> Change:
    """A change of some fields of a node."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return Change(operator, node, new, ast.unparse(node), ast.unparse(new))


def _constant(operator: str, node: ast.Constant, parents: list[ast.AST], value: Any) -> Iterator[Change]:
    """A change of a constant, which is shown in its expression; of a call, without the other arguments."""
    context: ast.AST = parents[-1]
    if isinstance(context, ast.keyword) and isinstance(parents[-2], ast.Call):
        context = ast.Call(parents[-2].func, [], [context])
    elif isinstance(context, ast.Call):
        context = ast.Call(context.func, [node], [])
    elif not isinstance(context, (ast.expr, ast.Slice, ast.stmt)) or isinstance(context, COMPOUND):
        return
    old, expression = node.value, ast.unparse(context)
    node.value = value
    mutated = ast.unparse(context)
    node.value = old
    yield Change(operator, node, ast.Constant(value), expression, mutated)


def code_lines(source: str) -> int:
    """Lines at which code begins: no comments, and one line of a docstring."""
    return len({node.lineno for node in ast.walk(ast.parse(source)) if hasattr(node, "lineno")})


def draw(tree: Tree, folders: Iterable[str], count: int, *, seed: int = 0, most: int = 2) -> list[Mutant]:
    """A sample of the mutants that are found again by what `Mutant.case` says.

    Args:
        tree: Sources.
        folders: Of the package, in which mutants are drawn; each gets its share by code lines.
        count: Size of the sample.
        seed: Of the draw.
        most: Mutants of one function.

    Returns:
        Mutants in the order of folders, of each operator about as many; fewer than `count` if there are no more.
    """
    sources = {folder: {p: s for p, s in tree.items() if p.startswith(f"{folder}/")} for folder in folders}
    shares = _shares({folder: sum(map(code_lines, those.values())) for folder, those in sources.items()}, count)
    again = finder(tree)
    sample = []
    for folder, those in sources.items():
        found = [mutant for path, source in those.items() for mutant in mutants_of(path, source)]
        found.sort(key=lambda mutant: str(mutant.case()))  # not by file
        random.Random(f"{seed} {folder}").shuffle(found)
        drawn: Counter[str] = Counter()
        for mutant in _in_turns(found):
            if drawn.total() < shares[folder] and drawn[mutant.function] < most and again(mutant.case()) == mutant:
                drawn[mutant.function] += 1
                sample.append(mutant)
    return sample


def _in_turns(mutants: list[Mutant]) -> list[Mutant]:
    """The first mutants of each operator, then the second ones, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for mutant in mutants:
        turns.append(seen[mutant.operator])
        seen[mutant.operator] += 1
    return [mutants[i] for i in sorted(range(len(mutants)), key=turns.__getitem__)]


def _shares(lines: dict[str, int], count: int) -> dict[str, int]:
    """Split a count in proportion, by largest remainders."""
    total = max(1, sum(lines.values()))
    exact = {name: Fraction(count * each, total) for name, each in lines.items()}
    shares = {name: int(each) for name, each in exact.items()}
    by_remainder = sorted(exact, key=lambda name: exact[name] - shares[name], reverse=True)
    for name in by_remainder[: count - sum(shares.values())]:
        shares[name] += 1
    return shares


def finder(tree: Tree) -> Callable[[dict[str, Any]], Mutant | None]:
    """A function that finds a mutant of an earlier package by its case.

    Its function may stand in another module. Functions of that name in several modules: the one in a module of the same
    last name counts. None if the expression is gone, or if several modules remain.
    """
    known: dict[tuple[Any, ...], list[Mutant]] = defaultdict(list)
    for path, source in tree.items():
        for mutant in mutants_of(path, source):
            known[_identity(mutant.case())].append(mutant)

    def find_again(case: dict[str, Any]) -> Mutant | None:
        same = known[_identity(case)]
        if len(same) > 1:
            same = [mutant for mutant in same if mutant.module == case["module"]]
        return same[0] if len(same) == 1 else None

    return find_again


def _identity(case: dict[str, Any]) -> tuple[Any, ...]:
    function = case["name"].split(" : ")[0]
    return function, *(case[name] for name in ("operator", "expression", "mutated", "repeat"))
