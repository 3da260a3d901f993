"""Speed of `train_agent_distributed`: steps per second beside the serial runner, and what communication costs.

    python benchmarks/distributed_speed.py               # measures what is missing
    python benchmarks/distributed_speed.py --table
    python benchmarks/distributed_speed.py --seconds 1 --windows 2 --rows 16 --results try.jsonl   # to see that it runs

Windows begin when every actor has delivered. Each line has the rates of all windows; tables have their medians. The
learner's time that is lost is the part of a window in which it makes no update: it waits, reads, stores or publishes.
Bytes moved are those of a whole answer of an actor as Ray serialises it. After the tables, each bar is printed with
what was measured. The status is 1 if a bar is missed.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import distributed_parts as parts
import scores
import torch
from measured_once import measured_once, parser_of
from measurement_lock import measuring

from pfrl_like import experiments
from pfrl_like.experiments.cluster.env_actor import Answer

Line = dict[str, Any]
#: Environments without learning: actors, and seconds for which a step computes and sleeps.
SPEED = {"computes 5 ms": (2, 0.005, 0.0), "sleeps 5 ms": (2, 0.0, 0.005), "sleeps 50 ms": (20, 0.0, 0.05)}
#: Soft Actor-Critic with one update a step: True for frames, and environments of an actor. A message has the first
#: stack of each environment whole.
OVERHEAD = {"17 numbers": (False, 8), "84x84 frames": (True, 4), "84x84 frames, 8 environments": (True, 8)}
ACTORS = 4
#: Bars: minimum of distributed over serial steps per second; maximum of the learner's time that is lost; maximum of
#: bytes moved over bytes stored, in cases where the first stacks of frames do not count much.
MIN_RATIO = {"computes 5 ms": 1.6, "sleeps 5 ms": 1.8, "sleeps 50 ms": 15.0}
MAX_LOST, MAX_BYTES = 0.1, {"17 numbers": 1.1, "84x84 frames": 1.1}
SPEED_TITLES = (
    "| a step | actors | serial, steps/s | distributed, steps/s | ratio | start, s | processes | memory, MB |"
)
OVERHEAD_TITLES = "| rows | learner's time lost, % | bytes moved a row | bytes stored a row |"


def distributed(
    agent: Any,
    n_envs: int,
    args: Any,
    actors: int,
    env: dict[str, Any],
    at_end: Callable[[], Any] = parts.shared_megabytes,
    **options: Any,
) -> parts.Windows:
    """Train with actors until the windows are over, and call `at_end` while they still run."""
    total = actors * n_envs
    learns = agent.update_interval == 1

    def has_begun() -> bool:
        return len(agent.environments) == total and (agent.update_seconds > 0 or not learns)

    windows = parts.Windows(agent, has_begun, args.seconds, args.windows, at_end)
    with tempfile.TemporaryDirectory() as outdir:
        experiments.train_agent_distributed(
            lambda: agent, lambda actor, index, test: parts.make_env(**env), steps=10**9, outdir=outdir, actors=actors,
            envs_per_actor=n_envs, hooks=[windows], seed=0, start_timeout=600.0, progress=False, **options,
        )  # fmt: skip
    return windows


def serial(compute: float, wait: float, args: Any) -> parts.Windows:
    """Train in one environment in this process."""
    agent = parts.make_dqn()
    windows = parts.Windows(agent, lambda: True, args.seconds, args.windows)
    with tempfile.TemporaryDirectory() as outdir:
        env = parts.make_env(compute, wait, discrete=True)
        experiments.train_agent(agent, env, 10**9, outdir, hooks=[windows], progress=False)
    return windows


def speed(case: Line, args: Any) -> Line:
    """Steps per second without learning, one environment an actor."""
    actors, compute, wait = SPEED[case["what"]]
    before = serial(compute, wait, args)
    env = {"compute": compute, "wait": wait, "discrete": True}
    windows = distributed(parts.make_dqn(), 1, args, actors, env)
    return {
        "serial": before.rates, "distributed": windows.rates, "started_after": round(windows.started_after, 1),
        **windows.result,
    }  # fmt: skip


def overhead(case: Line, args: Any) -> Line:
    """Learner time that is lost at 4 actors, and bytes of a message and of the buffer for each row."""
    frames, n_envs = OVERHEAD[case["what"]]
    agent = parts.make_sac(frames)
    options = {"rows_per_message": (args.rows, args.rows), "seconds_per_message": 60.0}

    def bytes_moved() -> float:
        chunk = agent.newest
        return bytes_in_ray(Answer(chunk, chunk.n_steps, [], 1, 0.0, 0.0)) / chunk.n_steps

    windows = distributed(agent, n_envs, args, ACTORS, {"frames": frames}, bytes_moved, **options)
    buffer, chunk = agent.replay_buffer, agent.newest
    while len(buffer) < parts.CAPACITY:
        agent.observe_chunk(chunk, range(n_envs))
    return {
        "lost": windows.lost, "rates": windows.rates, "bytes_moved": round(windows.result, 1),
        "bytes_stored": round(buffer.nbytes / len(buffer), 1),
    }  # fmt: skip


def bytes_in_ray(value: Any) -> int:
    """Number of bytes that an actor writes to the object store, or sends, for a result. Ray must run."""
    from ray._private.worker import global_worker

    return int(global_worker.get_serialization_context().serialize(value).total_bytes)


@measuring()
def measured(case: Line, args: Any) -> Line:
    torch.set_num_threads(1)
    line = speed(case, args) if case["what"] in SPEED else overhead(case, args)
    return {**line, **scores.provenance()}


def table(lines: list[Line]) -> str:
    """Medians of the windows, with the slowest and the fastest."""

    def shown(values: list[float], factor: float = 1.0) -> str:
        values = [factor * value for value in values]
        return f"{statistics.median(values):.4g} [{min(values):.4g}, {max(values):.4g}]"

    rows = [SPEED_TITLES, "| --- " * (SPEED_TITLES.count("|") - 1) + "|"]
    for line in (each for each in lines if each["what"] in SPEED):
        rows.append(
            f"| {line['what']} | {SPEED[line['what']][0]} | {shown(line['serial'])} | {shown(line['distributed'])} | "
            f"{ratio_of(line):.2f} | {line['started_after']:.1f} | {line['processes']} | {line['pss_mb']:.0f} |"
        )
    rows += ["", OVERHEAD_TITLES, "| --- " * (OVERHEAD_TITLES.count("|") - 1) + "|"]
    for line in (each for each in lines if each["what"] in OVERHEAD):
        sizes = f"{line['bytes_moved']:,.1f} | {line['bytes_stored']:,.1f}"
        rows.append(f"| {line['what']} | {shown(line['lost'], 100)} | {sizes} |")
    return "\n".join(rows)


def ratio_of(line: Line) -> float:
    """Distributed over serial steps per second, of the medians."""
    return statistics.median(line["distributed"]) / statistics.median(line["serial"])


def bars(lines: list[Line]) -> Iterator[tuple[str, bool]]:
    """For each bar, a text with the bar and what was measured, and True if it is reached."""
    for line in lines:
        what = line["what"]
        if what in SPEED:
            ratio, least = ratio_of(line), MIN_RATIO[what]
            yield f"{what}: {ratio:.2f} times the serial runner, at least {least:g}", ratio >= least
            continue
        lost = statistics.median(line["lost"])
        yield f"{what}: {lost:.1%} of the learner's time lost, less than {MAX_LOST:.0%}", lost < MAX_LOST
        if what in MAX_BYTES:
            moved, most = line["bytes_moved"] / line["bytes_stored"], MAX_BYTES[what]
            yield f"{what}: {moved:.3f} bytes moved for each byte stored, at most {most:g}", moved <= most


def main() -> int:
    parser = parser_of(__doc__, "distributed_speed")
    parser.add_argument("--cases", nargs="+", default=[*SPEED, *OVERHEAD], choices=[*SPEED, *OVERHEAD])
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--rows", type=int, default=256, help="of a message, where communication is measured")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a window")
    args = parser.parse_args()
    size = {"windows": args.windows, "window_seconds": args.seconds, "rows": args.rows}
    cases = ({"what": what, **size} for what in args.cases)
    lines = measured_once(args, cases, lambda case: measured(case, args))
    print(table(lines), end="\n\n")
    results = list(bars(lines))
    for text, is_reached in results:
        print(f"{'reached' if is_reached else 'MISSED'}  {text}")
    return int(not all(is_reached for _, is_reached in results))


if __name__ == "__main__":
    sys.exit(main())
