"""Records of programs as users of d3rlpy 2 write them: the kinds of their arrays, metrics, files and returns.

A program takes a seed as its argument and works in the current folder. It leaves its results in a global `result`,

    arrays      arrays, of which dtype and shape are recorded
    values      arrays, of which the values are recorded, too
    metrics     a dict of metrics, of which the names are recorded
    returns     returns of trained policies, a list

of which it may leave out some. As a program this file writes the records of d3rlpy 2.8.1, a file for each program, of
all programs or of those that are named after the folder:

    PYTHONPATH=tests .peers/d3rlpy/bin/python tests/peers/d3rlpy2_records.py tests/data/peers/d3rlpy2_programs
"""

import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = Path(__file__).parent / "d3rlpy2_programs"
SEEDS = (0, 1, 2)

Record = dict[str, Any]


def record(program: str, seed: int, folder: Path, edit: Callable[[str], str] = str) -> Record:
    """Run a program in an empty folder, in this process, and return its record.

    Args:
        program: Name of the program.
        seed: Its argument.
        folder: The folder.
        edit: Function that changes the text of the program.
    """
    path, working, arguments = PROGRAMS / f"{program}.py", os.getcwd(), sys.argv
    names: dict[str, Any] = {"__name__": "__main__"}
    os.chdir(folder)
    sys.argv = [str(path), str(seed)]
    try:
        exec(compile(edit(path.read_text()), path, "exec"), names)
    finally:
        os.chdir(working)
        sys.argv = arguments
    result = names["result"]
    return {
        "arrays": {name: kind(array) for name, array in result.get("arrays", {}).items()},
        "values": {name: [*kind(array), array.tolist()] for name, array in result.get("values", {}).items()},
        "metrics": sorted(result.get("metrics", {})),
        "returns": [float(value) for value in result.get("returns", [])],
        "files": dict(sorted(files_below(folder))),
    }


def records(program: str, edit: Callable[[str], str] = str) -> list[Record]:
    """The records of all seeds, each of a process of its own."""
    context, found = multiprocessing.get_context("spawn"), []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, mp_context=context) as pool:
            found.append(pool.submit(record, program, seed, Path(folder), edit).result())
    return found


def kind(array: Any) -> list[Any]:
    """Dtype and shape of an array."""
    assert isinstance(array, np.ndarray | np.generic), f"{array!r} is no array"
    return [str(array.dtype), list(array.shape)]


def files_below(folder: Path) -> Iterable[tuple[str, Any]]:
    """Paths and contents of files: objects of JSON; header, epochs and steps of CSV. Times are left out of names."""
    for path in folder.rglob("*"):
        if path.is_file():
            name = re.sub(r"_\d{14}\b", "_TIME", path.relative_to(folder).as_posix())
            yield re.sub(r"(events\.out\.tfevents)\..*", r"\1", name), contents(path)


def contents(path: Path) -> Any:
    """The part of a file that is compared."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        rows = path.read_text().splitlines()
        header = [row for row in rows[:1] if row[0].isalpha()]
        return header + [[row.count(","), *map(int, row.split(",")[:2])] for row in rows[len(header) :]]
    return None


def write(path: Path, found: list[Record]) -> None:
    """Write the records of all seeds. Those after the first have only what differs from the first."""
    first, *others = found
    differing = [{name: part for name, part in each.items() if part != first[name]} for each in others]
    path.write_text(json.dumps([first, *differing], separators=(",", ":")) + "\n")


def read(path: Path) -> list[Record]:
    """The records that `write` wrote."""
    first, *others = json.loads(path.read_text())
    return [first, *(first | each for each in others)]


if __name__ == "__main__":
    target, *chosen = sys.argv[1:]
    for program in chosen or sorted(path.stem for path in PROGRAMS.glob("*.py")):
        write(Path(target) / f"{program}.json", records(program))
