"""Ten updates beside d3rlpy 2.8.1 in float64, from equal weights, on the same minibatches, by the same random numbers.

What d3rlpy answered is in `tests/data/peers/d3rlpy_runs.npz`, where `tests/peers/d3rlpy_runs.py` writes it in d3rlpy's
environment (`make peers`); `pytest -m peers` asks it anew, for five seeds.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peer_libraries import TESTS, answer, asks
from peers import d3rlpy_runs, problem
from torch import nn

from pfrl_like import agents, d3rlpy
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy import ActionSpace, Modules
from pfrl_like.explorers import Greedy
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import DeterministicHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer

Array = NDArray[Any]
SCRIPT, ANSWERS = "peers/d3rlpy_runs.py", TESTS / "data/peers/d3rlpy_runs.npz"


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@functools.cache
def arrays_in(path: Path) -> dict[str, Array]:
    with np.load(path) as file:
        return dict(file)


def answer_of(path: Path, case: str, optimizer: str, seed: int) -> dict[str, Array]:
    """What d3rlpy answered, by name."""
    start = f"{case}/{optimizer}/{seed}/"
    return {name.removeprefix(start): each for name, each in arrays_in(path).items() if name.startswith(start)}


def draws_of(theirs: Mapping[str, Array], update: int) -> list[Array]:
    """The numbers that an update of d3rlpy drew, in order."""
    start = f"drawn/{update}/"
    return [theirs[f"{start}{i}"] for i in range(sum(name.startswith(start) for name in theirs))]


def assert_same_run(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    """All that d3rlpy reports, its first gradients and its last parameters are ours."""
    names = {name for name in theirs if not name.startswith("drawn/")}
    assert names == ours.keys()
    for name in names:
        assert np.allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6 * np.abs(theirs[name]).max()), name


# Our side: agents, with the methods and modules that a run needs


@dataclass
class OfDQN(Modules):
    q_funcs: nn.Module
    targ_q_funcs: nn.Module


@dataclass
class OfTD3(Modules):
    policy: nn.Module
    targ_policy: nn.Module
    q_funcs: nn.Module
    targ_q_funcs: nn.Module


class Run:
    """An agent as an algorithm of d3rlpy.

    Args:
        agent: The agent.
        modules: Its networks by the names of d3rlpy.
        action_space: Kind of its actions.
        names: Our statistic for each metric of d3rlpy.
        target_update_interval: Number of updates between copies of the target; the first update is followed by one.
    """

    def __init__(
        self, agent: Any, modules: Modules, action_space: ActionSpace, names: Mapping[str, str],
        target_update_interval: int = 0,
    ) -> None:  # fmt: skip
        self.agent, self.impl, self.names = agent, SimpleNamespace(modules=modules), names
        self.get_action_type = lambda: action_space
        self.interval, self.n_updates = target_update_interval, 0

    def update(self, batch: Any) -> dict[str, float]:
        columns = {
            name: torch.as_tensor(column).double() for name, column in vars(batch).items() if name != "transitions"
        }
        actions = columns["actions"]
        discrete = self.get_action_type() is ActionSpace.DISCRETE
        _, stats = self.agent.update(
            Batch(
                columns["observations"], actions.flatten().long() if discrete else actions,
                columns["rewards"].flatten(), columns["next_observations"],
                problem.GAMMA * (1 - columns["terminals"].flatten()),
            )
        )  # fmt: skip
        if self.interval and self.n_updates % self.interval == 0:
            self.agent.sync_target_network()
        self.n_updates += 1
        return {theirs: float(stats[ours].mean()) for theirs, ours in self.names.items() if ours in stats}


def network(n_inputs: int, n_outputs: int, *last: nn.Module) -> nn.Sequential:
    first, second = problem.HIDDEN
    layers = [nn.Linear(n_inputs, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, n_outputs)]
    return nn.Sequential(*layers, *last)


def optimizer_of(kind: str, module: nn.Module) -> torch.optim.Optimizer:
    if kind == "SGD":
        return torch.optim.SGD(module.parameters(), lr=problem.LEARNING_RATE)
    return torch.optim.Adam(module.parameters(), lr=problem.LEARNING_RATE, eps=problem.EPS)


def run_of_dqn(kind: type[agents.DQN], optimizer: str) -> Run:
    model = network(problem.OBS_SIZE, problem.N_ACTIONS, DiscreteActionValueHead())
    agent = kind(model, optimizer_of(optimizer, model), ReplayBuffer(), problem.GAMMA, Greedy(), clip_delta=True)
    modules = OfDQN(agent.model, agent.target_model)
    return Run(agent, modules, ActionSpace.DISCRETE, {"loss": "loss"}, target_update_interval=3)


def run_of_td3(optimizer: str) -> Run:
    policy = network(problem.OBS_SIZE, problem.ACTION_SIZE, nn.Tanh(), DeterministicHead())
    critics = [
        nn.Sequential(ConcatObsAndAction(), network(problem.OBS_SIZE + problem.ACTION_SIZE, 1)) for _ in range(2)
    ]
    optimizers = [optimizer_of(optimizer, each) for each in (policy, *critics)]
    agent = agents.TD3(policy, *critics, *optimizers, ReplayBuffer(), problem.GAMMA, Greedy())
    agent.optim_t = 1  # so that the first update is one of the policy, as in d3rlpy
    modules = OfTD3(agent.policy, agent.target_policy, *map(nn.ModuleList, (agent.critics, agent.target_critics)))
    return Run(agent, modules, ActionSpace.CONTINUOUS, {"critic_loss": "loss", "actor_loss": "policy_loss"})


RUNS: dict[str, Callable[[str], Run]] = {
    "DQN": functools.partial(run_of_dqn, agents.DQN),
    "DoubleDQN": functools.partial(run_of_dqn, agents.DoubleDQN),
    "TD3": run_of_td3,
}


def assert_runs_equal(path: Path, case: str, optimizer: str, seed: int) -> None:
    theirs = answer_of(path, case, optimizer, seed)
    ours = d3rlpy_runs.run(RUNS[case](optimizer), d3rlpy, seed, functools.partial(draws_of, theirs))
    assert_same_run(ours, theirs)


@pytest.mark.parametrize("optimizer", d3rlpy_runs.OPTIMIZERS)
@pytest.mark.parametrize("case", RUNS)
def test_ten_updates_are_those_of_d3rlpy(case: str, optimizer: str) -> None:
    assert_runs_equal(ANSWERS, case, optimizer, 0)


def test_another_loss_is_told_apart() -> None:
    theirs = answer_of(ANSWERS, "DQN", "SGD", 0)
    ours = d3rlpy_runs.run(RUNS["DoubleDQN"]("SGD"), d3rlpy, 0, functools.partial(draws_of, theirs))
    with pytest.raises(AssertionError):
        assert_same_run(ours, theirs)


@asks("d3rlpy")
def test_ten_updates_are_those_of_d3rlpy_with_five_seeds(tmp_path: Path) -> None:
    path = answer("d3rlpy", SCRIPT, tmp_path / "runs.npz", "5", *RUNS)
    for case in RUNS:
        for optimizer in d3rlpy_runs.OPTIMIZERS:
            for seed in range(5):
                assert_runs_equal(path, case, optimizer, seed)
    now = arrays_in(path)
    for name, array in arrays_in(ANSWERS).items():
        assert np.allclose(array, now[name], rtol=1e-9, atol=1e-9), name
