"""Training in several processes: steps are counted once, ends are clean, and errors come home."""

import contextlib
import functools
import inspect
import logging
import multiprocessing
import os
import shutil
import threading
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from agent_parts import make_agent
from async_parts import make_a3c, make_acer, parameters
from on_policy_parts import make_on_policy
from run_parts import Hook, Sink, record, table
from tensorboard_files import scalars
from time_parts import wait_until

from pfrl_like.agent import AsyncAgent
from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments import StopWithoutImprovement, train_agent_actor_learner, train_agent_async
from pfrl_like.testing import Chain


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = set(threading.enumerate())
    yield
    assert wait_until(lambda: not set(threading.enumerate()) - before)


class Counting(AsyncAgent):
    """Takes action 1 and counts its steps in a parameter that may be shared."""

    process_idx = None
    shared_attributes = ("model",)

    def __init__(self):
        self.model = torch.nn.Linear(1, 1, dtype=torch.float64)
        with torch.no_grad():
            self.model.weight.zero_()

    def act(self, obs):
        return 1

    def observe(self, obs, reward, done, reset):
        if self.training:
            with torch.no_grad():
                self.model.weight += 1.0

    def save(self, dirname):
        os.makedirs(dirname, exist_ok=True)
        Path(dirname, "count").write_text(str(self.model.weight.item()))

    def load(self, dirname):
        with torch.no_grad():
            self.model.weight.fill_(float(Path(dirname, "count").read_text()))

    def get_statistics(self):
        return [("process", self.process_idx)]


def make_env(process_idx, test):
    return Chain(4, time_limit=7)


def run(outdir, agent=None, *, steps=60, processes=2, **options):
    """Train in several processes, without evaluation."""
    made_by = {} if agent is not None else {"make_agent": lambda index: Counting()}
    arguments = {"make_env": make_env, "start_method": "fork", "eval_interval": None, "agent": agent, **made_by}
    return train_agent_async(outdir, processes, steps=steps, **arguments | options)


class Failing(Chain):
    """Raises at its 40th step."""

    def __init__(self):
        super().__init__(4, time_limit=7)
        self.count = 0

    def step(self, action):
        self.count += 1
        if self.count == 40:
            raise ZeroDivisionError("in the middle of it")
        return super().step(action)


class Note:
    """A hook that writes down what it gets, a file for each process."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, env, agent, step):
        with open(self.folder / f"steps-{agent.process_idx}", "a") as file:
            file.write(f"{step}\n")


def noted(folder):
    return sorted(int(line) for path in folder.glob("steps-*") for line in path.read_text().split())


def test_every_step_up_to_the_last_is_made_once_and_told_to_the_hooks(tmp_path):
    run(tmp_path, steps=130, step_offset=30, global_step_hooks=[Note(tmp_path)])
    assert noted(tmp_path) == list(range(31, 131))
    assert (tmp_path / "130_finish").exists()


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="needs forkserver")
def test_local_things_and_shared_ones_reach_processes_that_are_not_forked(tmp_path):
    class Local(Counting):
        def __init__(self):
            super().__init__()
            self.phi, self.own = lambda obs: 2, torch.zeros(1)

        def observe(self, obs, reward, done, reset):
            super().observe(obs, reward, done, reset)
            self.own += self.phi(obs)

    def make_env(index, test):
        return Chain(3, time_limit=5)

    def hook(env, agent, t):
        matches.value += agent.own.item() == 2 * t

    matches, given = multiprocessing.get_context("spawn").Value("q"), Local()
    agent = run(tmp_path, given, start_method=None, processes=1, steps=40, make_env=make_env, global_step_hooks=[hook])
    assert agent is given and agent.model.weight.item() == matches.value == 40
    assert agent.own.item() == 0  # what is not shared is a copy


def test_every_evaluation_has_its_row_whatever_process_makes_it(tmp_path):
    def hook(agent, eval_stats, **_):
        with open(tmp_path / "hook", "a") as file:
            file.write(f"{agent.process_idx} {eval_stats['success_rate']}\n")

    evaluation = {"eval_interval": 10, "eval_n_episodes": 2, "eval_success_threshold": 99}
    run(tmp_path, steps=120, evaluation_hooks=[Hook(hook)], **evaluation)
    rows = table(tmp_path / "scores.txt")
    due = sorted(int(row["steps"]) for row in rows)
    assert len(due) == 12 and all(10 * number <= step for number, step in enumerate(due, 1)) and due[-1] == 120
    assert sorted(row["process"] + " 0" for row in rows) == sorted((tmp_path / "hook").read_text().splitlines())
    assert (tmp_path / "best" / "count").exists()


def test_a_hook_with_a_state_sees_every_evaluation(tmp_path):
    run(tmp_path, steps=10**8, eval_interval=20, evaluation_hooks=[StopWithoutImprovement(2)])
    assert {row["process"] for row in table(tmp_path / "scores.txt")} == {"0"}
    assert "in 2 evaluations" in (tmp_path / "run.json").read_text()


def test_a_run_goes_on_from_its_newest_agent(tmp_path):
    options = {"processes": 1, "resume": True}
    run(tmp_path, steps=30, **options)
    shutil.rmtree(tmp_path / "30_finish")
    (tmp_path / "20_checkpoint").mkdir()
    (tmp_path / "20_checkpoint" / "count").write_text("20")
    agent = run(tmp_path, steps=50, global_step_hooks=[Note(tmp_path)], **options)
    assert agent.model.weight.item() == 50 and noted(tmp_path) == list(range(21, 51))
    numbers = [int(row["episode"]) for row in table(tmp_path / "metrics.csv")]
    assert numbers == sorted({*numbers}) and [*tmp_path.glob("beyond-20-*")]
    with pytest.raises(ValueError, match="resume is True, which requires use_shared_memory=True"):
        run(tmp_path, use_shared_memory=False, resume=True)


def test_a_good_score_ends_training_in_all_processes(tmp_path):
    run(tmp_path, steps=10**8, eval_interval=20, successful_score=0.0)
    assert "stopped: score" in (tmp_path / "run.json").read_text()
    assert (tmp_path / "successful" / "count").exists()
    run(tmp_path, steps=20)  # a new run in the same directory
    assert not (tmp_path / "successful").exists() and [*tmp_path.glob("earlier-*/successful")]


@pytest.mark.slow
def test_stop_event_ends_training_and_is_set_at_the_end(tmp_path):
    event = threading.Event()
    run(tmp_path, steps=10**8, stop_event=event, hooks=[lambda clock: event.set()])
    assert "stop_event was set" in (tmp_path / "run.json").read_text()
    event = threading.Event()
    run(tmp_path, stop_event=event)
    assert event.is_set()


@pytest.mark.parametrize("error, told", [(None, "set exception_event"), (KeyError("mine"), "raised KeyError: 'mine'")])
def test_exception_event_ends_training_with_an_error_and_the_agent_is_saved(error, told, tmp_path):
    event = multiprocessing.Event()
    event.error = error
    with pytest.raises(AsyncTrainingError, match=f"learner {told}"):
        run(tmp_path, steps=10**8, exception_event=event, hooks=[lambda clock: event.set()])
    assert list(tmp_path.glob("*_except"))


def test_seeds_and_episode_limit_reach_each_process(tmp_path):
    class Drawing(Chain):
        def __init__(self, index):
            super().__init__(4, terminates=False)
            (tmp_path / f"drawn-{index}").write_text(str(np.random.randint(10**9)))

    run(tmp_path, make_env=lambda index, test: Drawing(index), random_seeds=[7, np.int64(8)], max_episode_len=3)
    for index, seed in enumerate([7, 8]):
        assert int((tmp_path / f"drawn-{index}").read_text()) == np.random.RandomState(seed).randint(10**9)
    lengths = {line.split(",")[-1] for line in (tmp_path / "metrics.csv").read_text().splitlines()[1:]}
    assert "3" in lengths
    assert max(map(float, lengths)) == 3


def test_profiles_and_checkpoints_are_written(tmp_path):
    def slow(index, test):
        time.sleep(0.1)
        return make_env(index, test)

    run(tmp_path, profile=True, checkpoint_freq=20, make_env=slow)
    assert {path.name for path in tmp_path.glob("profile-*")} == {"profile-0.out", "profile-1.out"}
    assert {path.name for path in tmp_path.glob("*_checkpoint")} == {"20_checkpoint", "40_checkpoint"}


def test_exactly_one_of_an_agent_and_what_makes_it_is_needed(tmp_path):
    for given in ({"agent": Counting(), "make_agent": Counting}, {"make_agent": None}):
        with pytest.raises(ValueError, match="exactly one"):
            run(tmp_path, **given)
    with pytest.raises(TypeError, match="^make_agent is "):
        run(tmp_path, make_agent=Counting())


def learn(tmp_path, agent, **options):
    usual = {"make_env": make_env, "steps": 10**8, "eval_interval": None, "start_method": "fork"}
    return train_agent_actor_learner(agent, outdir=tmp_path, **{**usual, **options})


def test_actors_and_learner_go_on_from_the_newest_agent(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    before = learn(tmp_path, make_agent(), steps=200)
    after = learn(tmp_path, make_agent(), steps=200, resume=True)  # which are over
    assert all(map(torch.equal, before.model.parameters(), after.model.parameters())) and after.t == before.t
    assert f"The run resumes from step 200 of {tmp_path}" in caplog.text


@pytest.mark.parametrize("ending", ["finish", "except"])
def test_the_agent_that_learnt_is_the_one_that_was_saved_last(tmp_path, ending):
    agent, other = make_agent(), make_agent()

    def interrupt(clock):
        if ending == "except" and agent.optim_t > 0:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        assert learn(tmp_path, agent, n_updates=None if ending == "except" else 30, hooks=[interrupt]) is agent
    (saved,) = tmp_path.glob(f"*_{ending}")
    other.load(saved)
    assert agent.optim_t > 0
    assert (agent.t, agent.cumulative_steps, agent.optim_t) == (other.t, other.cumulative_steps, other.optim_t)
    assert str(agent.get_statistics()[:3]) == str(other.get_statistics()[:3])
    assert all(map(torch.equal, agent.model.parameters(), other.model.parameters()))


@pytest.mark.slow
def test_a_learner_that_made_no_update_or_is_set_back_is_told_of(tmp_path, caplog):
    agent = make_agent()
    agent.t, agent.replay_start_size = 70, 1000
    learn(tmp_path, agent, steps=100, step_offset=50)
    assert "agent.t is 70 and step_offset is 50" in caplog.text
    assert "no update was made: the buffer holds 50 transitions, replay_start_size is 1,000" in caplog.text


def test_pfrls_script_form_trains_evaluates_and_saves(tmp_path):
    agent = make_agent()
    make_actor, learner, poller, exception_event = agent.setup_actor_learner_training(n_actors=2)
    poller.start()
    learner.start()
    result = run(
        tmp_path, make_agent=make_actor, steps=300, eval_interval=100, eval_n_episodes=2,
        stop_event=learner.stop_event, exception_event=exception_event,
    )  # fmt: skip
    for stop in (poller.stop, learner.stop, poller.join, learner.join):
        stop()
    assert result is agent
    assert agent.t == agent.cumulative_steps == 300 and record(tmp_path)["agent"] == "DQN"
    other = make_agent()
    other.load(tmp_path / "300_finish")
    assert other.t == 300 and table(tmp_path / "scores.txt") and (tmp_path / "best").exists()


def test_environments_that_cannot_be_sent_are_refused_with_a_way_out(tmp_path):
    lock = threading.Lock()
    with pytest.raises(TypeError, match='make_env.*start_method="fork"'):
        run(tmp_path, make_env=lambda index, test: lock, start_method=None)


def test_an_agent_that_cannot_be_sent_is_refused_with_a_way_out(tmp_path):
    agent = Counting()
    agent.lock = threading.Lock()
    with pytest.raises(TypeError, match="agent cannot be sent.*make_agent"):
        run(tmp_path, agent=agent, start_method="forkserver")


# A3C and ACER: what is shared is learnt together, saved, and survives a process that fails


class Sharing:
    """A hook that writes down which of an agent's parameters are shared, and the number of its process.

    It waits for the other of two processes, which may start so late that it finds no step left.

    Args:
        folder: Where.
        steps: That a process makes before.
    """

    def __init__(self, folder, steps=1):
        self.folder, self.left = folder, steps

    def __call__(self, env, agent, step):
        self.left -= 1
        if self.left != 0:
            return
        (self.folder / f"process-{agent.process_idx}").write_text(
            f"{next(agent.model.parameters()).is_shared()} {next(agent.shared_model.parameters()).is_shared()}"
        )
        while len([*self.folder.glob("process-*")]) < 2:
            time.sleep(0.01)


RECURRENT_A3C = functools.partial(make_a3c, recurrent=True)
MAKERS = pytest.mark.parametrize("make", [make_a3c, make_acer, RECURRENT_A3C], ids=["A3C", "ACER", "recurrent A3C"])
SLOW_METHODS = [pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver")]
START_METHODS = pytest.mark.parametrize("start_method", ["fork", *SLOW_METHODS])


@pytest.mark.representatives(1)
@START_METHODS
@MAKERS
def test_processes_learn_shared_parameters_with_shared_statistics(tmp_path, start_method, make):
    def decay(env, agent, t):
        agent.optimizer.param_groups[0]["lr"] = 1e-2 * (161 - t) / 160

    agent = make(optimizer=torch.optim.Adam, lr=1e-2)
    before = parameters(agent)
    result = run(
        tmp_path, agent, steps=160, start_method=start_method, eval_interval=80, eval_n_episodes=2,
        global_step_hooks=[Sharing(tmp_path), decay],
    )  # fmt: skip
    assert result is agent
    assert not torch.equal(parameters(agent), before)
    assert all(map(torch.equal, agent.model.parameters(), agent.shared_model.parameters()))
    state = next(iter(agent.optimizer.state.values()))
    assert state["exp_avg"].is_shared()
    assert 15 < state["step"].item() <= 320  # those of both processes; a step may be lost where two write at once
    for index in range(2):
        assert (tmp_path / f"process-{index}").read_text() == "False True"
    other = make(optimizer=torch.optim.Adam)
    other.load(tmp_path / "160_finish")
    assert torch.equal(parameters(other), parameters(agent))
    assert agent.optimizer.param_groups[0]["lr"] == other.optimizer.param_groups[0]["lr"] == 1e-2 / 160
    assert other.t == agent.t == 160
    assert "average_entropy" in table(tmp_path / "scores.txt")[0]
    other.load(tmp_path / "best")


@pytest.mark.parametrize("form", ["agent", "make_agent"])
def test_without_shared_memory_the_agent_of_process_0_is_saved(tmp_path, form):
    agent = make_a3c()
    before = parameters(agent)
    given = {"agent": agent} if form == "agent" else {"make_agent": lambda index: make_a3c()}
    result = run(tmp_path, use_shared_memory=False, processes=1, **given)
    assert result is (agent if form == "agent" else None)
    assert torch.equal(parameters(agent), before)
    agent.load(tmp_path / "60_finish")
    assert not torch.equal(parameters(agent), before)
    assert agent.t == 60
    assert not list(tmp_path.glob(".process*"))


def test_checkpoints_without_shared_memory_are_refused(tmp_path):
    with pytest.raises(ValueError, match="checkpoint_freq is 10, which requires use_shared_memory=True, got False"):
        run(tmp_path, make_a3c(), use_shared_memory=False, checkpoint_freq=10)


@pytest.mark.slow
def test_the_log_tells_the_statistics_of_process_0(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run(tmp_path, make_a3c(average_value_decay=0.5), processes=1)
    told = [record.message for record in caplog.records if record.message.startswith("statistics")]
    assert any("'average_value', 0.0" not in message for message in told)


@pytest.mark.representatives(2)
@START_METHODS
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_a_process_that_fails_stops_the_others_and_the_agent_is_saved(tmp_path, index, shared, start_method):
    options = {"use_shared_memory": shared, "global_step_hooks": [Sharing(tmp_path, 20)], "start_method": start_method}
    agent, options["make_env"] = make_a3c(), lambda i, test: Failing() if i == index else make_env(i, test)
    with pytest.raises(AsyncTrainingError, match=f"process {index} raised ZeroDivisionError: in the middle") as caught:
        run(tmp_path, agent, steps=10**8, **options)
    assert "in step" in str(caught.value)
    assert not shared or dict(agent.get_statistics())["average_entropy"] > 0  # those that were told last
    (saved,) = tmp_path.glob("*_except")
    other = make_a3c()
    other.load(saved)
    assert not torch.equal(parameters(other), parameters(make_a3c()))


# Arguments of asynchronous training that say who is told of a run, and how actors and their learner keep step


def endless(process_idx, test):
    return Chain(4, terminates=False, time_limit=5)


def evaluations_of(outdir, **options):
    """The numbers of episodes and steps of each evaluation."""

    def hook(eval_stats, **_):
        with open(outdir / "lengths", "a") as file:
            file.write(f"{eval_stats['episodes']} {round(eval_stats['length_mean'] * eval_stats['episodes'])}\n")

    arguments = {"eval_interval": 20, "eval_n_episodes": 3, "start_method": "fork", "agent": make_a3c(), **options}
    train_agent_async(outdir, 1, endless, steps=60, evaluation_hooks=[Hook(hook)], **arguments)
    return {tuple(map(int, line.split())) for line in (outdir / "lengths").read_text().splitlines()}


def test_what_is_told_of_a_run_reaches_whom_it_is_for(tmp_path, capsys, caplog):
    pytest.importorskip("tensorboard")
    (tmp_path / "usual").mkdir()
    (tmp_path / "told").mkdir()
    caplog.set_level(logging.INFO)
    assert evaluations_of(tmp_path / "usual", progress=False) == {(3, 15)}
    assert (tmp_path / "usual" / "best").exists()
    assert not list((tmp_path / "usual").glob("events.out.tfevents*"))
    assert capsys.readouterr().err == ""
    assert "of.a.user" not in {record.name for record in caplog.records}
    sink, clocks = Sink(), []
    evaluations = evaluations_of(
        tmp_path / "told", eval_n_episodes=None, eval_n_steps=10, save_best_so_far_agent=False, use_tensorboard=True,
        logger=logging.getLogger("of.a.user"), progress=True, hooks=[lambda clock: clocks.append(clock.t)],
        loggers=[sink],
    )  # fmt: skip
    assert evaluations == {(2, 10)}
    assert not (tmp_path / "told" / "best").exists()
    assert {"train/return", "eval/mean"} <= scalars(tmp_path / "told").keys()
    assert "60/60 steps" in capsys.readouterr().err
    assert "of.a.user" in {record.name for record in caplog.records}
    assert clocks[-1] == 60 and sink.steps[-1] == "closed" and len(sink.steps) == 13  # episodes of five steps


@pytest.mark.parametrize("kind", ["PPO", "TRPO", "A2C", "REINFORCE"])
@pytest.mark.parametrize("given", ["agent", "make_agent"])
@pytest.mark.parametrize("start_method", ["fork", None])
def test_agents_that_share_nothing_are_refused_with_what_trains_them(tmp_path, kind, given, start_method):
    agent = make_on_policy(kind)
    part, name = (agent, "agent") if given == "agent" else (lambda index: agent, r"make_agent\(0\)")
    with pytest.raises(TypeError, match=rf"^{name} is {kind}, which has no shared_attributes.*A3C or ACER") as caught:
        train_agent_async(tmp_path, 2, endless, eval_interval=None, start_method=start_method, **{given: part})
    assert f"train {kind} with train_agent_batch or train_agent, or" in str(caught.value)


def test_agents_with_replay_are_told_of_actors_and_a_learner(tmp_path):
    with pytest.raises(TypeError, match=r"train \w+ with train_agent_actor_learner or"):
        train_agent_async(tmp_path, 2, endless, agent=make_agent(), start_method="fork")


@pytest.mark.slow
def test_without_shared_memory_any_agent_trains(tmp_path):
    agent = make_on_policy("PPO", update_interval=20)
    run(tmp_path, agent, processes=1, use_shared_memory=False)
    agent.load(tmp_path / "60_finish")
    assert dict(agent.get_statistics())["n_updates"] > 0


def test_actors_and_learner_are_told_how_to_keep_step(tmp_path, monkeypatch):
    options = {"n_updates": 30, "actor_update_interval": 3, "updates_per_step": 0.5}
    agent = mock.Mock(**{"setup_actor_learner_training.return_value": [mock.Mock() for _ in range(4)]})
    names = inspect.unwrap(train_agent_actor_learner).__globals__
    monkeypatch.setitem(names, "train_agent_async", lambda outdir, processes, *_, **__: processes)
    assert train_agent_actor_learner(agent, endless, 10**6, tmp_path, n_actors=3, **options) == 3
    agent.setup_actor_learner_training.assert_called_once_with(3, **options)
