"""The Python blocks of the README and of each page of the guide run in order, as written, in an empty folder."""

import re
from pathlib import Path

import pytest
from python_process import output_of

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_a_page_runs_as_written(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    script = tmp_path / "page.py"  # a file, which processes can import
    script.write_text("\n\n".join(blocks))
    output_of(str(script), folder=tmp_path, path=str(ROOT))


def test_pages_begin_with_an_example_and_are_short() -> None:
    for page in PAGES:
        title, example = page.read_text().split("\n\n", 1)
        assert title.startswith("# ") and "```python" in example[:400], page.name
        assert len(page.read_text().splitlines()) < 250, page.name
