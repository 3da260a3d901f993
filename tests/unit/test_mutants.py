"""`benchmarks/mutants.py`: mutants have stable names, and results of an earlier package can be compared."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("fcntl")
SOURCE = '''
class Ring:
    def push(self, x: "int | None" = 0) -> int:
        """Not 0 or 1."""
        if x < 1 and x < 1:
            raise ValueError(f"{x + 1}")
        return x + len(self)
'''


@pytest.fixture
def finder(script: Any) -> Any:
    return script("mutant_finder")


@pytest.fixture
def mutants(script: Any) -> Any:
    return script("mutants")


def line(name: str, test: str | None, **told: Any) -> dict[str, Any]:
    """A result: killed by a test, or survived without one."""
    case = {"name": f"{name} : < : 0", "operator": "<", "module": "a", "expression": "x < 1", "mutated": "x <= 1"}
    outcome = {"outcome": "survived", "files": []} if test is None else {"outcome": "killed", "test": test}
    return case | {"repeat": 0} | outcome | told


@pytest.mark.parametrize(
    ("statement", "operator", "mutated"),
    [
        ("a < b", "<", "a <= b"),
        ("a >= b", "<", "a > b"),
        ("a == b", "==", "a != b"),
        ("a + b", "+", "a - b"),
        ("a -= b", "+", "a += b"),
        ("a * b", "*", "a / b"),
        ("a and b or c", "and", "(a and b) and c"),
        ("not a", "not", "a"),
        ("a[0]", "constant", "a[1]"),
        ("a = 1.0", "constant", "a = 0.0"),
        ("f(a, 1, b)", "constant", "f(0)"),
        ("f(a, size=1)", "constant", "f(size=0)"),
        ("min(a, b)", "min", "max(a, b)"),
        ("a.max(b)", "min", "a.min(b)"),
        ("torch.minimum(a, b)", "min", "torch.maximum(a, b)"),
        ("f(a, keepdim=True)", "flag", "f(keepdim=False)"),
        ("a.b.detach()", "detach", "a.b"),
        ("return a < b", "return", "return not a < b"),
    ],
)
def test_operators(finder: Any, statement: str, operator: str, mutated: str) -> None:
    source = f"def f(a, b):\n    {statement}\n"
    assert (operator, mutated) in [(each.operator, each.mutated) for each in finder.mutants_of("a.py", source)]


@pytest.mark.parametrize(
    "source",
    [
        "x = 1 + 1",
        "class A:\n    x = 0",
        'def f(x: "a[0]" = 1) -> "b[1]":\n    """1"""\n    y: a[0]',
        "def f():\n    raise ValueError(1 + 1)",
        "def f():\n    warnings.warn(a + b, stacklevel=1)",
        "def f():\n    return f'{a + 1}'",
        "def f():\n    assert a, 1 + 1",
        "def f():\n    return 'a' + b, folder / 'a', zip(a, b, strict=True), a is b",
    ],
)
def test_texts_signatures_and_code_outside_functions_have_no_mutants(finder: Any, source: str) -> None:
    assert finder.mutants_of("a.py", source) == []


def test_a_mutant_replaces_its_expression_only(finder: Any) -> None:
    source = "def f(a):  # ä\n    s = 'ä'; return (a +\n        1) * 2  # kept\n"
    plus = next(each for each in finder.mutants_of("a.py", source) if each.operator == "+")
    assert plus.apply(source) == "def f(a):  # ä\n    s = 'ä'; return ((a - 1)) * 2  # kept\n"


def test_names_tell_function_operator_and_occurrence(finder: Any) -> None:
    names = [(each.case()["name"], each.repeat) for each in finder.mutants_of("rings/ring.py", SOURCE)]
    assert names == [
        ("Ring.push : and : 0", 0),
        ("Ring.push : < : 0", 0),
        ("Ring.push : constant : 0", 0),
        ("Ring.push : < : 1", 1),
        ("Ring.push : constant : 1", 1),
        ("Ring.push : + : 0", 0),
    ]


def test_a_function_that_moves_keeps_its_mutants(finder: Any) -> None:
    before = finder.mutants_of("rings/ring.py", SOURCE)
    later = "def first():\n    return 0 < 1\n" + SOURCE.replace("self, x:", "self, x, y=1,  # moved\n        *, x_:")
    moved = finder.finder({"storage/all.py": later, "a.py": "def f():\n    return 1"})
    assert [moved(each.case()).case() | {"module": "ring"} for each in before] == [each.case() for each in before]
    assert {moved(each.case()).path for each in before} == {"storage/all.py"}


def test_of_functions_of_one_name_that_in_the_module_of_the_same_name_is_found(finder: Any) -> None:
    source = "def f(a):\n    return a + 1\n"
    case = finder.mutants_of("x/one.py", source)[0].case()
    assert finder.finder({"y/one.py": source, "y/two.py": source})(case).path == "y/one.py"
    assert finder.finder({"y/three.py": source, "y/two.py": source})(case) is None
    assert finder.finder({"x/one.py": source.replace("a + 1", "1 + a")})(case) is None


def test_a_sample_is_spread_over_folders_by_lines_and_has_two_of_a_function(finder: Any) -> None:
    def functions(count: int) -> str:
        return "".join(f"def f{i}(a):\n    return a + 1 < 0 and a\n" for i in range(count))

    tree = {"a/one.py": functions(15), "b/two.py": functions(5).replace("def f", "def g"), "c/three.py": functions(9)}
    sample = finder.draw(tree, ("a", "b"), 12)
    assert [each.path for each in sample] == ["a/one.py"] * 9 + ["b/two.py"] * 3
    functions_drawn = [each.function for each in sample]
    assert max(map(functions_drawn.count, functions_drawn)) <= 2
    assert sample == finder.draw(dict(reversed(tree.items())), ("a", "b"), 12)
    assert sample != finder.draw(tree, ("a", "b"), 12, seed=1)


@pytest.mark.slow
def test_every_mutant_of_the_sample_differs_from_the_package(finder: Any, mutants: Any) -> None:
    tree = finder.read_tree(ROOT / "pfrl_like")
    sample = finder.draw(tree, mutants.FOLDERS, mutants.COUNT)
    assert len({mutants.key(each.case()) for each in sample}) == mutants.COUNT
    for mutant in sample:
        source = tree[mutant.path]
        assert ast.dump(ast.parse(mutant.apply(source))) != ast.dump(ast.parse(source)), mutant


def test_tests_of_the_module_run_first_and_conformance_last(finder: Any, mutants: Any) -> None:
    tests = {
        "conformance/test_rings.py": "import pfrl_like.rings.ring; Ring().push()",
        "golden/test_numbers.py": "Ring",
        "unit/rings/test_ring.py": "",
        "unit/test_other.py": "Ring.push",
        "unit/test_unrelated.py": "Rings",
    }
    mutant = finder.mutants_of("rings/ring.py", SOURCE)[0]
    unit, others = mutants.likely_tests(mutant, SOURCE, tests)
    assert unit == ["tests/unit/rings/test_ring.py", "tests/unit/test_other.py"]
    assert others == ["tests/golden/test_numbers.py", "tests/conformance/test_rings.py"]


def test_the_killer_is_found_where_its_file_is_now(mutants: Any) -> None:
    tests = {"unit/new/test_a.py": "", "unit/b/test_b.py": ""}
    killed = {"test": "tests/unit/old/test_a.py::test_x[1-2]"}
    now = "tests/unit/new/test_a.py::test_x"
    assert mutants.killers_now(killed, tests) == [[f"{now}[1-2]"], [now]]
    assert mutants.killers_now({"test": "tests/unit/old/test_c.py::test_x"}, tests) == []
    assert mutants.killers_now({}, tests) == []


@pytest.fixture
def trials(mutants: Any, finder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Trials in a package of one file, in which a test fails that says so."""
    (tmp_path / "pfrl_like/rings").mkdir(parents=True)
    (tmp_path / "pfrl_like/rings/ring.py").write_text(SOURCE)
    (tmp_path / "tests/unit/rings").mkdir(parents=True)
    (tmp_path / "tests/unit/rings/test_ring.py").write_text("")
    trials = mutants.Trials(tmp_path)
    trials.fails = lambda source, tests: []
    trials.ran = []

    def run_tests(copy: Path, tests: list[str], seconds: float, red: Any = ()) -> Any:
        source = (copy / "pfrl_like/rings/ring.py").read_text()
        trials.ran.append((source != SOURCE, *tests))
        return mutants.Ended([each for each in trials.fails(source, tests) if each not in red], 1.0)

    monkeypatch.setattr(mutants, "run_tests", run_tests)
    trials.mutant = finder.mutants_of("rings/ring.py", SOURCE)[-1]
    return trials


def test_a_test_kills_that_fails_with_the_mutant_only(trials: Any) -> None:
    trials.fails = lambda source, tests: ["t::b"] if "x - len" in source else []
    assert trials.run(trials.mutant) == {"outcome": "killed", "test": "t::b"}
    assert (trials.copy / "pfrl_like/rings/ring.py").read_text() == SOURCE


def test_a_test_that_fails_without_the_mutant_is_left_out(trials: Any) -> None:
    trials.fails = lambda source, tests: ["t::red"]
    assert trials.run(trials.mutant) == {"outcome": "survived", "files": ["tests/unit/rings/test_ring.py"]}


def test_a_test_that_passes_alone_does_not_kill(trials: Any) -> None:
    trials.fails = lambda source, tests: ["t::late"] if tests != ["t::late"] else []
    outcome = trials.run(trials.mutant)
    assert (outcome["outcome"], outcome["unfinished"]) == ("survived", True)


def test_the_killer_of_an_earlier_file_runs_first(trials: Any) -> None:
    trials.fails = lambda source, tests: ["t::b"] if "x - len" in source and tests == ["t::b"] else []
    assert trials.run(trials.mutant, [["t::b"]])["test"] == "t::b"
    assert trials.ran[0] == (True, "t::b")


def test_results_are_resumed(finder: Any, mutants: Any, tmp_path: Path) -> None:
    sample = finder.mutants_of("rings/ring.py", SOURCE)
    results = tmp_path / "mutants.jsonl"
    assert mutants.remaining(sample, results) == sample
    results.write_text("".join(json.dumps(each.case()) + "\n" for each in sample[:4]))
    assert mutants.remaining(sample, results) == sample[4:]
    results.write_text("".join(json.dumps(each.case() | {"module": "earlier"}) + "\n" for each in sample))
    assert mutants.remaining(sample, results) == []


def test_killed_before_and_surviving_now_is_an_error(mutants: Any) -> None:
    before = [line("f", "t::a"), line("g", "t::b"), line("h", None)]
    text, holds = mutants.comparison(before, [line("f", "t::c")], gone=[before[1]])
    assert holds and "1 of 1 that were killed are killed now" in text and "1 of 3 are gone\n  g : < : 0" in text
    text, holds = mutants.comparison(before, [line("f", "t::a"), line("g", None)], gone=[])
    assert not holds and "survives now: g : < : 0 (x < 1), killed by t::b" in text


def test_the_table_counts_kills_and_lists_survivors(mutants: Any) -> None:
    text = mutants.table([line("f", "t::a"), line("g", None, unfinished=True)])
    assert "all          1 of    2 killed" in text
    assert "g : < : 0: x < 1 -> x <= 1 (unfinished)" in text


@pytest.mark.slow
@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(900)"])
def test_a_hanging_test_is_named_and_its_process_is_ended(
    mutants: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str
) -> None:
    monkeypatch.setattr(mutants, "PATIENCE", 3.0)
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_a.py").write_text(f"def test_ok():\n    pass\n\ndef test_endless():\n    {body}\n")
    ended = mutants.run_tests(tmp_path, ["tests/test_a.py"], 2.0)
    assert ended.failed == ["tests/test_a.py::test_endless"]
    assert mutants.run_tests(tmp_path, ["tests/test_a.py"], 9.0, ["tests/test_a.py::test_endless"]).failed == []
    assert mutants.run_tests(tmp_path, ["tests/test_a.py::test_gone"], 9.0).failed == []
