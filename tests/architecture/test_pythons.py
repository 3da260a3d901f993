"""`make pythons` finds what newer versions of Python skip; package, README and constraints name the same versions."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_runs" />
<testcase classname="tests.test_a" name="test_fails"><failure message="assert 0" /></testcase>
<testcase classname="tests.test_a" name="test_xfails"><skipped type="pytest.xfail" message="known" /></testcase>
<testcase classname="tests.test_a" name="test_skips[x]"><skipped type="pytest.skip" message="needs x" /></testcase>
<testcase classname="" name="tests.test_b"><skipped message="collection skipped">needs y</skipped></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def pythons() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pythons", ROOT / ".ci" / "pythons.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_skips_of_a_report_have_names_and_reasons(pythons: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert pythons.outcome(report) == {
        "tests.test_a::test_runs": None,
        "tests.test_a::test_fails": None,
        "tests.test_a::test_xfails": None,
        "tests.test_a::test_skips[x]": "needs x",
        "tests.test_b": "needs y",
    }


@pytest.mark.parametrize(
    ("newer", "names"),
    [
        ({"runs": None, "skipped": "needs minatar"}, []),
        ({"runs": None, "skipped": None, "new": None}, []),  # more than the older
        ({"runs": "too new", "skipped": "needs minatar"}, ["runs"]),
        ({"skipped": "needs minatar"}, ["runs"]),
        ({"runs": None, "skipped": "needs minatar", "module": "needs onnx"}, ["module"]),
    ],
)
def test_what_only_a_newer_python_skips_or_lacks_is_found(
    pythons: ModuleType, newer: dict[str, str | None], names: list[str]
) -> None:
    assert pythons.lost({"runs": None, "skipped": "needs minatar"}, newer) == names


def test_error_is_told_and_is_the_exit_status(
    pythons: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def environment(python: str, name: str) -> Path:
        if python == "broken":
            raise subprocess.CalledProcessError(1, "broken -m venv")
        return Path(python)

    outcomes = {"3.11.0": {"runs": None, "skipped": "needs minatar"}, "3.12.1": {"runs": "broken", "skipped": None}}
    monkeypatch.setattr(pythons, "interpreters", lambda: {(3, 11, 0): "a", (3, 12, 1): "b", (3, 13, 0): "broken"})
    monkeypatch.setattr(pythons, "environment", environment)
    monkeypatch.setattr(pythons, "run_tests", lambda own, report, arguments: (True, outcomes[report.stem]))
    assert pythons.main([]) == 1
    printed = capsys.readouterr().out
    for line in (
        "Python 3.11.0: 1 tests run, 1 skipped, no failure",
        "  skipped skipped: needs minatar",
        "Python 3.13.0: ERROR: Command 'broken -m venv' returned non-zero exit status 1.",
        "ERROR: runs runs on 3.11.0 and not on 3.12.1",
    ):
        assert line in printed.splitlines()
    outcomes["3.12.1"] = outcomes["3.11.0"]
    assert pythons.main([]) == 1  # one cannot be run
    monkeypatch.setattr(pythons, "interpreters", lambda: {(3, 11, 0): "a", (3, 12, 1): "b"})
    assert pythons.main([]) == 0


def test_interpreters_at_hand_are_found_by_their_version(
    pythons: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "path"
    for version, folder in [("3.11.7", "versions/3.11.7/bin"), ("3.13.0", "path"), ("3.10.1", "path"), ("", "path")]:
        python = tmp_path / folder / (f"python{version[:4]}" if version else "python3.14")
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f"#!/bin/sh\n{f'echo {version}' if version else 'exit 127'}\n")
        python.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(path))
    found = {(3, 11, 7): str(tmp_path / "versions/3.11.7/bin/python3.11"), (3, 13, 0): str(path / "python3.13")}
    assert pythons.interpreters() == found


def test_this_python_answers_with_its_version(pythons: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    exec(pythons.ASK)
    assert capsys.readouterr().out == f"{'.'.join(map(str, sys.version_info[:3]))}\n"


def test_classifiers_readme_and_constraints_name_the_same_versions() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "setup.py").read_text())
    assert classifiers == ["3.11", "3.12", "3.13"]
    for name in ("README.md", "constraints.txt"):
        (line,) = re.findall(r"CPython ([\d., and]+)", (ROOT / name).read_text())
        assert re.findall(r"3\.\d+", line) == classifiers, name


def test_the_pins_are_installed_as_the_readme_says() -> None:
    pins = re.search(r"pins = (\[.+\])", (ROOT / ".ci/pythons.py").read_text())
    assert pins is not None
    command = " ".join(f'"{part}"' if "[" in part else part for part in eval(pins[1]))
    assert f"pip install {command} &&" in (ROOT / "README.md").read_text()
