"""Compare pfrl_like with PFRL and stable-baselines3: `python benchmarks/speed.py --peer-python PATH`.

Every measurement is a process of its own with one thread (`speed_cases.py`). Rounds are interleaved (one run of each
library, then the next round), so that a machine that slows down slows all of them. Prints the ratio of the medians
with its 95 % bootstrap interval; a bar is met when it lies within or below the interval. `--table` prints the table of
the guide's page of speed from the latest rounds of the results, and measures nothing.
"""

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
from measurement_lock import measuring

CASES = Path(__file__).with_name("speed_cases.py")
ROOT = CASES.parent.parent
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclasses.dataclass(frozen=True)
class Comparison:
    case: str
    peer: str
    bar: float  # pfrl_like's rate over the peer's
    what: str


COMPARISONS = (
    Comparison("dqn-32", "pfrl", 2.4, "DQN on CartPole, batch 32, steps/s"),
    Comparison("dqn-32", "stable_baselines3", 2.2, "DQN on CartPole, batch 32, steps/s"),
    Comparison("dqn-128", "pfrl", 3.2, "DQN on CartPole, batch 128, steps/s"),
    Comparison("dqn-32-compiled", "pfrl", 5.0, "DQN on CartPole, batch 32, compile=True, steps/s"),
    Comparison("sample", "pfrl", 20.0, "32 of 100,000 transitions (17 + 6 floats), batches/s"),
    Comparison("sample-3-step", "pfrl", 12.0, "the same, 3-step, batches/s"),
    Comparison("sample-prioritized", "pfrl", 12.0, "the same, prioritised with write-back, batches/s"),
    Comparison("act", "pfrl", 2.0, "act on one observation, MLP 64x64, actions/s"),
    Comparison("frames", "pfrl", 3.0, "32 stacks of four 84x84 frames, batches/s"),
    Comparison("sac", "pfrl", 1.5, "SAC on HalfCheetah, steps/s"),
    Comparison("sac", "stable_baselines3", 1.25, "SAC on HalfCheetah, steps/s"),
    Comparison("sac-compiled", "pfrl", 1.8, "SAC on HalfCheetah, compile=True, steps/s"),
    Comparison("td3", "pfrl", 1.45, "TD3 on HalfCheetah, steps/s"),
    Comparison("td3-compiled", "pfrl", 1.8, "TD3 on HalfCheetah, compile=True, steps/s"),
    Comparison("ppo", "pfrl", 2.2, "PPO on 8 HalfCheetahs, steps/s"),
    Comparison("ppo", "stable_baselines3", 1.7, "PPO on 8 HalfCheetahs, steps/s"),
    Comparison("ppo-compiled", "pfrl", 2.2, "PPO on 8 HalfCheetahs, compile=True, steps/s"),
    Comparison("ppo-compiled", "stable_baselines3", 1.7, "PPO on 8 HalfCheetahs, compile=True, steps/s"),
    Comparison("a3c", "pfrl", 1.5, "A3C on CartPole, two processes, steps/s"),
)
FRAME_BYTES = 7_300
RESULTS = CASES.with_name("results") / "speed.jsonl"
#: Of the latest run; PPO was measured twice in it.
ROUNDS, MORE_ROUNDS = 5, {"ppo": 10}
NAMES = {"pfrl": "PFRL", "stable_baselines3": "stable-baselines3"}
HEAD = "| what | pfrl_like | peer | | ratio [95 %] |"


def measure(python: str, case: str, library: str, seconds: float) -> dict:
    """The JSON line of one measurement."""
    return run_case(python, CASES, library, case, library, "--seconds", str(seconds))


def run_case(python: str, script: Path, library: str, *arguments: str) -> dict:
    """The JSON line that a script prints last, run in a process of one thread."""
    environ = {**os.environ, **ONE_THREAD, "SDL_VIDEODRIVER": "dummy", "PYTHONPATH": str(ROOT)}
    if library != "pfrl_like":
        del environ["PYTHONPATH"]
    done = subprocess.run([python, str(script), *arguments], env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    result: dict = json.loads(done.stdout.splitlines()[-1])
    return result


def ratio_of_medians(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Ratio of the medians and its 95 % bootstrap interval; rounds are drawn as pairs."""
    pairs = np.array([ours, theirs])
    rows = np.random.default_rng(0).integers(0, len(ours), (10_000, len(ours)))
    medians = np.median(pairs[:, rows], axis=2)
    low, high = np.quantile(medians[0] / medians[1], [0.025, 0.975])
    return float(np.median(ours) / np.median(theirs)), float(low), float(high)


@measuring()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has the peers installed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--case", nargs="*", help="only these cases")
    parser.add_argument("--results", type=Path, help="append every measurement to this file, one JSON line each")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(read_results(args.results or RESULTS))))
        return

    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread")
    print_head(args.rounds, args.seconds)
    chosen = [comparison for comparison in COMPARISONS if not args.case or comparison.case in args.case]
    for case in dict.fromkeys(comparison.case for comparison in chosen):
        comparisons = [comparison for comparison in chosen if comparison.case == case]
        runs: dict[str, list[dict]] = {}
        for _ in range(args.rounds):
            for library in ("pfrl_like", *(comparison.peer for comparison in comparisons)):
                python = sys.executable if library == "pfrl_like" else args.peer_python
                result = measure(python, case, library, args.seconds)
                runs.setdefault(library, []).append(result)
                if args.results:
                    with args.results.open("a") as file:
                        file.write(json.dumps(result) + "\n")
        rates = {library: [run["rate"] for run in results] for library, results in runs.items()}
        for comparison in comparisons:
            report(comparison, rates["pfrl_like"], rates[comparison.peer])
        if case == "frames":
            ours, theirs = (max(run["bytes"] for run in runs[library]) for library in ("pfrl_like", "pfrl"))
            met = "met" if ours <= FRAME_BYTES else "missed"
            print(f"| the same, bytes a transition | {ours:.0f} | pfrl | {theirs:.0f} | | {FRAME_BYTES} | {met} |")


def print_head(rounds: int, seconds: float) -> None:
    print(f"{rounds} rounds of {seconds:g} s\n")
    print(f"{HEAD} bar | |\n" + "| --- " * 7 + "|")


def report(comparison: Comparison, ours: list[float], theirs: list[float]) -> None:
    met = "met" if ratio_of_medians(ours, theirs)[2] >= comparison.bar else "missed"
    print(f"{row(comparison.what, ours, comparison.peer, theirs)} {comparison.bar:g} | {met} |", flush=True)


def row(what: str, ours: list[float], peer: str, theirs: list[float]) -> str:
    """Both medians and their ratio, as they stand in the documents."""
    medians = [f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" for rate in map(np.median, (ours, theirs))]
    return f"| {what} | {medians[0]} | {NAMES.get(peer, peer)} | {medians[1]} | {ratio_in_words(ours, theirs)} |"


def ratio_in_words(ours: list[float], theirs: list[float]) -> str:
    digits = 2 if np.median(ours) < 10 * np.median(theirs) else 1
    ratio, low, high = (f"{number:.{digits}f}" for number in ratio_of_medians(ours, theirs))
    return f"{ratio} [{low}, {high}]"


def read_results(path: Path) -> dict[tuple[str, str], list[float]]:
    """All rates of each case and library, in the order in which they were measured."""
    rates: dict[tuple[str, str], list[float]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        rates.setdefault((line["case"], line["library"]), []).append(line["rate"])
    return rates


def table(rates: dict[tuple[str, str], list[float]]) -> list[str]:
    """A row for each comparison, of the latest rounds."""
    rows = [HEAD, "| --- " * 5 + "|"]
    for comparison in COMPARISONS:
        rounds = MORE_ROUNDS.get(comparison.case, ROUNDS)
        ours, theirs = (rates[comparison.case, library][-rounds:] for library in ("pfrl_like", comparison.peer))
        what = comparison.what + " (ten rounds)" * (comparison.case in MORE_ROUNDS)
        rows.append(row(what, ours, comparison.peer, theirs))
    return rows


if __name__ == "__main__":
    main()
