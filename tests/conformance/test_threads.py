"""Threads that act with one agent in evaluation: none gets the answer of another, and none changes another's mode."""

import contextlib
import copy
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from network_parts import OBS
from on_policy_parts import make_on_policy
from registry import LEARNERS
from time_parts import run_together
from torch import nn

from pfrl_like.agent import Agent
from pfrl_like.agents import DQN, PPO
from pfrl_like.explorers import Greedy
from pfrl_like.nn import Branched, EmpiricalNormalization
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing.play import difference
from pfrl_like.utils import set_random_seed

N_THREADS = 4
SMALL: dict[str, Any] = {"capacity": 10, "explorer": Greedy(), "replay_start_size": 1, "minibatch_size": 1}
#: Whose actions in evaluation are drawn, so that only the mode is looked at.
DRAWING = {"BCQ", "BEAR"}
EVERY = pytest.mark.parametrize("kind", LEARNERS)


@pytest.fixture(autouse=True)
def often_switched() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None], n: int = N_THREADS) -> None:
    """Call `work(i)` in n threads at once; raises what the first of them has raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(n)

    def run(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    run_together(threads)
    for error in errors:
        raise error


def make(kind: str, folder: Path, recurrent: bool = False) -> Any:
    """An agent of a kind, without recurrent networks if it has such a choice."""
    cases = [case for case in LEARNERS[kind].fitting() if case["recurrent"] == recurrent]
    set_random_seed(0)
    return LEARNERS[kind].make(cases[0], folder)


def mixed_answers(agent: Any, n_acts: int, size: int = OBS, draws: bool = False) -> int:
    """How many of the actions in several threads, each for observations of its own, are others than in one."""
    obs = np.random.RandomState(0).randn(N_THREADS, 20, size).astype(np.float32)
    wrong = [0] * N_THREADS

    def answer(i: int, n: int) -> Any:
        return agent.batch_act(obs[i, [n, n - 1]]) if n % 2 else [agent.act(obs[i, n])]

    with agent.eval_mode():
        expected = [[answer(i, n) for n in range(20)] for i in range(N_THREADS)]

    def act(i: int) -> None:
        for n in range(n_acts):
            with agent.eval_mode() if n % 3 else contextlib.nullcontext(), agent.eval_mode():
                actions = answer(i, n % 20)
                wrong[i] += agent.training
            wrong[i] += difference([*actions], [*expected[i][n % 20]]) is not None and not draws

    in_threads(act)
    return sum(wrong)


def check_no_mixed_answers(kind: str, folder: Path, n_acts: int) -> None:
    agent = make(kind, folder)
    if agent.acts_from_memory:
        pytest.skip("acts from memory")
    agent.act_deterministically = True
    assert mixed_answers(agent, n_acts, draws=kind in DRAWING) == 0
    assert agent.training


@pytest.mark.parametrize("kind", ["PPO", "DQN", "SoftActorCritic"])
def test_threads_get_their_own_answers(kind: str, tmp_path: Path) -> None:
    check_no_mixed_answers(kind, tmp_path, 50)


@pytest.mark.slow
@EVERY
def test_threads_of_every_agent_get_their_own_answers(kind: str, tmp_path: Path) -> None:
    check_no_mixed_answers(kind, tmp_path, 10_000)


# Modes


def test_each_thread_has_a_mode_of_its_own() -> None:
    agent = make_on_policy()
    evaluates, is_over = threading.Event(), threading.Event()
    seen: list[bool] = []

    def work(i: int) -> None:
        if i:
            with agent.eval_mode(), agent.eval_mode():
                evaluates.set()
                is_over.wait()
                seen.append(agent.training)
        else:
            evaluates.wait()
            seen.append(agent.training)
            is_over.set()

    in_threads(work, 2)
    assert seen == [True, False] and agent.training


def test_threads_that_are_started_in_evaluation_are_in_it() -> None:
    agent = make_on_policy()
    with agent.eval_mode():
        with agent.eval_mode(), ThreadPoolExecutor(N_THREADS) as pool:
            assert not any(pool.map(lambda _: agent.training, range(20)))
            within = [pool.submit(agent.act, np.eye(5, dtype=np.float32)[i]) for i in range(5)]
        assert len([each.result() for each in within]) == 5
        with ThreadPoolExecutor(1) as pool:  # whose thread may have the number of one that has ended
            assert not pool.submit(lambda: agent.training).result()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: agent.training).result()
        with agent.eval_mode():
            assert pool.submit(lambda: agent.training).result()  # it was there before, and may learn meanwhile


def test_the_mode_that_was_set_comes_back_whoever_leaves_last() -> None:
    for training in (True, False):
        agent = make_on_policy()
        agent.training = training
        first, second = agent.eval_mode(), agent.eval_mode()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert not agent.training
        second.__exit__(None, None, None)
        assert agent.training is training
        assert vars(agent)["training"] is training  # a plain attribute, which costs no call


def test_reading_the_mode_calls_nothing_in_training() -> None:
    agent = make_on_policy()
    calls: list[Any] = []
    assert agent.training
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    agent.training  # noqa: B018
    sys.setprofile(None)
    assert [*filter({"call"}.__contains__, calls)] == []


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(cloudpickle.dumps(agent))])
def test_a_copy_has_the_mode_in_which_it_is_made(copied: Callable[[Any], Any]) -> None:
    agent = make_on_policy()
    with agent.eval_mode():
        other = copied(agent)
    seen: list[bool] = []
    in_threads(lambda i: seen.append(other.training), 1)
    assert (seen, other.training, agent.training, copied(agent).training) == ([False], False, True, True)
    with other.eval_mode():
        assert agent.training
    other.training = True
    assert other.training


def test_a_class_may_set_its_mode() -> None:
    own = type("Own", (PPO,), {"training": False})
    agent = make_on_policy()
    agent.__class__ = own
    with agent.eval_mode():
        assert not agent.training
    assert not agent.training and not own.training and PPO.training


def test_a_thread_that_learns_goes_on_while_another_evaluates() -> None:
    agent = make_on_policy("PPO", update_interval=5)
    is_over = threading.Event()

    def work(i: int) -> None:
        obs = np.eye(5, dtype=np.float32)
        if i:
            while not is_over.is_set():
                with agent.eval_mode():
                    agent.act(obs[1])
            return
        try:
            for step in range(50):
                agent.act(obs[step % 5])
                agent.observe(obs[(step + 1) % 5], 1.0, False, step % 5 == 4)
        finally:
            is_over.set()

    in_threads(work)
    assert (agent.t, agent.n_updates > 9, agent.training) == (50, True, True)


def test_a_recurrent_agent_wants_a_copy_for_each_thread() -> None:
    agent = make_on_policy("PPO", True)
    with agent.eval_mode(), agent.eval_mode(), pytest.raises(RuntimeError, match="use copy.deepcopy"):
        in_threads(lambda i: agent.eval_mode().__enter__(), 1)
    copies = [copy.deepcopy(agent) for _ in range(N_THREADS)]
    for each in copies:
        each.act_deterministically = True
    alone = copy.deepcopy(copies[0])
    obs = np.random.RandomState(0).randn(30, 5).astype(np.float32)

    def answers(agent: Any) -> list[Any]:
        with agent.eval_mode():
            return [agent.act(each) for each in obs]

    found: dict[int, list[Any]] = {}
    in_threads(lambda i: found.update({i: answers(copies[i])}))
    assert [found[i] for i in range(N_THREADS)] == [answers(alone)] * N_THREADS


# Layers that know of modes


def with_modes(*last: nn.Module) -> nn.Sequential:
    normal = EmpiricalNormalization(5)
    normal.experience(torch.randn(20, 5))
    return nn.Sequential(normal, nn.Linear(5, 16), nn.Dropout(0.5), nn.BatchNorm1d(16), nn.Linear(16, 3), *last)


@pytest.mark.parametrize("kind", ["DQN", "PPO"])
def test_threads_find_layers_in_evaluation_and_leave_them_as_they_were(kind: str) -> None:
    set_random_seed(0)
    if kind == "DQN":
        model: nn.Module = with_modes(DiscreteActionValueHead())
        agent: Any = make_agent(q_function=model, **SMALL)
    else:
        model = Branched(with_modes(SoftmaxCategoricalHead()), with_modes(nn.Linear(3, 1)))
        agent = PPO(model, torch.optim.Adam(model.parameters()))
        agent.act_deterministically = True
    state = copy.deepcopy(model.state_dict())
    assert mixed_answers(agent, 50, 5) == 0
    assert difference(state, model.state_dict()) is None
    assert all(part.training for part in model.modules())


class Telling(nn.Module):
    """Tells each pass through it in which mode it is."""

    def __init__(self, modes: list[tuple[str, bool]]) -> None:
        super().__init__()
        self.modes = modes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.training
        time.sleep(1e-4)  # another thread's turn
        self.modes.append((threading.current_thread().name, self.training))
        assert self.training == before
        return x

    def __deepcopy__(self, memo: Any) -> "Telling":
        copied = Telling([])
        copied.training = self.training
        return copied


def telling_dqn() -> tuple[Any, list[tuple[str, bool]]]:
    modes: list[tuple[str, bool]] = []
    model = nn.Sequential(nn.Linear(5, 2), Telling(modes), DiscreteActionValueHead())
    return make_agent(q_function=model, **SMALL), modes


@contextlib.contextmanager
def another_thread_evaluates(agent: Any) -> Iterator[None]:
    """Until the block is over."""
    is_over, has_begun = threading.Event(), threading.Event()

    def evaluate() -> None:
        with agent.eval_mode():
            while not is_over.is_set():
                agent.act(np.ones(5, np.float32))
                has_begun.set()

    thread = threading.Thread(target=evaluate, name="evaluates")
    thread.start()
    has_begun.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_thread_that_learns_finds_layers_in_training_while_another_evaluates() -> None:
    agent, modes = telling_dqn()
    batch = {"obs": np.ones((1, 5), np.float32), "action": np.zeros(1, np.int64), "reward": np.ones(1)}
    batch |= {"next_obs": batch["obs"], "terminated": np.zeros(1, bool), "truncated": np.zeros(1, bool)}
    agent.replay_buffer.append_batch(**batch)
    with another_thread_evaluates(agent):
        for _ in range(30):
            agent.update_from_replay()
    learning = [training for thread, training in modes if thread == "MainThread"]
    assert len(learning) >= 30 and sum(learning) == 30  # and passes of the target network, in evaluation
    assert not any(training for thread, training in modes if thread == "evaluates")


def test_a_copy_made_while_another_thread_evaluates_is_in_training() -> None:
    agent, _ = telling_dqn()
    with another_thread_evaluates(agent):
        copies = [copy.deepcopy(agent) for _ in range(20)]
    assert all(each.model[1].training and each.training for each in copies)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12, in a process of several threads
def test_a_fork_made_while_another_thread_evaluates_is_in_training() -> None:
    agent, _ = telling_dqn()
    with another_thread_evaluates(agent):
        for _ in range(10):
            pid = os.fork()
            if not pid:
                os._exit(0 if all(part.training for part in agent.model.modules()) else 1)
            assert os.waitpid(pid, 0)[1] == 0


def test_an_agent_that_calls_its_replay_memory_does_not_act_from_it() -> None:
    agent, _ = telling_dqn()
    own = type("Own", (Agent,), {name: getattr(DQN, name) for name in Agent.__abstractmethods__})()
    own.memory = []
    assert not own.acts_from_memory and not agent.acts_from_memory
