"""README, constraints, requirements and continuous integration say the same."""

import ast
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def requirements() -> list[Requirement]:
    return [Requirement(line) for line in (ROOT / "requirements.txt").read_text().splitlines() if line[:1] not in "#"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.lower().split("==") for line in lines if not line.startswith("#"))


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^ {4}(python3 -m venv .+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert [command for command in commands if "pytest" in command][0] in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_pins_satisfy_the_requirements(requirement: Requirement) -> None:
    assert pins()[requirement.name] in requirement.specifier


def test_links_of_documents_lead_somewhere() -> None:
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md", *(ROOT / "docs").rglob("*.md")]
    for document in texts:
        targets = re.findall(r"\]\((?!http)([^)#]+)", document.read_text())
        assert not [target for target in targets if not (document.parent / target).exists()], document
    assert "](docs/guide/" in texts[0].read_text()


def test_every_folder_of_the_package_is_packaged() -> None:
    folders = {path.parent for path in (ROOT / "pfrl_like").rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_every_file_of_the_package_is_packaged() -> None:
    (patterns,) = re.findall(r'package_data={"pfrl_like": (\[.*?\])}', (ROOT / "setup.py").read_text())
    folder = ROOT / "pfrl_like"
    packaged = {path for pattern in ast.literal_eval(patterns) for path in folder.glob(pattern)}
    files = {path for path in folder.rglob("*.*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files == packaged
