"""Measurements of which each is a line of JSON in a file; what is there is not measured again."""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def parser_of(doc: str | None, name: str) -> argparse.ArgumentParser:
    """A parser that has the options of the results."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / f"{name}.jsonl")
    parser.add_argument("--table", action="store_true", help="print what has been measured, and stop")
    return parser


def measured_once(
    options: argparse.Namespace, cases: Iterable[Line], measure: Callable[[Line], Line], before: Line | None = None
) -> list[Line]:
    """All lines of the results, once those of the cases are among them.

    Args:
        options: The results, and whether to measure nothing.
        cases: What tells the lines from one another.
        measure: What a line says of its case.
        before: What lines without it say of a case, as those do that are older than an option.
    """
    path: Path = options.results
    lines = [{**(before or {}), **json.loads(line)} for line in path.read_text().splitlines()] if path.exists() else []
    for case in [] if options.table else cases:
        if any(case.items() <= line.items() for line in lines):
            continue
        start = time.perf_counter()
        line = {**case, **measure(case), "seconds": round(time.perf_counter() - start, 1)}
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print({name: value for name, value in line.items() if name != "returns"}, flush=True)
        lines.append(line)
    return lines
