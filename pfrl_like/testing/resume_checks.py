"""Whether a run that is stopped goes on as if it had not been: what an agent saves is all that it needs."""

import contextlib
import csv
import dataclasses
import json
import logging
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.testing.requirement import require
from pfrl_like.testing.trial import Trial, state_of
from pfrl_like.utils.env_values import own_copy

N_ENVS = 2


class Stopped(Exception):
    """Ends a run in the middle of an episode."""


class Shuffled(gymnasium.Env[Any, Any]):
    """Some observations in any order; they, the rewards and the ends of episodes come from random streams.

    Args:
        observations: The observations.
        env: Has the spaces.
        seed: Seed of its own stream; the rewards come from the global one, too.
    """

    def __init__(self, observations: Sequence[Any], env: Any, seed: int) -> None:
        self.observations, self.steps = observations, 0
        self.observation_space: Any = getattr(env, "observation_space", None)
        self.action_space: Any = getattr(env, "action_space", None)
        super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go to any observation."""
        self.steps += 1
        reward = float(self.np_random.normal() + np.random.normal())
        return self._observation(), reward, bool(self.np_random.random() < 0.1), self.steps == 6, {}

    def _observation(self) -> Any:
        return own_copy(self.observations[int(self.np_random.integers(len(self.observations)))])


def check_a_stopped_run_goes_on(trial: Trial) -> None:
    """A run that an error ends goes on from its checkpoint, with `resume=True` and new objects, as if it had not been.

    In two environments at once, if the agent can. An agent that is compiled makes its first update before it is, so
    that its numbers may be others.
    """
    if getattr(trial.trained, "is_compiled", False) is True:
        return
    last = trial.n_steps * 3 // 4

    def stop(clock: Any) -> None:
        if clock.t >= last:
            raise Stopped

    with tempfile.TemporaryDirectory() as folder:
        whole = _run(trial, Path(folder, "whole"), 0)
        with contextlib.suppress(Stopped):
            _run(trial, Path(folder, "stopped"), 0, hooks=[stop])
        came = _run(trial, Path(folder, "stopped"), 1, resume=True)
        told = json.loads(Path(folder, "stopped", "run.json").read_text())["resumed"]
    if trial.on_cpu:
        require(not told["reasons"], f"a run that was stopped does not go on exactly: {'; '.join(told['reasons'])}")
    found = trial.difference(whole, came, "what is left")
    require(found is None, f"a run that was stopped and went on from its checkpoint has left something else: {found}")


def _run(trial: Trial, outdir: Path, further: int, **options: Any) -> dict[str, Any]:
    """Train an agent, of another seed if `further` is; returns what is left."""
    agent, seed, logger = trial.new_agent(trial.seed + further), trial.seed + N_ENVS * further, _silent()
    options |= {"checkpoint_freq": trial.n_steps // 2, "logger": logger, "progress": False}
    envs = [Shuffled(trial.observations, trial.env, seed + i) for i in range(N_ENVS)]
    if hasattr(agent, "batch_act"):
        train_agent_batch(agent, SerialVectorEnv(envs), trial.n_steps, outdir, **options)
    else:
        train_agent(agent, envs[0], trial.n_steps, outdir, **options)
    draws = random.random(), np.random.random(), torch.rand(()).item()
    stored = trial.batch_of(agent) if trial.learns_from_batches else None
    with (outdir / "metrics.csv").open(newline="") as file:
        episodes = [{**row, "elapsed": ""} for row in csv.DictReader(file)]
    fields = {} if stored is None else dataclasses.asdict(stored.replace(future=None))  # whose rows may be in any order
    return {"agent": state_of(agent), "draws": draws, "minibatch": fields, "episodes": episodes}


def _silent() -> logging.Logger:
    logger = logging.Logger(__name__)
    logger.addHandler(logging.NullHandler())
    return logger
