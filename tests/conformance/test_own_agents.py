"""Agents that scripts write on PFRL's base classes, whose constructors call no other, under every runner."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from experiment_fakes import Counting
from torch import nn

from pfrl_like import agents, experiments
from pfrl_like.agent import Agent, AsyncAgent, AttributeSavingMixin, BatchAgent
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.errors import CheckpointError
from pfrl_like.explorers import Greedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer

Walk = functools.partial(Counting, 5)  # steps an episode


class One(Agent):
    def __init__(self, n: int) -> None:
        self.seen = n

    def act(self, obs: Any) -> Any:
        return 0

    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        if self.training:
            self.seen += 1

    def save(self, dirname: str) -> None:
        Path(dirname).mkdir(parents=True, exist_ok=True)

    def load(self, dirname: str) -> None:
        pass

    def get_statistics(self) -> Any:
        return [("seen", self.seen)]


class Many(BatchAgent):
    def __init__(self, n: int) -> None:
        self.seen = n

    def batch_act(self, batch_obs: Any) -> Any:
        return [0] * len(batch_obs)

    def batch_observe(self, batch_obs: Any, batch_reward: Any, batch_done: Any, batch_reset: Any) -> None:
        if self.training:
            self.seen += len(batch_obs)

    save, load, get_statistics = One.save, One.load, One.get_statistics  # type: ignore[assignment]


class Saved(AttributeSavingMixin, Agent):
    saved_attributes = ("model",)

    def __init__(self, n: int) -> None:
        self.model, self.seen = nn.Linear(1, 2), n

    act, observe, get_statistics = One.act, One.observe, One.get_statistics  # type: ignore[assignment]


class Shared(AttributeSavingMixin, AsyncAgent):
    process_idx = None
    saved_attributes = shared_attributes = ("model",)

    __init__ = Saved.__init__  # type: ignore[assignment]
    act, observe, get_statistics = One.act, One.observe, One.get_statistics  # type: ignore[assignment]


EVALUATION = {"steps": 12, "eval_n_steps": None, "eval_n_episodes": 1, "eval_interval": 6}


@pytest.mark.representatives(2)
@pytest.mark.parametrize("cls", [One, Many, Saved, Shared])
def test_runners_of_one_environment_take_it(cls: Any, tmp_path: Path) -> None:
    agent = cls(0)
    experiments.train_agent_with_evaluation(agent, Walk(), outdir=tmp_path / "evaluated", **EVALUATION)
    experiments.train_agent(agent, Walk(), 12, tmp_path / "trained")
    assert agent.seen == 24
    assert experiments.eval_performance(Walk(), agent, None, 2)["mean"] == 5.0


def test_runners_of_several_environments_take_it(tmp_path: Path) -> None:
    agent, env = Many(0), SerialVectorEnv([Walk(), Walk()])
    evaluated, eval_env = tmp_path / "evaluated", SerialVectorEnv([Walk()])
    experiments.train_agent_batch_with_evaluation(agent, env, outdir=evaluated, eval_env=eval_env, **EVALUATION)
    experiments.train_agent_batch(agent, env, 12, tmp_path / "trained")
    assert agent.seen == 24


@pytest.mark.slow
def test_the_asynchronous_runner_takes_it(tmp_path: Path) -> None:
    experiments.train_agent_async(
        tmp_path, 2, lambda index, test: Walk(), agent=Shared(0), start_method="fork", **EVALUATION
    )
    assert (tmp_path / "12_finish").is_dir()


def network() -> Any:
    return nn.Sequential(nn.Linear(1, 2), DiscreteActionValueHead())


@pytest.mark.parametrize("base", [agents.DQN, agents.PPO, agents.A3C])
def test_an_agent_of_pfrl_without_its_constructor_is_told_at_its_first_call(base: Any, tmp_path: Path) -> None:
    def init(self: Any) -> None:
        self.model = network()

    agent = type("Own", (base,), {"__init__": init})()
    missing = r"Own has no attribute '\w+': Own.__init__ must call super\(\).__init__"
    for call in (functools.partial(agent.act, np.zeros(1, np.float32)), agent.get_statistics):
        with pytest.raises(AttributeError, match=missing):
            call()
    with pytest.raises(CheckpointError, match="Own.__init__ has not set it"):  # parameters are recorded first
        experiments.train_agent(agent, Walk(), 12, tmp_path)


def test_an_agent_of_pfrl_that_defines_all_it_uses_runs(tmp_path: Path) -> None:
    class Own(agents.DQN):
        saved_attributes = ("model",)

        def __init__(self) -> None:
            self.model, self.replay_buffer, self.seen = network(), ReplayBuffer(10), 0
            self.t = self.optim_t = self._cumulative_steps = self.replay_start_size = 0  # as PFRL's does

        batch_act, batch_observe, get_statistics = Many.batch_act, Many.batch_observe, One.get_statistics  # type: ignore

    agent = Own()
    experiments.train_agent(agent, Walk(), 12, tmp_path)
    assert agent.seen == 12


def test_a_missing_attribute_of_a_whole_agent_is_no_matter_of_the_constructor() -> None:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    agent = agents.DQN(net, optimizer, ReplayBuffer(10), 0.9, Greedy(), replay_start_size=5, minibatch_size=5)
    with pytest.raises(AttributeError, match="^'DQN' object has no attribute 'gone'"):
        agent.gone  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="DQN of this library has no _can_start_replay: see batch_observe"):
        agent._can_start_replay()
    assert agent.q_function is agent.model is net
