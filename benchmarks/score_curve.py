"""Scores of one seed's policies during its training: `python benchmarks/score_curve.py cartpole DoubleDQN --seed 0`.

It shows whether an agent whose last policy scores low had learnt nothing, or had solved the task before. Training
is that of `scores.py`, and so is a score. One line is appended to the results.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import scores

RESULTS = scores.RESULTS.with_name("score_curves.jsonl")
TITLES = "| row | seed | processor | score after each tenth of the steps |"


def curve_of(task: str, agent: str, seed: int, parts: int) -> dict[str, Any]:
    """Train, and score the agent after each of as many parts of its steps."""
    env, steps = scores.TASKS[task].make_env(), scores.TASKS[task].steps
    found: list[float] = []

    def score(_: Any, agent: Any, t: int) -> None:
        if t % (steps // parts) == 0:
            returns, _ = scores.greedy_episodes(agent, env)
            found.append(float(np.mean(returns)))

    line = scores.run((task, agent, seed), hooks=[score])
    if len(found) != parts:
        raise RuntimeError(f"{task} {agent}: {len(found)} scores, expected {parts}")
    return {name: line[name] for name in ("task", "agent", "seed", "settings", "commit", "processor")} | {
        "scores": found
    }


def table(lines: list[dict[str, Any]]) -> list[str]:
    """The curves of today's settings; of one seed the last one."""
    rows = [TITLES, "| --- " * 4 + "|"]
    valid = [line for line in lines if line["settings"] == scores.fingerprint(line["task"], line["agent"])]
    for line in {(line["task"], line["agent"], line["seed"]): line for line in valid}.values():
        tenths = line["scores"][len(line["scores"]) // 10 - 1 :: len(line["scores"]) // 10]
        curve = ", ".join(f"{score:.0f}" for score in tenths)
        rows.append(f"| {line['task']} {line['agent']} | {line['seed']} | {line['processor']} | {curve} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # Hooks of asynchronous agents run in other processes.
    parser.add_argument("task", choices=[name for name in scores.TASKS if "async" not in name])
    parser.add_argument("agent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", type=int, default=20, help="how many scores, a multiple of 10")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    task = scores.TASKS[args.task]
    if args.agent not in task.agents:
        parser.error(f"agent is {args.agent}, expected one of {', '.join(task.agents)}")
    if args.parts < 1 or args.parts % 10 or task.steps % args.parts:
        parser.error(f"--parts is {args.parts}, expected a multiple of 10 that divides {task.steps:,} steps")
    line = curve_of(args.task, args.agent, args.seed, args.parts)
    with args.results.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print("\n".join(table([line])))


if __name__ == "__main__":
    main()
