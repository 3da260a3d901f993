"""Make the data that the package ships: `python benchmarks/make_small_datasets.py`.

Writes `pfrl_like/datasets/data/cartpole.npz` and `pendulum.npz`, each with a `.json` beside it that tells how they were
made. Each is a mix of random play, of an agent that was stopped half-way, and of one that had learnt the task, with
the settings of `score_tasks`. It takes about five minutes on one core.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from offline_data import Behaviour, recorded, returns_of, summary, versions
from score_tasks import TASKS, make_agent, settings_of

from pfrl_like import experiments, utils
from pfrl_like.dataset import MDPDataset

DATA = Path(__file__).parents[1] / "pfrl_like" / "datasets" / "data"


class Part(NamedTuple):
    """One behaviour of a mix.

    Attributes:
        name: "random", "medium" or "expert".
        episodes: How many are recorded.
        noise: Share of actions that are random.
        level: Mean return at which the agent's training is stopped; None for that of all its steps.
    """

    name: str
    episodes: int
    noise: float
    level: float | None = None


#: Of each task: the agent that learns it, steps between its evaluations, and the parts of the mix.
MIXES = {
    "cartpole": (
        "CategoricalDQN",
        500,
        (Part("random", 60, 1.0), Part("medium", 40, 0.2, 100.0), Part("expert", 20, 0.05)),
    ),
    "pendulum": (
        "SoftActorCritic",
        250,
        (Part("random", 20, 1.0), Part("medium", 30, 0.1, -800.0), Part("expert", 30, 0.05)),
    ),
}


def trained(task: str, name: str, interval: int, level: float | None, seed: int) -> tuple[Any, float]:
    """An agent that was stopped at a level, and the score at which it stopped."""
    utils.set_random_seed(seed)
    env, eval_env = TASKS[task].make_env(), TASKS[task].make_env()
    for each in (env, eval_env):
        each.reset(seed=seed)
        each.action_space.seed(seed)
    agent = make_agent(task, name, env)
    last_lr = settings_of(task, name)["lr"]

    def set_lr(env: Any, agent: Any, value: float) -> None:
        for part in vars(agent).values():
            for group in part.param_groups if isinstance(part, torch.optim.Optimizer) else ():
                group["lr"] = value

    steps = TASKS[task].steps
    with tempfile.TemporaryDirectory() as outdir:
        _, history = experiments.train_agent_with_evaluation(
            agent, env, steps, None, 10, interval, outdir, eval_env=eval_env, save_best_so_far_agent=False,
            successful_score=level, step_hooks=[experiments.LinearInterpolationHook(steps, last_lr, 0.0, set_lr)],
        )  # fmt: skip
    return agent, history[-1]["eval_score"]


def make(task: str, seed: int, directory: Path) -> None:
    """Train, record and write the mix of one task."""
    name, interval, parts = MIXES[task]
    mix: MDPDataset | None = None
    told = []
    for number, part in enumerate(parts):
        made: dict[str, Any] = {"part": part.name, "random_actions": part.noise, "seed": seed + number}
        agent = None
        if part.noise < 1.0:
            agent, score = trained(task, name, interval, part.level, seed)
            made |= {"agent": name, "trained_steps": agent.t, "score": round(score, 2)}
        env = TASKS[task].make_env()
        behaviour = Behaviour(agent, env.action_space.sample, part.noise, seed + number)
        dataset = recorded(behaviour, env, part.episodes, None, seed + number)
        returns = returns_of(dataset)
        told.append(made | summary(returns) | {"steps": dataset.n_steps, "returns": returns})
        print(f"{task}, {part.name}: {summary(returns)}", flush=True)
        if mix is None:
            mix = dataset
        else:
            mix.extend(dataset)
    assert mix is not None
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{task}.npz"
    mix.dump(path)
    with np.load(path) as arrays:
        single = {key: values.astype(np.float32) if values.dtype == float else values for key, values in arrays.items()}
    np.savez_compressed(path, **single)
    record = {"env": str(TASKS[task].make_env()), "script": Path(__file__).name, "seed": seed, "versions": versions()}
    path.with_suffix(".json").write_text(json.dumps(record | {"parts": told}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="*", default=list(MIXES), choices=MIXES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, default=DATA)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for task in args.task:
        make(task, args.seed, args.directory)


if __name__ == "__main__":
    main()
