"""What `run.json` keeps of the files that a program is made of."""

import hashlib
import json
from pathlib import Path

import pytest
from python_process import output_of

from pfrl_like.debug.trace_diff import explanations
from pfrl_like.runs import environment_record

SCRIPT = """
import json, sys
sys.path += ["lib", ".", "venv/lib/python3/site-packages"]
import installed, large, shared
from parts import net
from pfrl_like.runs.environment_record import program_files
print(json.dumps(program_files()))
"""


def digest(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def files_of(folder: Path) -> dict[str, str]:
    """What a script in `folder/job`, started in `folder`, keeps of its files."""
    package = str(Path(environment_record.__file__).parents[2])
    return dict(json.loads(output_of("job/train.py", folder=folder, path=package)))


@pytest.mark.slow
def test_the_script_and_the_projects_own_modules_are_kept(tmp_path):
    contents = {
        "job/train.py": SCRIPT, "job/parts/__init__.py": "", "job/parts/net.py": "WIDTH = 64", "lib/shared.py": "A = 1",
        "lib/never_imported.py": "", "venv/lib/python3/site-packages/installed.py": "",
        "large.py": "#" * ((1 << 20) + 1),
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = files_of(tmp_path)
    own = {"train.py": "job/train.py", "parts/__init__.py": "job/parts/__init__.py", "parts/net.py": "job/parts/net.py"}
    assert found == {name: digest(tmp_path / path) for name, path in {**own, "lib/shared.py": "lib/shared.py"}.items()}
    (tmp_path / "job/parts/net.py").write_text("WIDTH = 32")
    changed = files_of(tmp_path)
    assert {name for name in found if found[name] != changed[name]} == {"parts/net.py"}
    for name, files in (("a", found), ("b", changed)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"files": files}))
    told = [*explanations((str(tmp_path / "a"), str(tmp_path / "b")))]
    assert told == ["source files of the program that differ: parts/net.py"]
