"""Make sets of MuJoCo tasks: `python benchmarks/make_offline_datasets.py` (extras mujoco and offline).

For Hopper-v5 and HalfCheetah-v5, in `benchmarks/data`, with a `.json` beside each file that tells how it was made:

- `<task>-medium-replay.h5`: all that TD3 had met when its score first reached the level "medium";
- `<task>-medium.h5`: 100,000 steps (`--steps`) of the agent of that moment, with Gaussian noise of 0.1.

TD3 has the settings of `score_tasks`. A run that was stopped goes on: training from its last checkpoint, where the
compiled agent makes one update uncompiled, so that later steps are others than they would have been; and recording
after the last part that was written. See `benchmarks/README.md` for the time it takes.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import mujoco
import numpy as np
import torch
from offline_data import Behaviour, chunks, recorded, returns_of, summary, versions
from score_tasks import TASKS, make_agent

from pfrl_like import experiments, replay_buffers, utils
from pfrl_like.dataset import MDPDataset
from pfrl_like.storage import atomic_write

DATA = Path(__file__).with_name("data")
NOISE = 0.1
CHUNK = 10_000
CHECKPOINT = 5_000


class Level(NamedTuple):
    """When an agent is called medium.

    Attributes:
        score: Mean return of 10 greedy episodes; some third of what TD3 ends with.
        most_steps: Steps after which training ends, whatever the score.
    """

    score: float
    most_steps: int


LEVELS = {"hopper": Level(1_000.0, 100_000), "halfcheetah": Level(2_500.0, 100_000)}


class Noisy(Behaviour):
    """An agent with Gaussian noise on its actions, which stay in [-1, 1]."""

    def act(self, obs: Any) -> Any:
        """The agent's action, and noise."""
        action = self.agent.act(obs)
        noise = self.rng.normal(0.0, self.noise, action.shape)
        return np.clip(action + noise, -1.0, 1.0).astype(action.dtype)


def make_envs(task: str, seed: int) -> list[gymnasium.Env]:
    """One to train in, and one to be evaluated in."""
    envs = [TASKS[task].make_env() for _ in range(2)]
    for number, env in enumerate(envs):
        env.reset(seed=seed + number)
        env.action_space.seed(seed + number)
    return envs


def medium_agent(task: str, seed: int, level: Level, work: Path) -> tuple[Any, dict[str, Any]]:
    """TD3 at its level, and what is told of it; training goes on where it was stopped."""
    utils.set_random_seed(seed)
    env, eval_env = make_envs(task, seed)
    agent = make_agent(task, "TD3", env)
    agent.replay_buffer = replay_buffers.ReplayBuffer()  # of all steps
    _, history = experiments.train_agent_with_evaluation(
        agent, env, level.most_steps, None, 10, min(CHECKPOINT, level.most_steps), work,
        checkpoint_freq=CHECKPOINT, eval_env=eval_env, successful_score=level.score, resume=True,
    )  # fmt: skip
    score = round(history[-1]["eval_score"], 2)
    return agent, {"agent": "TD3", "trained_steps": agent.t, "score": score, "seed": seed}


def write(dataset: MDPDataset, path: Path, record: dict[str, Any]) -> None:
    """A dataset, and then what is told of it, so that a set is there once its record is."""
    dataset.dump(path)
    returns = returns_of(dataset)
    told = record | {"steps": dataset.n_steps, "returns": summary(returns), "versions": versions(mujoco)}
    atomic_write(path.with_suffix(".json"), (json.dumps(told, indent=1) + "\n").encode())
    print(f"{path.name}: {dataset.n_steps:,} steps, {told['returns']}", flush=True)


def medium(task: str, agent: Any, seed: int, steps: int, work: Path) -> MDPDataset:
    """So many steps of a medium agent, recorded part by part."""
    parts = []
    for number, n in chunks(steps, CHUNK):
        path = work / f"medium-{number}-{n}.h5"
        if not path.exists():
            env = TASKS[task].make_env()
            behaviour = Noisy(agent, env.action_space.sample, NOISE, seed + number)
            recorded(behaviour, env, None, n, seed + number).dump(path)
            print(f"{task}: {n:,} more steps of the medium agent", flush=True)
        parts.append(MDPDataset.load(path))
    for part in parts[1:]:
        parts[0].extend(part)
    return parts[0]


def make(task: str, seed: int, steps: int, level: Level, data: Path) -> None:
    """Both sets of a task, as far as they are missing."""
    replay, expected = data / f"{task}-medium-replay.h5", data / f"{task}-medium.h5"
    if replay.with_suffix(".json").exists() and expected.with_suffix(".json").exists():
        return
    work = data / f".{task}-{seed}"
    agent, record = medium_agent(task, seed, level, work / "run")
    record |= {"env": TASKS[task].make_env().spec.id, "level": level.score, "script": Path(__file__).name}
    if not replay.with_suffix(".json").exists():
        write(MDPDataset.from_buffer(agent.replay_buffer), replay, record)
    write(medium(task, agent, 1_000 * (seed + 1), steps, work), expected, record | {"noise": NOISE})
    shutil.rmtree(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="*", default=list(LEVELS), choices=LEVELS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100_000, help="of the medium sets")
    parser.add_argument("--level", type=float, help="score of a medium agent, in the place of its task's")
    parser.add_argument("--most-steps", type=int, help="of training, in the place of its task's")
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for task in args.task:
        level = LEVELS[task]
        level = Level(args.level or level.score, args.most_steps or level.most_steps)
        make(task, args.seed, args.steps, level, args.data)


if __name__ == "__main__":
    main()
