"""Training in several processes: steps are counted once, ends are clean, and errors come home."""

import contextlib
import multiprocessing
import os
import shutil
import threading
import time
from pathlib import Path

import async_runs
import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from run_parts import Hook, names_in, steps_of, table
from time_parts import wait_until

from pfrl_like.agent import AsyncAgent
from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments import train_agent_actor_learner, train_agent_async
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


def run(tmp_path, **options):
    if options.get("agent") is None:
        options.setdefault("make_agent", lambda index: Counting())
    return async_runs.run(tmp_path, **options)


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
def test_lambdas_and_shared_parameters_reach_processes_that_are_not_forked(tmp_path):
    agent = run(tmp_path, start_method=None, processes=1, steps=40, make_env=lambda index, test: Chain(3, time_limit=5))
    assert agent.model.weight.item() == 40


def test_shared_attributes_are_the_same_in_all_processes(tmp_path):
    agent = run(tmp_path, processes=1, steps=50)
    assert agent.model.weight.item() == 50
    agent = run(tmp_path, processes=1, steps=50, use_shared_memory=False, agent=Counting())
    assert agent.model.weight.item() == 0
    agent = run(tmp_path, processes=1, steps=50, agent=Counting())
    assert agent.model.weight.item() == 50
    assert float((tmp_path / "50_finish" / "count").read_text()) == 50


def test_process_0_evaluates_and_saves_the_best(tmp_path):
    def hook(agent, eval_stats, **_):
        with open(tmp_path / "hook", "a") as file:
            file.write(f"{agent.process_idx} {eval_stats['success_rate']}\n")

    evaluation = {"eval_interval": 50, "eval_n_episodes": 2, "eval_success_threshold": 99}
    run(tmp_path, steps=200, evaluation_hooks=[Hook(hook)], **evaluation)
    rows = table(tmp_path / "scores.txt")
    assert 1 <= len(rows) <= 4 and [*rows[0]][-1] == "process" and {row["process"] for row in rows} == {"0"}
    assert (tmp_path / "best" / "count").exists()
    assert (tmp_path / "hook").read_text().splitlines() == ["0 0"] * len(rows)


def test_a_run_goes_on_from_its_offset_and_a_second_one_keeps_the_first_aside(tmp_path):
    options = {"eval_interval": 20, "checkpoint_freq": 20, "processes": 1}
    run(tmp_path, profile=True, **options)
    run(tmp_path, step_offset=30, steps=90, **options)
    numbers = [int(row["episode"]) for row in table(tmp_path / "metrics.csv")]
    assert numbers == sorted({*numbers})  # a fast process has ended more than the kept rows tell of
    assert sorted(steps_of(tmp_path / "metrics.csv")) == steps_of(tmp_path / "metrics.csv")
    (beyond,) = tmp_path.glob("beyond-30-*")
    assert {"40_checkpoint", "60_finish", "scores.txt"} <= names_in(beyond)
    run(tmp_path, steps=10, eval_interval=5)
    (aside,) = tmp_path.glob("earlier-*")
    assert {"90_finish", "scores.txt", "run.json", "profile-0.out"} <= names_in(aside)
    assert any((aside / folder / "best").exists() for folder in ("", beyond.name))  # by when the best score came
    assert {"10_finish", "scores.txt", "best", "run.json", "metrics.csv"} <= names_in(tmp_path)


def test_a_run_goes_on_from_its_newest_agent(tmp_path):
    options = {"processes": 1, "resume": True}
    run(tmp_path, steps=30, **options)
    shutil.rmtree(tmp_path / "30_finish")
    (tmp_path / "20_checkpoint").mkdir()
    (tmp_path / "20_checkpoint" / "count").write_text("20")
    agent = run(tmp_path, steps=50, global_step_hooks=[Note(tmp_path)], **options)
    assert agent.model.weight.item() == 50 and noted(tmp_path) == list(range(21, 51))
    with pytest.raises(ValueError, match="resume is True and use_shared_memory is False"):
        run(tmp_path, use_shared_memory=False, resume=True)


def test_a_good_score_ends_training_in_all_processes(tmp_path):
    run(tmp_path, steps=10**8, eval_interval=20, successful_score=0.0)
    assert "stopped: score" in (tmp_path / "run.json").read_text()


def test_stop_event_ends_training_and_is_set_at_the_end(tmp_path):
    event = threading.Event()
    timer = threading.Timer(0.5, event.set)
    timer.start()
    run(tmp_path, steps=10**8, stop_event=event)
    timer.join()
    assert "stop_event was set" in (tmp_path / "run.json").read_text()
    event = threading.Event()
    run(tmp_path, stop_event=event)
    assert event.is_set()


def test_exception_event_ends_training_with_an_error_and_the_agent_is_saved(tmp_path):
    event = multiprocessing.Event()
    timer = threading.Timer(0.3, event.set)
    timer.start()
    with pytest.raises(AsyncTrainingError, match="learner set exception_event"):
        run(tmp_path, steps=10**8, exception_event=event)
    timer.join()
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
        return async_runs.make_env(index, test)

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
    usual = {"make_env": async_runs.make_env, "steps": 10**8, "eval_interval": None, "start_method": "fork"}
    return train_agent_actor_learner(agent, outdir=tmp_path, **{**usual, **options})


@pytest.mark.parametrize(
    "kills, words",
    [(False, ["raised ZeroDivisionError: in the middle", "in step"]), (True, ["was killed by signal 9"])],
)
def test_an_actor_that_fails_ends_the_run_with_its_own_words(tmp_path, kills, words):
    with pytest.raises(AsyncTrainingError, match=f"process 1 {words[0]}") as caught:
        learn(tmp_path, make_agent(), make_env=async_runs.failing(1, kills))
    assert list(caught.value.reasons) == [1] and words[-1] in str(caught.value)
    assert [path for path in tmp_path.glob("*_except") if (path / "manifest.json").exists()]


def test_actors_and_learner_go_on_from_the_newest_agent(tmp_path):
    before = learn(tmp_path, make_agent(), steps=200)
    after = learn(tmp_path, make_agent(), steps=200, resume=True)  # which are over
    assert all(map(torch.equal, before.model.parameters(), after.model.parameters())) and after.t == before.t


def test_a_learner_that_fails_ends_the_run_with_its_error(tmp_path):
    agent = make_agent()
    with torch.no_grad():
        next(agent.model.parameters()).fill_(float("nan"))
    with pytest.raises(AsyncTrainingError, match="learner raised NonFiniteError"):
        learn(tmp_path, agent)


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


def test_a_learner_that_made_no_update_or_is_set_back_is_told_of(tmp_path, caplog):
    agent = make_agent()
    agent.t, agent.replay_start_size = 70, 1000
    learn(tmp_path, agent, steps=100, step_offset=50)
    assert "the agent has come to step 70, step_offset is 50" in caplog.text
    assert "no update was made: the buffer holds 50 transitions, replay_start_size is 1,000" in caplog.text


def test_pfrls_script_form_trains_evaluates_and_saves(tmp_path):
    agent = make_agent()
    make_actor, learner, poller, exception_event = agent.setup_actor_learner_training(n_actors=2)
    poller.start()
    learner.start()
    result = train_agent_async(
        str(tmp_path), processes=2, make_env=async_runs.make_env, make_agent=make_actor, steps=300, eval_interval=100,
        eval_n_episodes=2, stop_event=learner.stop_event, exception_event=exception_event, start_method="fork",
    )  # fmt: skip
    for thread in (poller, learner):
        thread.stop()
    for thread in (poller, learner):
        thread.join()
    assert result is agent
    assert agent.t == agent.cumulative_steps == 300
    assert '"agent": "DQN"' in (tmp_path / "run.json").read_text()
    other = make_agent()
    other.load(tmp_path / "300_finish")
    assert other.t == 300
    assert len((tmp_path / "scores.txt").read_text().splitlines()) > 1
    assert (tmp_path / "best").exists()


def test_environments_that_cannot_be_sent_are_refused_with_a_way_out(tmp_path):
    lock = threading.Lock()
    with pytest.raises(TypeError, match='make_env.*start_method="fork"'):
        run(tmp_path, make_env=lambda index, test: lock, start_method=None)


def test_an_agent_that_cannot_be_sent_is_refused_with_a_way_out(tmp_path):
    agent = Counting()
    agent.phi = lambda obs: obs
    with pytest.raises(TypeError, match="agent cannot be sent.*make_agent"):
        run(tmp_path, agent=agent, start_method="forkserver")


def test_an_agent_that_cannot_act_in_the_environment_is_refused(tmp_path):
    class Other(Chain):
        def __init__(self):
            super().__init__(4)
            self.action_space = gymnasium.spaces.Box(-1, 1, (1,))

    with pytest.raises(AsyncTrainingError, match="cannot act in"):
        learn(tmp_path, make_agent(), make_env=lambda index, test: Other())
