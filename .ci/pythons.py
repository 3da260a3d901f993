"""The default tests on every CPython from 3.11 on that is at hand: pyenv's, and each `python3.X` on the PATH.

Each gets an environment of its own in `.pythons`; those that cannot make one (Debian's without `python3-venv`) are
passed over. The skips are printed; a test that one version runs and the next newer one skips or lacks is an error.
Arguments go to pytest: `python3 .ci/pythons.py -n 1 tests/unit/processes`.
"""

import glob
import itertools
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)

#: Prints the version of a released CPython that can make environments.
ASK = """
import ensurepip, sys
if sys.version_info.releaselevel != "final" or sys.implementation.name != "cpython":
    sys.exit(1)
print(*sys.version_info[:3], sep=".")
"""

Version = tuple[int, ...]

#: Why each test was skipped, by its name; None for those that ran.
Outcome = dict[str, str | None]


def interpreters() -> dict[Version, str]:
    """One interpreter of each version at hand, oldest first."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found: dict[Version, str] = {}
    for folder in [*glob.glob(f"{pyenv}/versions/*/bin"), *os.get_exec_path()]:
        for python in sorted(glob.glob(f"{folder}/python3.[0-9]*[0-9]")):
            answer = subprocess.run([python, "-c", ASK], capture_output=True, text=True)  # one of pyenv's shims fails
            version = tuple(int(part) for part in answer.stdout.strip().split(".")) if answer.returncode == 0 else ()
            if version >= OLDEST:
                found.setdefault(version, python)
    return dict(sorted(found.items()))


def environment(python: str, name: str) -> Path:
    """The interpreter of an environment with the pins, as README.md installs them."""
    folder = ROOT / ".pythons" / name
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    own = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pins = ["-c", "constraints.txt", "torch==2.13.0", "-e", ".[dev]"]
    subprocess.run([own, "-m", "pip", "install", "-q", *pins], cwd=ROOT, check=True)
    return own


def run_tests(python: Path, report: Path, arguments: list[str]) -> tuple[bool, Outcome]:
    """Run the tests; returns whether all passed, and the outcome of each."""
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-n", "2", f"--junitxml={report}", *arguments]
    passed = subprocess.run(command, cwd=ROOT).returncode == 0
    return passed, outcome(report) if report.exists() else {}


def outcome(report: Path) -> Outcome:
    """The outcome of each test in a report of pytest's."""
    found: Outcome = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        skip = case.find("skipped")
        if skip is None or skip.get("type") == "pytest.xfail":
            found[name] = None
        else:
            found[name] = skip.get("message") if skip.get("type") else skip.text  # of a whole module
    return found


def lost(older: Outcome, newer: Outcome) -> list[str]:
    """Names that run on the older and not on the newer, and modules that only the newer skips as a whole."""
    run_here = {name for name, skipped in newer.items() if skipped is None}
    run_there = {name for name, skipped in older.items() if skipped is None}
    skipped_here = {name for name, skipped in newer.items() if skipped is not None}
    return sorted((run_there - run_here) | (skipped_here - older.keys()))


def summary(name: str, passed: bool, found: Outcome) -> list[str]:
    """Lines about a version: how many tests, and each that was skipped."""
    skips = [f"  skipped {test}: {reason}" for test, reason in found.items() if reason is not None]
    verdict = "no failure" if passed else "FAILED, see above"
    return [f"Python {name}: {len(found) - len(skips):,} tests run, {len(skips)} skipped, {verdict}", *skips]


def main(arguments: list[str]) -> int:
    """Run them all; returns the exit status."""
    outcomes: dict[str, Outcome] = {}
    lines: list[str] = []
    failed = False
    for version, python in interpreters().items():
        name = ".".join(map(str, version))
        print(f"Python {name}: {python}", flush=True)
        try:
            own = environment(python, name)
        except subprocess.CalledProcessError as error:
            failed = True
            lines.append(f"Python {name}: ERROR: {error}")
            continue
        passed, outcomes[name] = run_tests(own, ROOT / ".pythons" / f"{name}.xml", arguments)
        failed |= not passed
        lines += summary(name, passed, outcomes[name])
    for older, newer in itertools.pairwise(outcomes):
        missing = lost(outcomes[older], outcomes[newer])
        failed |= bool(missing)
        lines += [f"ERROR: {test} runs on {older} and not on {newer}" for test in missing]
    print("\n".join(lines))
    if not outcomes:
        print("no Python from 3.11 on was run; looked in ~/.pyenv/versions and on the PATH")
    return int(failed or not outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
