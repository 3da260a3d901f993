"""Scores of agents that `train_agent_distributed` trains, beside those of the serial runners.

    python benchmarks/distributed_scores.py             # resumes; each seed that has finished is a line of JSON
    python benchmarks/distributed_scores.py --table     # trains nothing
    python benchmarks/distributed_scores.py --steps 400 --seeds 0 --results try.jsonl     # only to see that it runs

Two actors of four environments have the preset's agent and wrappers. The score is that of the final agent, greedily,
over the 20 episodes of `scores.py`. A seed that was interrupted resumes from its newest checkpoint.
"""

import functools
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scores
import torch
from measured_once import measured_once, parser_of

import pfrl_like
from pfrl_like import experiments, wrappers
from pfrl_like.zoo.presets import preset

ACTORS, ENVS_PER_ACTOR = 2, 4
CHECKPOINTS = 10
#: Agent, environment, steps, bounds of the rows in a message, requests in flight, and the score to reach. The
#: serial runner has no messages, and runs once for each task.
CASES = (
    ("sac", "Pendulum-v1", 8_000, (1, 8), 2, -170.0),
    ("sac", "Pendulum-v1", 12_000, (1, 8), 2, -170.0),
    ("sac", "Pendulum-v1", 12_000, (1, 32), 1, -170.0),
    ("dqn", "CartPole-v1", 50_000, (1, 8), 2, 475.0),
    ("dqn", "CartPole-v1", 50_000, (1, 16), 1, 475.0),
    ("dqn", "CartPole-v1", 50_000, (1, 32), 1, 475.0),
    ("impala", "CartPole-v1", 300_000, (1, 8), 2, 475.0),
    ("appo", "CartPole-v1", 300_000, (1, 8), 2, 475.0),
)
FOLDER = Path(tempfile.gettempdir()) / "pfrl_like-distributed-scores"
TITLES = "| agent | environment | steps | rows a message | requests | runner | score of each seed | bar |"
Line = dict[str, Any]


def make_agent(case: Line) -> Any:
    """The preset's agent. Its parameters follow from the seed."""
    return pfrl_like.make(case["agent"], case["env"], seed=case["seed"]).agent


def make_env(agent: str, env_id: str, actor: int, index: int, test: bool) -> Any:
    """The preset's environment. `make_agent` is not used in actors, because it seeds the global streams."""
    settings, env = preset(agent, env_id), pfrl_like.envs.make_env(env_id)
    if hasattr(env.action_space, "low"):
        env = wrappers.NormalizeActionSpace(env)
    return wrappers.ScaleReward(env, settings["reward_scale"]) if "reward_scale" in settings else env


def schedules(agent: Any, steps: int) -> list[Any]:
    """The hooks of `make`: the learning rates fall to 0, but not that of the temperature."""
    optimizers = {name: each for name, each in vars(agent).items() if isinstance(each, torch.optim.Optimizer)}
    optimizers.pop("temperature_optimizer", None)
    return [
        experiments.ScheduleHook(steps, each.param_groups[0]["lr"], 0.0, f"{name}.lr")
        for name, each in optimizers.items()
    ]


def measured(case: Line) -> Line:
    """Train one seed and score it."""
    name, env_id, steps, seed = (case[key] for key in ("agent", "env", "steps", "seed"))
    torch.set_num_threads(1)
    folder = FOLDER / "-".join(str(value) for value in case.values()).replace(" ", "")
    options = {"outdir": folder, "resume": True, "checkpoint_freq": max(1, steps // CHECKPOINTS)}
    made = pfrl_like.make(name, env_id, seed=seed)
    agent = made.agent
    if case["runner"] == "serial":
        made.train(steps=steps, eval_interval=steps, **options)
    else:
        experiments.train_agent_distributed(
            lambda: agent, functools.partial(make_env, name, env_id), steps=steps, actors=ACTORS, seed=seed,
            envs_per_actor=ENVS_PER_ACTOR, rows_per_message=tuple(case["rows"]), requests_in_flight=case["requests"],
            start_timeout=300.0, step_hooks=schedules(agent, steps), **options,
        )  # fmt: skip
    returns, _ = scores.greedy_episodes(agent, made.eval_env)
    shutil.rmtree(folder)
    return {"score": round(float(np.mean(returns)), 1), "returns": returns, **scores.provenance()}


def table(lines: list[Line]) -> str:
    """One row for each case and runner."""
    rows = [TITLES, "| --- " * (TITLES.count("|") - 1) + "|"]
    for case, bar in cases_of(("serial", "distributed")):
        found = {line["seed"]: line["score"] for line in lines if case.items() <= line.items()}
        if found:
            shown = ", ".join(f"{found[seed]:.1f}" for seed in sorted(found))
            sizes = f"{case['rows'][0]} to {case['rows'][1]} | {case['requests']}" if "rows" in case else "- | -"
            names = f"{case['agent']} | {case['env']} | {case['steps']:,}"
            rows.append(f"| {names} | {sizes} | {case['runner']} | {shown} | {bar:g} |")
    return "\n".join(rows)


def cases_of(runners: Iterable[str]) -> Iterator[tuple[Line, float]]:
    """What tells the lines of each case from others, without their seeds; and the score to reach."""
    serial = set()
    for name, env_id, steps, rows, requests, bar in CASES:
        task = {"agent": name, "env": env_id, "steps": steps}
        for runner in runners:
            if runner == "distributed":
                yield {**task, "rows": list(rows), "requests": requests, "runner": runner}, bar
            elif (name, env_id, steps) not in serial:
                serial.add((name, env_id, steps))
                yield {**task, "runner": runner}, bar


def main() -> None:
    parser = parser_of(__doc__, "distributed_scores")
    names = sorted({case[0] for case in CASES})
    parser.add_argument("--agents", nargs="+", default=names, choices=names)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runners", nargs="+", default=["distributed", "serial"], choices=["distributed", "serial"])
    parser.add_argument("--steps", type=int, help="in place of the steps of all cases")
    args = parser.parse_args()
    cases = (
        {**case, "steps": args.steps or case["steps"], "seed": seed}
        for seed in args.seeds for case, _ in cases_of(args.runners)
        if case["agent"] in args.agents
    )  # fmt: skip
    print(table(measured_once(args, cases, measured)))


if __name__ == "__main__":
    main()
