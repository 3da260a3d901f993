"""`Trial`: a trained agent for checks; and a check that an interrupted run resumes from its checkpoint exactly."""

import contextlib
import copy
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
from pfrl_like.testing.play import Episodes, RecordedEnv, difference, play_one, require
from pfrl_like.utils.batch_states import batch_of_experiences
from pfrl_like.utils.env_values import own_copy
from pfrl_like.utils.random_seed import set_random_seed


class Trial:
    """Trained agent and environment for checks.

    Args:
        make_agent: Function that returns an agent with its own networks, optimisers and buffer. It must pass keyword
            arguments to the constructor, and the agent must make updates well before `n_steps` steps. With the same
            seed of the global random streams, the function must return the same agent. An explorer may sample from the
            action space of `env`, which is seeded; a separate action space must be seeded by the function.
        env: An environment that the agent can act in.
        n_steps: Number of steps of a training run.
        seed: Seed of the trial.
    """

    def __init__(self, make_agent: Callable[..., Any], env: Any, n_steps: int, seed: int) -> None:
        self.make_agent = make_agent
        self.env = env
        self.n_steps = n_steps
        self.seed = seed
        self.trained = self.new_agent()
        self.actions = play_one(self.trained, env, n_steps)
        self._trained_state = copy.deepcopy(state_of(self.trained))

    def difference(self, first: Any, second: Any, name: str = "") -> str | None:
        """Return the first difference between two states: bitwise on the CPU, up to rounding on a GPU."""
        return difference(first, second, name, exact=self.on_cpu)

    @property
    def on_cpu(self) -> bool:
        """True if the agent computes on the CPU."""
        return torch.device(getattr(self.trained, "device", "cpu")).type == "cpu"

    def new_agent(self, seed: int | None = None) -> Any:
        """Return an untrained agent. Equal seeds return equal agents."""
        set_random_seed(self.seed if seed is None else seed)
        self.env.action_space.seed(self.seed)  # random actions may be sampled from this space
        return self.make_agent()

    def trained_again(self) -> Any:
        """Return the trained agent in its state after training, except for its buffer; checks may train it further."""
        if hasattr(self.trained, "load_state_dict"):
            self.trained.load_state_dict(self._trained_state)
            return self.trained
        with tempfile.TemporaryDirectory() as dirname:
            for name, content in self._trained_state.items():
                path = Path(dirname, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.tobytes())
            self.trained.load(dirname)
        return self.trained

    def batch_of(self, agent: Any) -> Batch:
        """Return a minibatch of an agent's stored steps; it is the same at every call."""
        sampling = getattr(agent, "sampling", {})
        set_random_seed(self.seed)
        if getattr(agent, "learns_from_sequences", getattr(agent, "recurrent", False)):
            batch: Batch = agent.replay_buffer.sample_sequences(
                agent.minibatch_size, agent.episodic_update_len, agent.gamma, **sampling
            )
        else:
            batch = agent.replay_buffer.sample_batch(agent.minibatch_size, agent.gamma, **sampling)
        if agent.replay_buffer.prioritized:  # errors of 1 do not change the sampled items
            agent.replay_buffer.update_priorities(batch.index, np.ones(len(batch.index)))
        return batch

    def episode(self) -> Batch:
        """Return a short episode of random actions, for agents that learn from consecutive steps."""
        env = RecordedEnv(self.env, seed=self.seed)
        env.reset()
        while not env.ended:
            env.step(env.action_space.sample())
        steps = [
            {
                "state": step.obs, "action": step.action, "reward": step.reward, "next_state": step.next_obs,
                "is_state_terminal": False,
            }
            for step in env.episodes[0]
        ]  # fmt: skip
        return batch_of_experiences([steps], self.trained.gamma, sequences=True).replace(index=None)

    @property
    def learns_from_batches(self) -> bool:
        """True if the agent has `update` and a replay buffer."""
        return hasattr(self.trained, "update") and getattr(self.trained, "replay_buffer", None) is not None

    @functools.cached_property
    def observations(self) -> list[Any]:
        """Several observations of the environment."""
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
            agent.observe(self.observations[0], 0.0, True, False)  # end the earlier episode
            actions = []
            for obs in self.observations:
                actions.append(np.asarray(agent.act(obs)))
                agent.observe(obs, 0.0, False, False)
        return actions


def state_of(agent: Any) -> dict[str, Any]:
    """Return the state that `save` writes: live tensors, or the saved bytes for an agent without `state_dict`."""
    if hasattr(agent, "state_dict"):
        state: dict[str, Any] = agent.state_dict()
        return state
    with tempfile.TemporaryDirectory() as dirname:
        agent.save(dirname)
        files = sorted(path for path in Path(dirname).rglob("*") if path.is_file())
        return {str(path.relative_to(dirname)): np.frombuffer(path.read_bytes(), np.uint8) for path in files}


N_ENVS = 2
#: Hint for the case that two runs with the same seed differ.
UNSEEDED = (
    "does make_agent, or a part that it makes, draw random numbers that set_random_seed does not set? "
    "An action space needs a seed of its own"
)


class Stopped(Exception):
    """Error that interrupts a run in the middle of an episode."""


class Shuffled(gymnasium.Env[Any, Any]):
    """Environment with given observations in random order, random rewards and random ends of episodes.

    Args:
        observations: The observations.
        env: Environment that the spaces are taken from.
        seed: Seed of the environment's random stream. The rewards also depend on the global stream.
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


def check_a_stopped_run_goes_on(trial: Trial) -> None:
    """Check that an interrupted run resumes exactly from its checkpoint, with `resume=True` and new objects.

    The check uses two environments if the agent supports them. Compiled agents are skipped: their first update runs
    before compilation, so their numbers may differ.
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
        found = trial.difference(whole, came, "what is left")
        again = (
            None if found is None else trial.difference(whole, _run(trial, Path(folder, "again"), 0), "what is left")
        )
    if trial.on_cpu:
        require(not told["reasons"], f"a run that was stopped does not resume exactly: {'; '.join(told['reasons'])}")
    require(
        again is None,
        f"two runs with the same seed, both uninterrupted, have different results: {again}; {UNSEEDED}",
    )
    require(found is None, f"a run that was stopped and resumed from its checkpoint has different results: {found}")


def _run(trial: Trial, outdir: Path, further: int, **options: Any) -> dict[str, Any]:
    """Train an agent, with a different seed if `further` is not 0, and return its final state and results."""
    agent, seed, logger = trial.new_agent(trial.seed + further), trial.seed + N_ENVS * further, logging.Logger(__name__)
    logger.addHandler(logging.NullHandler())
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
    # The order of the rows of `continuation` is arbitrary.
    fields = {} if stored is None else dataclasses.asdict(stored.replace(continuation=None))
    return {"agent": state_of(agent), "draws": draws, "minibatch": fields, "episodes": episodes}
