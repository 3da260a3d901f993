"""`Trial`, a trained agent for checks, and `compare_with_resumed_run`, for a check of runs with checkpoints."""

import contextlib
import csv
import dataclasses
import functools
import json
import logging
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from pfrl_like.batch import Batch
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.testing.play import Episodes, RecordedEnv, difference, play_one, require, require_equal
from pfrl_like.utils.batch_states import batch_of_experiences
from pfrl_like.utils.env_values import own_copy
from pfrl_like.utils.random_seed import set_random_seed


class Trial:
    """Trains an agent, and returns the agent, its batches and its actions for the checks.

    Args:
        make_agent: Function that returns a new agent with new networks, optimisers and buffer. The function must pass
            its keyword arguments to the agent's constructor. The agent must make its first updates well before
            `n_steps` steps. If the global random streams have the same seed, the function must return the same agent.
            If an explorer samples from the action space of `env`, the check seeds this space. If an explorer samples
            from another action space, the function must seed that space.
        env: Environment in which the agent can act.
        n_steps: Number of steps of each training run.
        seed: Seed of the global random streams and of the action space.
        folder: Empty folder, in which the trained agent is saved.
    """

    def __init__(self, make_agent: Callable[..., Any], env: Any, n_steps: int, seed: int, folder: str) -> None:
        self.make_agent = make_agent
        self.env = env
        self.n_steps = n_steps
        self.seed = seed
        self.trained = self.new_agent()
        self.actions = play_one(self.trained, env, n_steps)
        self._folder = folder
        self.trained.save(folder)

    def require_equal(self, first: Any, second: Any, message: str, name: str = "state") -> None:
        """Raise an AssertionError with this message if two states differ. On a GPU rounding differences are allowed."""
        require_equal(first, second, message, name, exact=self.on_cpu)

    @property
    def on_cpu(self) -> bool:
        """True if the agent computes on the CPU."""
        return torch.device(getattr(self.trained, "device", "cpu")).type == "cpu"

    def new_agent(self, seed: int | None = None) -> Any:
        """Return an untrained agent. Equal seeds return equal agents."""
        set_random_seed(self.seed if seed is None else seed)
        self.env.action_space.seed(self.seed)  # an explorer may sample actions from this space
        return self.make_agent()

    def trained_again(self) -> Any:
        """Return the trained agent, restored to its state at the end of training. Its buffer is not restored."""
        self.trained.load(self._folder)
        return self.trained

    def batch_of(self, agent: Any) -> Batch:
        """Return a minibatch from an agent's replay buffer. Every call returns the same minibatch."""
        sampling = getattr(agent, "sampling", {})
        set_random_seed(self.seed)
        if getattr(agent, "learns_from_sequences", getattr(agent, "recurrent", False)):
            sample = functools.partial(agent.replay_buffer.sample_sequences, max_len=agent.episodic_update_len)
        else:
            sample = agent.replay_buffer.sample_batch
        batch: Batch = sample(agent.minibatch_size, gamma=agent.gamma, **sampling)
        if agent.replay_buffer.prioritized:  # some buffers require errors after each sample
            agent.replay_buffer.update_priorities(batch.index, np.ones(len(batch.index)))
        return batch

    def episode(self) -> Batch:
        """Return a short episode of random actions, for agents that have no replay buffer."""
        env = RecordedEnv(self.env, seed=self.seed)
        env.reset()
        while not env.ended:
            env.step(env.action_space.sample())
        names = ("state", "action", "reward", "next_state", "is_state_terminal")
        steps = [dict(zip(names, [*step[:4], False], strict=True)) for step in env.episodes[0]]
        return batch_of_experiences([steps], self.trained.gamma, sequences=True).replace(index=None)

    @property
    def learns_from_batches(self) -> bool:
        """True if the agent has `update` and a replay buffer."""
        return hasattr(self.trained, "update") and getattr(self.trained, "replay_buffer", None) is not None

    @functools.cached_property
    def observations(self) -> list[Any]:
        """20 observations from episodes of random actions."""
        episodes, observations = Episodes(self.env, self.seed), []
        for _ in range(20):
            observations.append(episodes.obs)
            episodes.step(episodes.env.action_space.sample())
        return observations

    def evaluated(self, agent: Any) -> list[Any]:
        """Return an agent's actions in evaluation for the observations of one episode."""
        set_random_seed(self.seed)
        with agent.eval_mode():
            agent.act(self.observations[0])
            agent.observe(self.observations[0], 0.0, True, False)  # end the previous episode
            actions = []
            for obs in self.observations:
                actions.append(np.asarray(agent.act(obs)))
                agent.observe(obs, 0.0, False, False)
        return actions


def state_of(agent: Any) -> dict[str, Any]:
    """Return `state_dict`, whose tensors change with the agent. If there is none, return the bytes of saved files."""
    if hasattr(agent, "state_dict"):
        state: dict[str, Any] = agent.state_dict()
        return state
    with tempfile.TemporaryDirectory() as dirname:
        agent.save(dirname)
        files = sorted(path for path in Path(dirname).rglob("*") if path.is_file())
        return {str(path.relative_to(dirname)): np.frombuffer(path.read_bytes(), np.uint8) for path in files}


#: Number of environments of an interrupted run.
N_ENVS = 2
#: End of the error text if two runs with the same seed differ.
UNSEEDED = "does make_agent or a part of the agent use random numbers that set_random_seed does not seed?"


class InterruptedRun(Exception):
    """Error that a hook raises to interrupt a run in the middle of an episode."""


class ShuffledEnv(gymnasium.Env[Any, Any]):
    """Environment whose observations, rewards and ends of episodes are random. Its state can be saved exactly.

    Args:
        observations: `reset` and `step` return random elements of these observations.
        env: Environment with the spaces of the observations and actions.
        seed: Seed of the environment's random stream. The rewards also depend on NumPy's global stream.
    """

    def __init__(self, observations: Sequence[Any], env: Any, seed: int) -> None:
        self.observations, self.steps = observations, 0
        self.observation_space: Any = getattr(env, "observation_space", None)
        self.action_space: Any = getattr(env, "action_space", None)
        super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move to a random observation."""
        self.steps += 1
        reward = float(self.np_random.normal() + np.random.normal())
        return self._observation(), reward, bool(self.np_random.random() < 0.1), self.steps == 6, {}

    def _observation(self) -> Any:
        return own_copy(self.observations[int(self.np_random.integers(len(self.observations)))])


def compare_with_resumed_run(trial: Trial) -> None:
    """Require that an interrupted run, resumed in new objects with `resume=True`, ends like an uninterrupted run.

    Two environments are used if the agent has `batch_act`.
    """
    last = trial.n_steps * 3 // 4

    def stop(clock: Any) -> None:
        if clock.t >= last:
            raise InterruptedRun

    with tempfile.TemporaryDirectory() as folder:
        uninterrupted = _run(trial, Path(folder, "whole"), 0)
        with contextlib.suppress(InterruptedRun):
            _run(trial, Path(folder, "stopped"), 0, hooks=[stop])
        resumed = _run(trial, Path(folder, "stopped"), 1, resume=True)
        record = json.loads(Path(folder, "stopped", "run.json").read_text())["resumed"]
        if difference(uninterrupted, resumed, exact=trial.on_cpu) is not None:
            # The reason may be that even an uninterrupted run is not reproducible.
            message = f"two runs with the same seed, both uninterrupted, have different results ({UNSEEDED})"
            trial.require_equal(uninterrupted, _run(trial, Path(folder, "repeated"), 0), message, "results")
    if trial.on_cpu:
        require(not record["reasons"], f"an interrupted run does not resume exactly: {'; '.join(record['reasons'])}")
    message = "a run that was interrupted and resumed from its checkpoint has different results"
    trial.require_equal(uninterrupted, resumed, message, "results")


def _run(trial: Trial, outdir: Path, seed_offset: int, **options: Any) -> dict[str, Any]:
    """Train an agent, with `seed_offset` added to the seed, and return its final state and results."""
    agent, seed = trial.new_agent(trial.seed + seed_offset), trial.seed + N_ENVS * seed_offset
    logger = logging.Logger(__name__)
    logger.addHandler(logging.NullHandler())
    options |= {"checkpoint_freq": trial.n_steps // 2, "logger": logger, "progress": False}
    envs = [ShuffledEnv(trial.observations, trial.env, seed + i) for i in range(N_ENVS)]
    if hasattr(agent, "batch_act"):
        train_agent_batch(agent, SerialVectorEnv(envs), trial.n_steps, outdir, **options)
    else:
        train_agent(agent, envs[0], trial.n_steps, outdir, **options)
    draws = random.random(), np.random.random(), torch.rand(()).item()
    stored = trial.batch_of(agent) if trial.learns_from_batches else None
    with (outdir / "metrics.csv").open(newline="") as file:
        episodes = [{**row, "elapsed": ""} for row in csv.DictReader(file)]
    # The rows of `continuation` have no fixed order.
    fields = {} if stored is None else dataclasses.asdict(stored.replace(continuation=None))
    return {"agent": state_of(agent), "draws": draws, "minibatch": fields, "episodes": episodes}
