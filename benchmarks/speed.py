"""Compare pfrl_like with PFRL and stable-baselines3: `python benchmarks/speed.py --peer-python PATH`.

Every measurement is a process of its own with one thread (`speed_cases.py`). Rounds are interleaved (one run of each
library, then the next round), so that a machine that slows down slows all of them. Prints the ratio of the medians
with its 95 % bootstrap interval; a bar is met when it lies within or below the interval.
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
    Comparison("sac", "pfrl", 1.5, "SAC on HalfCheetah, MLP 256x256, batch 256, steps/s"),
    Comparison("sac", "stable_baselines3", 1.25, "SAC on HalfCheetah, MLP 256x256, batch 256, steps/s"),
    Comparison("sac-compiled", "pfrl", 1.8, "SAC on HalfCheetah, compile=True, steps/s"),
    Comparison("td3", "pfrl", 1.45, "TD3 on HalfCheetah, MLP 256x256, batch 256, steps/s"),
    Comparison("td3-compiled", "pfrl", 1.8, "TD3 on HalfCheetah, compile=True, steps/s"),
    Comparison("ppo", "pfrl", 2.2, "PPO on 8 HalfCheetahs, rollout 2048, 10 epochs of minibatches of 64, steps/s"),
    Comparison("ppo", "stable_baselines3", 1.7, "PPO on 8 HalfCheetahs, the same, steps/s"),
    Comparison("ppo-compiled", "pfrl", 2.2, "PPO on 8 HalfCheetahs, compile=True, steps/s"),
    Comparison("ppo-compiled", "stable_baselines3", 1.7, "PPO on 8 HalfCheetahs, compile=True, steps/s"),
    Comparison("a3c", "pfrl", 1.5, "A3C on CartPole, 2 processes, steps/s"),
)
FRAME_BYTES = 7_300


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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--case", nargs="*", help="only these cases")
    parser.add_argument("--results", type=Path, help="append every measurement to this file, one JSON line each")
    args = parser.parse_args()

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
    print("| what | pfrl_like | peer | | ratio [95 %] | bar | |\n| --- | --- | --- | --- | --- | --- | --- |")


def report(comparison: Comparison, ours: list[float], theirs: list[float]) -> None:
    ratio, low, high = ratio_of_medians(ours, theirs)
    met = "met" if high >= comparison.bar else "missed"
    print(
        f"| {comparison.what} | {np.median(ours):.0f} | {comparison.peer} | {np.median(theirs):.0f}"
        f" | {ratio:.2f} [{low:.2f}, {high:.2f}] | {comparison.bar:g} | {met} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
