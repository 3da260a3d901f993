"""Vector environments that are written on PFRL's classes, with an `__init__` of their own, run as PFRL runs them."""

import multiprocessing

import numpy as np
import pytest
from experiment_fakes import Counting, Recorder

from pfrl_like.env import VectorEnv
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.envs.multiprocess_vector_env import worker
from pfrl_like.errors import EnvError
from pfrl_like.experiments import train_agent_batch
from pfrl_like.experiments.sources import VectorSource
from pfrl_like.runs.loop import Clock, run


def counting():
    """Episodes of three steps; the observation is the step."""
    return [Counting(length=3, truncate=True) for _ in range(2)]


class OfEnvs(SerialVectorEnv):
    """Sets what PFRL's constructor sets."""

    def __init__(self, envs):
        self.envs = envs
        self.last_obs = [None] * self.num_envs
        self.action_space = envs[0].action_space
        self.observation_space = envs[0].observation_space


class OfEnvsAlone(SerialVectorEnv):
    """Sets the environments only."""

    def __init__(self, envs):
        self.envs = envs


class OfRemotes(MultiprocessVectorEnv):
    """Starts processes of its own, as PFRL's constructor does."""

    def __init__(self, env_fns):
        context = multiprocessing.get_context("fork")
        self.remotes, self.work_remotes = zip(*[context.Pipe() for _ in env_fns], strict=True)
        self.ps = [context.Process(target=worker, args=pair) for pair in zip(self.work_remotes, env_fns, strict=True)]
        for process in self.ps:
            process.start()
        self.last_obs = [None] * self.num_envs
        self.remotes[0].send(("get_spaces", None))
        self.action_space, self.observation_space = self.remotes[0].recv()
        self.closed = False


class Masked:
    """PFRL's `reset(mask)` and steps of four values, written as a class of its own."""

    def __init__(self, envs):
        self.envs, self.num_envs, self.last_obs = envs, len(envs), [None] * len(envs)

    def step(self, actions):
        results = [self.one_step(env, action) for env, action in zip(self.envs, actions, strict=True)]
        self.last_obs, rewards, dones, infos = zip(*results, strict=True)
        return self.last_obs, rewards, dones, infos

    def one_step(self, env, action):
        obs, reward, terminated, truncated, info = env.step(action)
        return obs, reward, terminated, {**info, "needs_reset": truncated}

    def reset(self, mask=None):
        mask = np.zeros(self.num_envs) if mask is None else mask
        obs = [last if skip else env.reset()[0] for skip, env, last in zip(mask, self.envs, self.last_obs, strict=True)]
        self.last_obs = obs
        return obs

    def seed(self, seeds):
        pass

    def close(self):
        pass


class OfVectorEnv(Masked, VectorEnv):
    """Written on the interface alone."""


class FiveValues(Masked):
    """A plain class whose steps have five values."""

    def step(self, actions):
        results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        self.last_obs = [result[0] for result in results]
        return tuple(np.array(column) if i in (1, 2, 3) else column for i, column in enumerate(zip(*results)))  # noqa: B905


MAKERS = {
    "SerialVectorEnv": lambda: SerialVectorEnv(counting()),
    "envs and spaces": lambda: OfEnvs(counting()),
    "envs": lambda: OfEnvsAlone(counting()),
    "remotes": lambda: OfRemotes([lambda env=env: env for env in counting()]),
    "VectorEnv": lambda: OfVectorEnv(counting()),
    "plain class": lambda: Masked(counting()),
    "five values": lambda: FiveValues(counting()),
}


#: Rows of two environments that step together: observation, reward, terminated, truncated.
OBSERVED = [(step, 1.0, False, step == 3) for step in (1, 2, 3) for _ in range(2)] * 2


@pytest.mark.parametrize("kind", MAKERS)
def test_what_an_agent_observes_is_the_same_in_every_form(kind):
    agent, env = Recorder(), MAKERS[kind]()
    run(VectorSource(agent, env), Clock(12), [])
    env.close()
    assert agent.observed == OBSERVED


def test_a_run_with_processes_of_a_subclass_saves_checkpoints(tmp_path):
    agent, env = Recorder(), MAKERS["remotes"]()
    train_agent_batch(agent, env, 12, str(tmp_path), checkpoint_freq=4, progress=False)
    env.close()
    assert agent.observed == OBSERVED and [name for name in agent.saved if name.endswith("8_checkpoint")]


def test_processes_of_a_subclass_answer_and_end():
    env = OfRemotes([ABC, ABC])
    env.seed([1, 2])
    assert [obs.argmax() for obs in env.reset()] == [0, 0]
    assert len(env.step([0, 0])) == 4 and env.num_envs == 2 and env.spec is None
    assert [obs.argmax() for obs in env.reset([True, False])] == [1, 0]
    env.close()
    assert not any(process.is_alive() for process in env.ps)
    with pytest.raises(EnvError, match="has been closed"):
        env.step([0, 0])
