"""Put mutants into a copy of the package, one at a time, and record which test kills each.

    python benchmarks/mutants.py                                       # 150 mutants; resumes what was stopped
    python benchmarks/mutants.py --table                               # the kill rate and the survivors, nothing runs
    python benchmarks/mutants.py --against benchmarks/results/mutants.jsonl --results after.jsonl

With `--against`, the mutants are those that tests killed in an earlier file, found again by function and expression;
the test that killed one runs first. It fails if one survives now, and lists those whose expression is gone.

Tests run in the order in which they are likely to kill: the unit tests of the module and those that name it, its
classes or its functions, then golden, property and conformance tests. A test kills if it fails alone, too, and passes
without the mutant. One process runs at the lowest priority, and stands still while a measurement holds the lock of
`measurement_lock.py`.
"""

import ast
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

import measurement_lock
from measured_once import Line, measured_once, parser_of
from mutant_finder import Mutant, Tree, draw, finder, read_tree
from package_copy import ROOT, failed_in, package_copy, start_pytest

FOLDERS = (
    *("agents", "learning", "functions", "replay_buffers", "columns", "storage", "explorers", "optimizers"),
    *("algos", "ope", "experiments", "dataset"),
)
COUNT = 150
#: Seconds of the processor for the unit tests, and for all tests of a mutant.
FIRST, ALL = 60.0, 120.0
#: Seconds in which no process of a test would run if it could, after which it hangs; a busy machine does not count.
PATIENCE = 120.0
#: Files of unit tests and of other tests that are run.
UNIT_FILES, OTHER_FILES = 12, 8
OTHERS = ("golden/", "property/", "conformance/")
#: What tells a mutant.
CASE = ("name", "operator", "module", "expression", "mutated", "repeat")


class Ended(NamedTuple):
    """What a run of pytest says.

    Attributes:
        failed: Tests that failed, or the one that was running when the process died or its time was over.
        seconds: Of the processor.
    """

    failed: list[str]
    seconds: float


def likely_tests(mutant: Mutant, source: str, tests: Tree) -> tuple[list[str], list[str]]:
    """Files of unit tests and of others that may kill a mutant, the most likely first.

    Args:
        mutant: The mutant.
        source: Its file.
        tests: Texts of the tests by path, relative to the folder `tests`.
    """
    folder, _, file = mutant.path.rpartition("/")
    dotted = f"pfrl_like.{mutant.path.removesuffix('.py').replace('/', '.')}"
    weights = {dotted: 4, f"pfrl_like.{folder.replace('/', '.')}": 1}
    weights |= {node.name: 1 for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    weights |= {name: 2 for name in mutant.function.split(".") if not name.startswith("__")}
    patterns = [(re.compile(rf"\b{re.escape(name)}\b"), weight) for name, weight in weights.items()]

    def score(path: str) -> int:
        named = sum(weight for pattern, weight in patterns if pattern.search(tests[path]))
        mirrors = path.startswith(f"unit/{folder}/test_{Path(file).stem}")
        return named + 8 * mirrors + path.startswith(f"unit/{folder}/")

    scores = {path: score(path) for path in tests}
    ranked = [path for path in sorted(scores, key=lambda path: (-scores[path], path)) if scores[path]]
    unit = [path for path in ranked if path.startswith("unit/")][:UNIT_FILES]
    others = [path for path in ranked if path.startswith(OTHERS)][:OTHER_FILES]
    others.sort(key=lambda path: path.startswith("conformance/"))  # these take the longest
    return [f"tests/{path}" for path in unit], [f"tests/{path}" for path in others]


def killers_now(line: Line, tests: Tree) -> list[list[str]]:
    """What killed a mutant earlier, wherever its file is now; then with any parameters."""
    file, _, name = line.get("test", "").partition("::")
    same = [path for path in tests if Path(path).name == Path(file).name]
    paths = [path for path in same if f"tests/{path}" == file] or same
    return [[f"tests/{path}::{each}" for path in paths] for each in (name, name.partition("[")[0]) if each and paths]


def run_tests(copy: Path, tests: Iterable[str], seconds: float, red: Iterable[str] = ()) -> Ended:
    """Run tests until one fails.

    Args:
        copy: Where they are.
        tests: Files or tests.
        seconds: Of the processor that they may take.
        red: Tests that are left out.
    """
    temporary, log, start = copy / "tmp", copy / "output.txt", _seconds_of_children()
    temporary.mkdir()
    arguments = ["-v", "-x", "--timeout=0", *(f"--deselect={test}" for test in red), *tests]
    with log.open("w") as output:
        child = start_pytest(
            copy, *arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: _limit(seconds), environ={"TMPDIR": str(temporary)},
        )  # fmt: skip
        _wait(child)
    shutil.rmtree(temporary, ignore_errors=True)
    text = log.read_text(errors="replace")
    failed = failed_in(text)
    nothing_to_run = child.returncode == 5 or "ERROR: not found" in text
    if child.returncode != 0 and not failed and not nothing_to_run:  # it died, was ended, or could not import
        last = text.splitlines()[-1:]
        running = [line.strip() for line in last if line.startswith("tests/") and "::" in line]
        failed = running or list(tests)[:1]
    return Ended(failed, _seconds_of_children() - start)


def _limit(seconds: float) -> None:
    """Give this process so many seconds of the processor, and the lowest priority."""
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 6))


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _wait(child: "subprocess.Popen[str]") -> None:
    """Wait for a process, which stands still while something is measured; end its group, also if it hangs."""
    stopped, patience = False, PATIENCE
    try:
        while child.poll() is None and patience > 0:
            if measurement_lock.is_measuring() != stopped:
                stopped = not stopped
                _signal(child, signal.SIGSTOP if stopped else signal.SIGCONT)
            time.sleep(measurement_lock.INTERVAL)
            if not stopped and not _is_running(child.pid):
                patience -= measurement_lock.INTERVAL
    finally:
        _signal(child, signal.SIGKILL)
        child.wait()


def _is_running(group: int) -> bool:
    """True if a process of a group runs, or would on a free processor; False where that cannot be seen."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if state == "R" and int(its_group) == group:
                return True
    return False


def _signal(child: "subprocess.Popen[str]", number: int) -> None:
    """Send a signal to all processes of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


class Trials:
    """Runs mutants in a copy of the package and its tests, one at a time."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.tests = {path: text for path, text in read_tree(copy / "tests").items() if "/test_" in path}
        self._green: set[str] = set()  # tests that pass without a mutant
        self._red: set[str] = set()  # and that fail

    def run(self, mutant: Mutant, first: Iterable[list[str]] = ()) -> Line:
        """The outcome, and the test that kills it or the files that were run.

        Args:
            mutant: The mutant.
            first: Tests that are run before those that are likely.
        """
        source = (self.copy / "pfrl_like" / mutant.path).read_text()
        unit, others = likely_tests(mutant, source, self.tests)
        left = ALL
        unfinished = False
        for tests, limit in (*((each, FIRST) for each in first), (unit, FIRST), (others, ALL)):
            while tests and left > 0:
                with self._mutated(mutant):
                    ended = run_tests(self.copy, tests, min(left, limit), self._red)
                    alone = run_tests(self.copy, ended.failed, FIRST).failed if ended.failed else []
                left -= ended.seconds
                if not alone:  # passed, or the time was over
                    unfinished = unfinished or bool(ended.failed)
                    break
                if self._passes(alone):
                    return {"outcome": "killed", "test": " ".join(alone)}
        unfinished = unfinished or left <= 0
        return {"outcome": "survived", "files": unit + others} | ({"unfinished": True} if unfinished else {})

    def _passes(self, tests: list[str]) -> bool:
        """True if tests pass without a mutant; those that fail are left out from then on."""
        if not self._green.issuperset(tests):
            known = self._red if run_tests(self.copy, tests, FIRST).failed else self._green
            known.update(tests)
        return self._green.issuperset(tests)

    @contextlib.contextmanager
    def _mutated(self, mutant: Mutant) -> Iterator[None]:
        """The mutant stands in the copy."""
        path = self.copy / "pfrl_like" / mutant.path
        original = path.read_text()
        cached = Path(cache_from_source(str(path)))  # would count for a source of the same size and second
        try:
            path.write_text(mutant.apply(original))
            cached.unlink(missing_ok=True)
            yield
        finally:
            path.write_text(original)
            cached.unlink(missing_ok=True)


def key(line: Line) -> tuple[str, str]:
    """Tells mutants apart."""
    return line["name"], line["module"]


def table(lines: list[Line]) -> str:
    """The kill rate by operator, and the survivors."""
    operators = sorted({line["operator"] for line in lines})
    rows = [(name, [line for line in lines if line["operator"] == name]) for name in operators] + [("all", lines)]
    rates = [f"{name:9} {sum(map(is_killed, those)):4} of {len(those):4} killed" for name, those in rows]
    survivors = [
        f"{line['name']}: {line['expression']} -> {line['mutated']}" + " (unfinished)" * line.get("unfinished", False)
        for line in lines
        if not is_killed(line)
    ]
    return "\n".join([*rates, f"{len(survivors)} survive", *(f"  {each}" for each in survivors)])


def is_killed(line: Line) -> bool:
    return line["outcome"] == "killed"


def comparison(before: list[Line], after: list[Line], gone: list[Line]) -> tuple[str, bool]:
    """Text of what has changed since an earlier file, and True if no mutant that was killed survives now.

    Args:
        before: Lines of the earlier file.
        after: Lines of now.
        gone: Lines of the earlier file whose expression is there no more.
    """
    now = {key(line): line for line in after}
    killed = [line for line in before if is_killed(line) and line not in gone]
    run = [line for line in killed if key(line) in now]
    lost = [line for line in run if not is_killed(now[key(line)])]
    text = [f"{len(run) - len(lost)} of {len(run)} that were killed are killed now, {len(killed) - len(run)} not run"]
    text += [f"  survives now: {line['name']} ({line['expression']}), killed by {line['test']}" for line in lost]
    text += [f"{len(gone)} of {len(before)} are gone", *(f"  {line['name']} ({line['expression']})" for line in gone)]
    return "\n".join(text), not lost


def read_lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def remaining(sample: list[Mutant], results: Path) -> list[Mutant]:
    """The mutants of a sample that bring the results to its size."""
    done = {key(line) for line in read_lines(results)}
    return [mutant for mutant in sample if key(mutant.case()) not in done][: max(0, len(sample) - len(done))]


def main() -> int:
    parser = parser_of(__doc__, "mutants")
    parser.add_argument("--against", type=Path, metavar="FILE", help="run what an earlier file has as killed; compare")
    options = parser.parse_args()
    if options.against and options.against.resolve() == options.results.resolve():
        parser.error("--against FILE is the file that --results writes; give another one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tree = read_tree(ROOT / "pfrl_like")
    before = read_lines(options.against) if options.against else []
    if options.against:
        find_again = finder(tree)
        found = {key(line): find_again(line) for line in before}
        mutants = {key(line): mutant for line in before if is_killed(line) and (mutant := found[key(line)])}
        cases = [{name: line[name] for name in CASE} for line in before if key(line) in mutants]
    else:
        sample = [] if options.table else remaining(draw(tree, FOLDERS, COUNT), options.results)
        mutants = {key(mutant.case()): mutant for mutant in sample}
        cases = [mutant.case() for mutant in sample]
    killers = {key(line): line for line in before}
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    with package_copy() as copy:
        trials = Trials(copy)

        def measure(case: Line) -> Line:
            first = killers_now(killers.get(key(case), {}), trials.tests)
            return trials.run(mutants[key(case)], first) | {"commit": git.stdout.strip()}

        lines = measured_once(options, cases, measure)
    print(table(lines))
    if not options.against:
        return 0
    text, holds = comparison(before, lines, [line for line in before if found[key(line)] is None])
    print(text)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
