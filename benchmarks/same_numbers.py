"""Facts that a change of structure leaves as they are: `python benchmarks/same_numbers.py --write before.json`.

    python benchmarks/same_numbers.py --against before.json

Trains every agent and estimator from a seed and keeps digests of all numbers: parameters, optimisers, statistics, what
is drawn afterwards. Beside them: how many bytes an actor process gets, which classes saved directories name, and the
names of loggers. Prints what differs and fails if there is any. Digests are those of one machine and one torch.
"""

import argparse
import ast
import json
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import torch  # noqa: E402
from estimator_parts import ALL, QUIET, make, predicted, vectors  # noqa: E402
from registry import LEARNERS  # noqa: E402
from seed_parts import RUNNERS, course, digest, exemplar  # noqa: E402

from pfrl_like.utils import set_random_seed  # noqa: E402

Facts = dict[str, dict[str, Any]]


def agents(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Digests of courses of training, and what actors and directories get."""
    for name in LEARNERS:
        for runner in RUNNERS:
            yield "digests", f"{name}, {runner}", digest(course(name, runner, 1, folder / name / runner))
        (folder / name / "made").mkdir()
        agent = LEARNERS[name].make(exemplar(name), folder / name / "made")
        agent.save(folder / name / "saved")
        manifests = sorted((folder / name / "saved").rglob("manifest.json"))
        yield "classes in directories", name, [json.loads(path.read_text()).get("class") for path in manifests]
        if hasattr(agent, "acting_copy"):
            yield "bytes of actors", name, len(pickle.dumps(agent.acting_copy()))


def estimators() -> Iterator[tuple[str, str, Any]]:
    """Digests of fitted estimators."""
    for name in ALL:
        for discrete in (False, True):
            data = vectors(discrete)
            set_random_seed(0)
            try:
                made = make(name).fit(data, n_steps=12, n_steps_per_epoch=6, **QUIET)
            except TypeError:  # it has no such actions
                continue
            numbers = [predicted(made, data.observations[:20]), made._agent.state_dict()]
            yield "digests", f"{name}, {'discrete' if discrete else 'continuous'}", digest(numbers)


def loggers() -> Iterator[tuple[str, str, Any]]:
    """Modules with loggers of their own name."""
    for path in sorted((ROOT / "pfrl_like").rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if any(ast.unparse(call) == "logging.getLogger(__name__)" for call in calls):
            yield "loggers", ".".join(path.relative_to(ROOT).with_suffix("").parts), True


def facts() -> Facts:
    torch.set_num_threads(1)
    found: Facts = {}
    with tempfile.TemporaryDirectory() as folder:
        for section, name, value in (*agents(Path(folder)), *estimators(), *loggers()):
            found.setdefault(section, {})[name] = value
    return found


def differences(before: Facts, now: Facts) -> list[str]:
    """A line for each fact that differs."""
    lines = []
    for section in before | now:
        old, new = before.get(section, {}), now.get(section, {})
        for name in old | new:
            if not same(old.get(name), new.get(name)):
                lines.append(f"{section}: {name}: {old.get(name)} -> {new.get(name)}")
    return lines


def same(old: Any, new: Any) -> bool:
    """True if two facts are equal; numbers of bytes may differ by a hundredth, as names of folders do."""
    return old == new or (isinstance(old, int) and isinstance(new, int) and abs(old - new) <= 0.01 * old)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--write", type=Path)
    chosen.add_argument("--against", type=Path)
    options = parser.parse_args()
    now = facts()
    print(", ".join(f"{len(names)} {section}" for section, names in now.items()))
    if options.write:
        options.write.write_text(json.dumps(now, indent=1))
        return 0
    lines = differences(json.loads(options.against.read_text()), now)
    print("\n".join(lines) or "nothing differs")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
