"""What may not stand in the tree: unfinished places, machine-specific paths, unsafe reading."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("pfrl_like", "examples", "benchmarks", "tests", "docs", ".ci")
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()] + [*ROOT.iterdir()]
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted(FILES)
    if path.suffix in {".py", ".md", ".toml", ".txt"} or path.parent.name == ".ci"
}
SOURCES = [name for name in TEXTS if re.match(r"pfrl_like/.*\.py$", name)]


def trees(pattern: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Each source of the package in which a regular expression is found.

    All trees kept at once would slow the collection of garbage.
    """
    for name in SOURCES:
        if re.search(pattern, TEXTS[name]):
            yield name, ast.parse(TEXTS[name])


def places(pattern: str) -> list[str]:
    """Where a regular expression is found, as file and line."""
    return [
        f"{name}, line {number}: {line.strip()}"
        for name, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_no_place_is_left_unfinished() -> None:
    assert not places(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def test_no_path_of_somebodys_machine_is_written_down() -> None:
    assert not places(r"(?<![\w.{}~])/(?:home|root|work|Users)/\w")


def test_no_file_is_unpickled_outside_the_one_door_for_it() -> None:
    forbidden = {"torch.load", "pickle.load", "pickle.loads", "pickle.Unpickler", "eval", "exec", "joblib.load"}
    assert not [
        f"{name}, line {node.lineno}: {ast.unparse(node.func)}"
        for name, tree in trees(r"\b(load|loads|Unpickler|eval|exec)\(")
        if not name.startswith(("pfrl_like/storage/", "pfrl_like/processes/"))  # processes talk to their own workers
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]


def test_connections_are_given_messages_that_are_pickled_to_bytes() -> None:
    """`Connection.send` leaves a view in a traceback, which crashes Python 3.12; `processes.send` does not."""
    assert not [
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for name, tree in trees(r"multiprocessing\.connection")
        if not name.startswith("pfrl_like/processes/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "send"
    ]
    # `process_argument` takes its table of reductions.
    folder = "pfrl_like/processes"
    picklers = [name for name in SOURCES if "ForkingPickler" in TEXTS[name]]
    assert picklers == [f"{folder}/pipe_end.py", f"{folder}/process_argument.py"]


def test_only_abstract_functions_have_no_body() -> None:
    empty = (["raise NotImplementedError"], ["..."], ["pass"])
    assert not [
        f"{name}, line {node.lineno}: {node.name}"
        for name, tree in trees(r"\n +(raise NotImplementedError|\.\.\.|pass)\n")
        for node in functions_to_fill(tree)
        if len(node.body) == 1 and [*map(ast.unparse, node.body)] in empty
    ]


def test_texts_that_are_no_docstrings_are_used() -> None:
    assert not [
        f"{name}, line {node.lineno}"
        for name, tree in trees()
        for owner in ast.walk(tree)
        if isinstance(getattr(owner, "body", None), list)
        for node in owner.body[isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef) :]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def functions_to_fill(tree: ast.Module) -> list[ast.FunctionDef]:
    """All functions but abstract ones and those of a Protocol."""
    abstract = {
        function
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for function in owner.body
        if isinstance(function, ast.FunctionDef)
        and (
            "Protocol" in map(ast.unparse, owner.bases)
            or "abstract" in str([*map(ast.unparse, function.decorator_list)])
        )
    }
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node not in abstract]
