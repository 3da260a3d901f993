"""Courses of training, to be compared: every agent under every runner that is not asynchronous."""

import csv
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pair_base import Case
from registry import LEARNERS

from pfrl_like import experiments
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.utils import set_random_seed

STEPS, N_ENVS = 24, 3
EVALUATION = {"eval_n_steps": None, "eval_n_episodes": 2, "eval_interval": 10}
#: Explorers that draw, the one that is preferred last.
EXPLORING = (None, "ConstantEpsilonGreedy", "AdditiveGaussian")

Run = Callable[[Any, list[Any], str], Any]
RUNNERS: dict[str, Run] = {
    "train_agent": lambda agent, envs, outdir: experiments.train_agent(agent, envs[0], STEPS, outdir),
    "train_agent_with_evaluation": lambda agent, envs, outdir: experiments.train_agent_with_evaluation(
        agent, envs[0], STEPS, outdir=outdir, **EVALUATION
    )[1],
    "train_agent_batch": lambda agent, envs, outdir: experiments.train_agent_batch(
        agent, SerialVectorEnv(envs), STEPS, outdir
    ),
    "train_agent_batch_with_evaluation": lambda agent, envs, outdir: experiments.train_agent_batch_with_evaluation(
        agent, SerialVectorEnv(envs), STEPS, outdir=outdir, **EVALUATION
    )[1],
}
#: Runners whose processes race each other.
ASYNCHRONOUS = {"train_agent_async", "train_agent_actor_learner"}
#: Without an environment; tests/unit/experiments/test_train_agent_offline.py trains twice from one seed.
OFFLINE = {"train_agent_offline"}


def exemplar(agent: str, recurrent: bool = False) -> Case:
    """A case of an agent that explores, with a prioritised buffer if one fits."""

    def draws(case: Case) -> tuple[bool, int]:
        explorer = case.get("explorer")
        return "Prioritized" in str(case.get("replay_buffer")), explorer in EXPLORING and EXPLORING.index(explorer)

    return max((case for case in LEARNERS[agent].fitting() if case["recurrent"] == recurrent), key=draws)


def course(agent: str, runner: str, seed: int, folder: Path, recurrent: bool = False) -> dict[str, Any]:
    """What comes of a training from a seed, of an agent that is the same at first for every seed."""
    entry, case = LEARNERS[agent], exemplar(agent, recurrent)
    folder.mkdir(parents=True)
    set_random_seed(0)
    trained = entry.make(case, folder)
    set_random_seed(seed)
    envs = [entry.env(case) for _ in range(N_ENVS)]
    for i, env in enumerate(envs):
        env.reset(seed=N_ENVS * seed + i)
    history = RUNNERS[runner](trained, envs, str(folder / "run"))
    return {
        "state": trained.state_dict(),
        "statistics": trained.get_statistics(),
        "history": history,
        "scores": scores(folder / "run" / "scores.txt"),
        "draws": [np.random.random(), float(torch.rand(()))],
    }


def scores(path: Path) -> list[dict[str, str]]:
    """The table of evaluations, without the time they were made at."""
    if not path.exists():
        return []
    with path.open() as file:
        return [{**row, "elapsed": ""} for row in csv.DictReader(file, delimiter="\t")]


def digest(nested: Any) -> str:
    """A number that two results share only if they are the same to the bit."""
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Mapping):
            value = sorted(value.items(), key=str)
        if isinstance(value, list | tuple):
            for each in value:
                add(each)
        elif isinstance(value, torch.Tensor):
            found.update(value.detach().numpy().tobytes())
        else:
            found.update(repr(value).encode())

    add(nested)
    return found.hexdigest()
