"""Updates a second of offline agents beside d3rlpy 2.8: `python benchmarks/offline_speed.py --peer-python PATH`.

100,000 transitions of 17 observations and 6 actions (or 6 discrete ones), made up of random numbers; every measurement
is a process of its own with one thread, and goes through each library's own training. Rounds are interleaved, as in
`speed.py`; a bar is met when it lies within or below the interval of the ratio. `--table` prints the table of the
guide's page of speed from the results, and measures nothing.
"""

import argparse
import dataclasses
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measurement_lock import measuring
from speed import HEAD, RESULTS, ROUNDS, Comparison, print_head, ratio_in_words, read_results, report, row, run_case

from pfrl_like.dataset import MDPDataset

CASE = Path(__file__).with_name("offline_case.py")
ROWS, OBS, ACTIONS, LENGTH = 100_000, 17, 6, 1_000
COMPILED = {"compile": True}  # which d3rlpy offers on a GPU alone
WIDE = {"hidden": [256, 256, 256], "n_action_samples": 10, "standard_scaler": False}


@dataclasses.dataclass(frozen=True)
class Case:
    algorithm: str
    bar: float
    what: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


CASES = (
    Case("TD3PlusBC", 1.8, "TD3+BC, 256x256, batch 256", {"standard_scaler": False}),
    Case("TD3PlusBC", 1.8, "TD3+BC, 256x256, batch 256, compile=True", {"standard_scaler": False} | COMPILED),
    Case("IQL", 1.8, "IQL, 256x256, batch 256"),
    Case("IQL", 1.8, "IQL, 256x256, batch 256, compile=True", COMPILED),
    Case("BC", 2.5, "BC, 256x256, batch 256"),
    Case("DiscreteCQL", 2.2, "discrete CQL, 256x256, batch 256"),
    Case("CQL", 1.2, "CQL, 256x256x256, 10 actions drawn, batch 256", WIDE),
)


def write_data(directory: str) -> dict[bool, str]:
    """Files of random transitions, by whether actions are discrete."""
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((ROWS, OBS), dtype=np.float32)
    rewards = rng.standard_normal(ROWS)
    last = np.arange(1, ROWS + 1) % LENGTH == 0
    paths = {}
    for discrete in (False, True):
        actions = rng.integers(0, ACTIONS, ROWS) if discrete else rng.uniform(-1, 1, (ROWS, ACTIONS)).astype(np.float32)
        dataset = MDPDataset.from_arrays(obs, actions, rewards, np.zeros(ROWS), last, discrete_action=discrete)
        paths[discrete] = f"{directory}/{'discrete' if discrete else 'continuous'}.npz"
        dataset.dump(paths[discrete], reward_convention="same_row")
    return paths


def table(rates: dict[tuple[str, str], list[float]]) -> list[str]:
    """A row for each case, of the latest rounds; the last column has all earlier ones, of another machine."""
    rows = [f"{HEAD} elsewhere [95 %] |", "| --- " * 6 + "|"]
    for case in CASES:
        ours, theirs = rates[case.what, "pfrl_like"], rates[case.what, "d3rlpy"]
        latest = row(f"{case.what}, updates/s", ours[-ROUNDS:], "d3rlpy", theirs[-ROUNDS:])
        rows.append(f"{latest} {ratio_in_words(ours[:-ROUNDS], theirs[:-ROUNDS])} |")
    return rows


@measuring()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has d3rlpy installed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--warm", type=int, default=300, help="updates before each measurement")
    parser.add_argument("--algorithm", nargs="*", help="only these")
    parser.add_argument("--results", type=Path, help="append every measurement to this file, one JSON line each")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(read_results(args.results or RESULTS.with_name("offline_speed.jsonl")))))
        return

    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread")
    print_head(args.rounds, args.seconds)
    pythons = {"pfrl_like": sys.executable, "d3rlpy": args.peer_python}
    with tempfile.TemporaryDirectory() as directory:
        data = write_data(directory)
        for case in CASES:
            if args.algorithm and case.algorithm not in args.algorithm:
                continue
            rates: dict[str, list[float]] = {library: [] for library in pythons}
            for _ in range(args.rounds):
                for library, python in pythons.items():
                    result = run_case(
                        python, CASE, library, "speed", library, "--algorithm", case.algorithm,
                        "--data", data[case.algorithm.startswith("Discrete")], "--settings", json.dumps(case.settings),
                        "--seconds", str(args.seconds), "--warm", str(args.warm),
                    )  # fmt: skip
                    rates[library].append(result["rate"])
                    if args.results:
                        with args.results.open("a") as file:
                            file.write(json.dumps({"case": case.what} | result) + "\n")
            comparison = Comparison(case.algorithm, "d3rlpy", case.bar, f"{case.what}, updates/s")
            report(comparison, rates["pfrl_like"], rates["d3rlpy"])


if __name__ == "__main__":
    main()
