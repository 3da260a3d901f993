"""Imports inside the package point down only: the layers, from the bottom up, as in `docs/architecture.md`."""

import ast
import functools
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

from pfrl_like.legacy.names import OLD_NAMES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pfrl_like"

LAYERS = (
    {"errors", "batch", "context", "env", "explorer", "gpu", "policy", "q_function", "replay_buffer", "utils"},
    {"agent", "functions", "collections", "columns", "storage", "processes", "random_streams"},
    {
        *("replay_buffers", "dataset", "datasets", "preprocessing", "augmentation", "envs", "wrappers"),
        *("nn", "distributions", "initializers", "optimizers", "action_value", "implicit_action_value"),
    },
    {"q_functions", "policies", "explorers", "encoders", "export"},
    {"learning", "distributed"},
    {"agents"},
    {"runs"},
    {"experiments", "debug", "loggers", "metrics", "testing"},
    {"algos", "online", "ope", "dynamics", "zoo", "d3rlpy"},
    {"__main__", "cli", "legacy"},
    {"__init__"},
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

#: Imports between folders of one layer that are meant; everything else in a layer stays in its own folder.
SIDEWAYS = {
    ("env", "utils"),
    ("explorer", "utils"),
    ("gpu", "context"),
    ("gpu", "utils"),
    ("replay_buffer", "batch"),
    ("replay_buffer", "errors"),
    ("replay_buffer", "utils"),
    ("utils", "batch"),
    ("utils", "errors"),
    ("agent", "storage"),  # an interface, but with the mixin that saves agents
    ("collections", "storage"),  # a queue that a directory keeps
    ("nn", "initializers"),
    ("learning", "distributed"),  # an agent's method starts its actors
    ("experiments", "loggers"),
    ("experiments", "debug"),
    ("testing", "experiments"),  # whose runs are stopped to see whether agents go on
    ("__main__", "cli"),
    ("implicit_action_value", "action_value"),
    ("ope", "algos"),  # fitted Q evaluation is built, fitted and saved as estimators are, and evaluates them
    ("dataset", "replay_buffers"),  # it opens what runs have recorded
    ("dynamics", "algos"),  # a model is fitted as algorithms are
    ("datasets", "dataset"),
    ("datasets", "wrappers"),  # Atari games as their data show them
}

#: Modules that import by text: modules of this package, or what is named at run time. `utils.old_names`, at the bottom,
#: imports `legacy`, at the top: the functions there are for scripts, and nothing in the package uses them.
BY_TEXT = {
    "__init__": "modules of this package, lazily",
    "utils.old_names": "legacy.names and the functions in its table",
    "datasets.public_sets": "a package that registers environments",
    "envs.make_env": "the module of an environment's id",
    "utils.batch_states": "itself, in another process",
    "wrappers.monitor": "imageio, a package without types",
    "zoo.names": "the module of a name in a preset",
}

#: What `pip install pfrl_like` brings; everything else, and gym, whose import has side effects, is imported where used.
INSTALLED = {"torch", "numpy", "gymnasium", "filelock", "PIL", "cloudpickle"}

#: Dotted name below the package -> file; a folder has the name of its `__init__`.
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def part_of(module: str) -> str:
    return module.split(".")[0]


@functools.cache
def imports_of(module: str) -> list[tuple[int, str, bool, bool]]:
    """(line, what is imported, by a plain `import` statement, at the top level) of every import of a module."""
    found, tree = [], ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, True, node in tree.body) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}", False, node in tree.body) for alias in node.names]
    return found


def inner_imports(module: str) -> list[tuple[int, str]]:
    """(line, module of this package) that a module imports."""
    found = []
    for line, target, _, _ in imports_of(module):
        if target.startswith("pfrl_like."):
            inside = target.removeprefix("pfrl_like.")
            found.append((line, inside if inside in MODULES else inside.rpartition(".")[0] or "__init__"))
    return found


def imports_from_to(is_meant: Callable[[str, str], bool]) -> list[str]:
    """Imports of one part from another for which a function of the two is true."""
    return [
        f"{module}, line {line}: {target}"
        for module in MODULES
        for line, target in inner_imports(module)
        if is_meant(part_of(module), part_of(target))
    ]


def test_every_module_has_a_layer() -> None:
    assert {part_of(module) for module in MODULES} == LEVEL.keys()


def test_the_table_of_rooms_names_every_part_at_its_layer() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    named = {int(level): {name.split("/")[0] for name in re.findall(r"`(.*?)`", parts)} for level, parts in rows}
    assert named == dict(enumerate(LAYERS[:-1]))


def test_imports_point_down() -> None:
    def allowed(here: str, target: str) -> bool:
        if LEVEL[target] == LEVEL[here]:
            return target == here or (here, target) in SIDEWAYS
        return LEVEL[target] < LEVEL[here]

    assert not imports_from_to(lambda here, target: not allowed(here, target))


def test_every_sideways_import_is_made() -> None:
    made = {(part_of(module), part_of(target)) for module in MODULES for _, target in inner_imports(module)}
    assert made >= SIDEWAYS


def test_imports_make_no_cycle() -> None:
    # Those inside functions count; a folder's __init__ only re-exports and is left out as an importer.
    graph = {
        module: {target for _, target in inner_imports(module)}
        for module, path in MODULES.items()
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


def test_the_package_is_not_imported_by_its_own_name() -> None:
    assert not [
        f"{module}, line {line}"
        for module in MODULES
        for line, target, plain, _ in imports_of(module)
        if plain and part_of(target) == "pfrl_like"
    ]


def test_optional_packages_are_imported_where_they_are_used() -> None:
    known = INSTALLED | {"pfrl_like"} | sys.stdlib_module_names
    assert not [
        f"{module}, line {line}: {target}"
        for module in MODULES
        for line, target, _, top in imports_of(module)
        if top and part_of(target) not in known
    ]


def test_imports_by_text_are_those_of_the_table() -> None:
    def by_text(node: ast.AST) -> bool:
        name = getattr(node, "attr", getattr(node, "id", "")) if isinstance(node, ast.Attribute | ast.Name) else ""
        return name in ("import_module", "__import__")

    found = {
        module
        for module, path in MODULES.items()
        if any(name in (text := path.read_text()) for name in ("import_module", "__import__"))
        and any(by_text(node) for node in ast.walk(ast.parse(text)))
    }
    assert found == BY_TEXT.keys()


def test_nothing_in_the_package_imports_legacy() -> None:
    assert not imports_from_to(lambda here, target: target == "legacy" != here)


def test_every_old_name_is_found_at_its_path_and_its_module_looks_for_it() -> None:
    for path, names in OLD_NAMES.items():
        assert MODULES[path].read_text().endswith("\n__getattr__ = old_names(__name__)\n"), path
        for name, place in names.items():
            assert getattr(importlib.import_module(f"pfrl_like.{path}"), name).__module__ == f"pfrl_like.{place}"


def test_every_module_that_looks_for_old_names_is_in_their_table() -> None:
    line = "\n__getattr__ = old_names(__name__)\n"
    assert {module for module, path in MODULES.items() if line in path.read_text()} == OLD_NAMES.keys()
