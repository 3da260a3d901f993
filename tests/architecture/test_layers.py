"""Imports inside the package point down only: the layers, drawn from the bottom up."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pfrl_like"

LAYERS = (
    {"errors"},
    {"batch", "agent", "env", "explorer", "policy", "q_function", "replay_buffer", "utils"},
    {"functions", "collections", "columns", "storage", "processes"},
    {"replay_buffers", "dataset", "datasets", "preprocessing", "augmentation", "envs", "wrappers"},
    {"nn", "distributions", "initializers", "optimizers", "action_value"},
    {"q_functions", "policies", "explorers", "encoders"},
    {"agents"},
    {"experiments", "loggers", "metrics", "testing"},
    {"algos", "online", "ope", "dynamics"},
    {"__main__", "cli"},
    {"__init__"},
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

#: What `pip install pfrl_like` brings; everything else, and gym, whose import has side effects, is imported where used.
INSTALLED = {"torch", "numpy", "gymnasium", "filelock", "PIL", "cloudpickle"}


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; a folder has the name of its `__init__`."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def part_of(module: str) -> str:
    return module.split(".")[0]


def imports_of(path: Path) -> list[tuple[int, str, bool]]:
    """(line, what is imported, whether by a plain `import` statement) of every import, at whatever depth."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, True) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}", False) for alias in node.names]
    return found


def inner_imports(module: str) -> list[tuple[int, str]]:
    """(line, module of this package) that a module imports."""
    names, found = modules(), []
    for line, target, _ in imports_of(names[module]):
        if target.startswith("pfrl_like."):
            inside = target.removeprefix("pfrl_like.")
            found.append((line, inside if inside in names else inside.rpartition(".")[0] or "__init__"))
    return found


@pytest.mark.parametrize("module", modules())
def test_imports_point_down(module: str) -> None:
    here = part_of(module)
    wrong = [
        f"line {line}: {module} imports {target}"
        for line, target in inner_imports(module)
        if LEVEL[part_of(target)] > LEVEL[here]
        or (LEVEL[part_of(target)] == LEVEL[here] and here != part_of(target) and LEVEL[here] != LEVEL["utils"])
    ]
    assert not wrong


def test_imports_make_no_cycle() -> None:
    # Importing a.b runs a/__init__ too, but a folder's __init__ only re-exports: it is left out as an importer.
    graph = {
        module: {target for _, target in inner_imports(module)}
        for module, path in modules().items()
        if path.name != "__init__.py"
    }
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        assert module not in path, "cycle: " + " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, [*path, module])
            done.add(module)

    for module in graph:
        visit(module, [])


@pytest.mark.parametrize("module", modules())
def test_the_package_is_not_imported_by_its_own_name(module: str) -> None:
    imports = imports_of(modules()[module])
    assert not [line for line, target, plain in imports if plain and part_of(target) == "pfrl_like"]


@pytest.mark.parametrize("module", modules())
def test_optional_packages_are_imported_where_they_are_used(module: str) -> None:
    tree = ast.parse(modules()[module].read_text())
    imported = [
        name
        for node in tree.body
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    known = INSTALLED | {"pfrl_like"} | sys.stdlib_module_names
    assert not [name for name in imported if part_of(name) not in known]
