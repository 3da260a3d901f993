"""Scripts as users of d3rlpy 0.5 to 1.1 write them run here after a change of their imports only."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("h5py")

SCRIPTS = sorted((Path(__file__).parents[1] / "peers/d3rlpy_scripts").glob("*.py"))


def with_own_imports(script: str) -> str:
    """A script that imports this library wherever it imported d3rlpy."""
    script = re.sub(r"^import d3rlpy$", "import pfrl_like as d3rlpy", script, flags=re.MULTILINE)
    return re.sub(r"^from d3rlpy\b", "from pfrl_like", script, flags=re.MULTILINE)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs_after_a_change_of_its_imports(path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(with_own_imports(path.read_text()), path, "exec"), {"__name__": "__main__"})


def test_there_are_enough_scripts() -> None:
    assert len(SCRIPTS) >= 12
