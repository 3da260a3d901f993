"""Scripts of PFRL's users run here as on PFRL: equal counts, files and statistics, or a departure with a reason."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from peer_libraries import TESTS, asks, python_of

FOLDER = TESTS / "peers/pfrl_scripts"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "parts")
#: What PFRL gives: name of the script -> report.
FACTS_FILE = TESTS / "data/peers/pfrl_scripts.json"
FACTS: dict[str, Any] = json.loads(FACTS_FILE.read_text(encoding="utf-8"))

#: (script, entry of its report) -> reason for another value than PFRL's.
DEPARTURES = {
    ("vector_env", "updates"): "all steps of the environments are stored before the first update, not one by one",
    ("vector_env", "masks"): "`reset` is called only if an episode has ended",
    ("recurrent_dqn", "lengths"): "a part of an episode starts at a step whose recurrent state is stored",
    ("ppo_own_loss", "env"): "without `eval_env`, evaluations run in a copy of the environment",
    ("td3", "shapes"): "the dry run of the parts calls the function with two actions",
    ("td3", "smoothed"): "with an overridden update method, the errors are computed once more after the update",
    ("save_load", "updates"): "`load` restores the number of updates",
    ("save_load", "snapshot_files"): "a snapshot has files of its own format",
}


def run(python: Path | str, library: str, name: str, folder: Path) -> Any:
    """The report that a script prints in a new folder."""
    environ = {**os.environ, "PYTHONPATH": str(TESTS.parent), "OMP_NUM_THREADS": "1"}
    command = [python, "-W", "ignore", FOLDER / f"{name}.py", library]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def agrees(entry: str, own: Any, of_pfrl: Any) -> bool:
    """True for equal values; of files, those of PFRL must be among ours."""
    if "files" not in entry:
        return bool(own == of_pfrl)
    if of_pfrl and isinstance(of_pfrl[0], list):
        return all(agrees(entry, *pair) for pair in zip(own, of_pfrl, strict=True))
    return {*of_pfrl} <= {*own}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_counts_as_on_pfrl(name: str, tmp_path: Path) -> None:
    own, of_pfrl = run(sys.executable, "pfrl_like", name, tmp_path), FACTS[name]
    assert own.keys() == of_pfrl.keys()
    different = {(name, entry) for entry in own if not agrees(entry, own[entry], of_pfrl[entry])}
    assert different == {each for each in DEPARTURES if each[0] == name}, own


@asks("pfrl")
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_facts_are_what_pfrl_prints(name: str, tmp_path: Path) -> None:
    assert run(python_of("pfrl"), "pfrl", name, tmp_path) == FACTS[name]


def test_every_script_has_facts() -> None:
    assert sorted(FACTS) == SCRIPTS
    assert len(SCRIPTS) >= 25
