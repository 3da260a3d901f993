"""A3C and ACER in several processes: what is shared is learnt together, saved, and survives a process that fails."""

import functools
import logging
import multiprocessing
import time

import pytest
import torch
from agent_parts import make_agent
from async_parts import make_a3c, make_acer, parameters
from async_runs import failing, make_env, run
from on_policy_parts import make_on_policy
from run_parts import Hook, Sink, record, table
from tensorboard_files import scalars

from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments import train_agent_actor_learner, train_agent_async
from pfrl_like.testing import Chain


class Note:
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


class Told:
    """A hook that writes down the statistics of process 0 after each of its steps, from its first update on."""

    def __init__(self, path):
        self.path = path

    def __call__(self, env, agent, step):
        if agent.process_idx == 0 and agent.optim_t:
            self.path.write_text(str(agent.get_statistics()))


RECURRENT_A3C = functools.partial(make_a3c, recurrent=True)
MAKERS = pytest.mark.parametrize("make", [make_a3c, make_acer, RECURRENT_A3C], ids=["A3C", "ACER", "recurrent A3C"])
SLOW_METHODS = [pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver")]
START_METHODS = pytest.mark.parametrize("start_method", ["fork", *SLOW_METHODS])


@START_METHODS
@MAKERS
def test_processes_learn_shared_parameters_with_shared_statistics(tmp_path, start_method, make):
    agent = make(optimizer=torch.optim.Adam, lr=1e-2)
    before = parameters(agent)
    result = run(
        tmp_path, agent, steps=160, start_method=start_method, eval_interval=80, eval_n_episodes=2,
        global_step_hooks=[Note(tmp_path)],
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
    assert other.t == agent.t == 160
    assert "average_entropy" in table(tmp_path / "scores.txt")[0]
    other.load(tmp_path / "best")


def test_agents_that_each_process_makes_share_those_of_the_first(tmp_path):
    agent = run(tmp_path, make_agent=lambda index: make_a3c(process_idx=index), global_step_hooks=[Note(tmp_path)])
    assert not torch.equal(parameters(agent), parameters(make_a3c()))
    assert (tmp_path / "process-1").read_text() == "False True"


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
    with pytest.raises(ValueError, match="checkpoint_freq is 10 and use_shared_memory is False"):
        run(tmp_path, make_a3c(), use_shared_memory=False, checkpoint_freq=10)


def test_checkpoints_hold_what_was_learnt_up_to_then(tmp_path):
    agent = make_a3c()
    run(tmp_path, agent, steps=400, checkpoint_freq=100)
    found = []
    for path in sorted(tmp_path.glob("*_checkpoint")):
        other = make_a3c()
        other.load(path)
        found.append(parameters(other))
        assert not torch.equal(found[-1], parameters(make_a3c()))
    assert len(found) == 3


def test_the_log_tells_the_statistics_of_process_0(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run(tmp_path, make_a3c(average_value_decay=0.5), processes=1)
    told = [record.message for record in caplog.records if record.message.startswith("statistics")]
    assert any("'average_value', 0.0" not in message for message in told)


@START_METHODS
@MAKERS
def test_the_returned_agent_has_the_statistics_of_process_0(tmp_path, make, start_method):
    hook = Told(tmp_path / "statistics")
    agent = make(average_value_decay=0.5, average_entropy_decay=0.5)

    def make_late(process_idx, test):
        while process_idx == 1 and not hook.path.exists():
            time.sleep(0.01)
        return make_env(process_idx, test)

    result = run(tmp_path, agent, make_env=make_late, global_step_hooks=[hook], steps=61, start_method=start_method)
    statistics = result.get_statistics()
    assert str(statistics) == hook.path.read_text()
    assert 0 < dict(statistics)["average_entropy"] < 0.7
    other = make()
    other.load(tmp_path / "61_finish")
    assert other.get_statistics() == statistics
    assert (result.t, result.optim_t > 0) == (61, True)


@START_METHODS
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_a_process_that_fails_stops_the_others_and_the_agent_is_saved(tmp_path, index, shared, start_method):
    options = {"use_shared_memory": shared, "global_step_hooks": [Note(tmp_path, 20)], "start_method": start_method}
    agent = make_a3c()
    with pytest.raises(AsyncTrainingError, match=f"process {index} raised ZeroDivisionError: in the middle") as caught:
        run(tmp_path, agent, steps=10**8, make_env=failing(index), **options)
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


def test_processes_start_as_they_are_told(tmp_path):
    def which(process_idx, test):
        (tmp_path / f"process-{process_idx}").write_text(type(multiprocessing.current_process()).__name__)
        return endless(process_idx, test)

    for processes in (1, 3):
        run(tmp_path, make_agent=lambda index: make_a3c(), steps=20, processes=processes, make_env=which)
        assert len(list(tmp_path.glob("process-*"))) == processes
    assert (tmp_path / "process-0").read_text() == "ForkProcess"


@pytest.mark.parametrize("kind", ["PPO", "TRPO", "A2C", "REINFORCE"])
@pytest.mark.parametrize("given", ["agent", "make_agent"])
@pytest.mark.parametrize("start_method", ["fork", None])
def test_agents_that_share_nothing_are_refused_with_what_trains_them(tmp_path, kind, given, start_method):
    agent = make_on_policy(kind)
    part, name = (agent, "agent") if given == "agent" else (lambda index: agent, r"make_agent\(0\)")
    with pytest.raises(TypeError, match=rf"^{name} is a {kind}, which has no shared_attributes.*A3C, ACER") as caught:
        train_agent_async(tmp_path, 2, endless, eval_interval=None, start_method=start_method, **{given: part})
    assert "Train this one with train_agent_batch or train_agent;" in str(caught.value)


def test_agents_with_replay_are_told_of_actors_and_a_learner(tmp_path):
    with pytest.raises(TypeError, match="Train this one with train_agent_actor_learner or"):
        train_agent_async(tmp_path, 2, endless, agent=make_agent(), start_method="fork")


def test_without_shared_memory_any_agent_trains(tmp_path):
    agent = make_on_policy("PPO", update_interval=20)
    run(tmp_path, agent, processes=1, use_shared_memory=False)
    agent.load(tmp_path / "60_finish")
    assert dict(agent.get_statistics())["n_updates"] > 0


def test_actors_and_learner_are_told_how_to_keep_step(tmp_path):
    agent, told = make_agent(), []
    setup = agent.setup_actor_learner_training

    def watched(n_actors, **options):
        told.append((n_actors, options))
        return setup(n_actors, **options)

    agent.setup_actor_learner_training = watched
    options = {"n_updates": 30, "actor_update_interval": 3, "updates_per_step": 0.5}
    indices = tmp_path / "indices"
    indices.mkdir()

    def numbered(process_idx, test):
        (indices / str(process_idx)).touch()
        return endless(process_idx, test)

    result = train_agent_actor_learner(
        agent, numbered, 10**6, tmp_path / "run", 3, eval_interval=None, start_method="fork", **options
    )
    assert told == [(3, options)]
    assert {path.name for path in indices.iterdir()} == {"0", "1", "2"}
    assert result is agent and agent.optim_t == 30
    assert agent.t >= 60  # two steps for each update
    assert "stop_event was set" in record(tmp_path / "run")["outcome"]


def test_updates_of_other_processes_are_not_overlooked(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, make_a3c()).optim_t > 0
    assert "no update was made" not in caplog.text
