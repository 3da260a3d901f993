"""Every number in the documents is one of the results or of the code, as `benchmarks/document_numbers.py` has them."""

from typing import Any


def test_documents_have_the_numbers_of_the_results(script: Any) -> None:
    numbers = script("document_numbers")
    pages = numbers.pages()
    assert numbers.differences(pages) == []
    changed = pages | {
        "README.md": pages["README.md"].replace("| 3.03 [", "| 3.04 ["),
        "docs/guide/replay.md": pages["docs/guide/replay.md"].replace("7,266 bytes", "7,265 bytes"),
        "docs/guide/runs.md": pages["docs/guide/runs.md"]
        + "\n| a new table |\n| --- |\n| 3 times |\n\nIt takes 2 ms.\n",
        "docs/guide/speed.md": pages["docs/guide/speed.md"].replace("| SAC on HalfCheetah, compile", "| SAC, compile"),
    }
    assert sorted(each.split()[0].strip(":") for each in numbers.differences(changed)) == [
        "README.md", *["docs/guide/replay.md"] * 2, *["docs/guide/runs.md"] * 2, *["docs/guide/speed.md"] * 2,
    ]  # fmt: skip
