"""Arguments of asynchronous training that say who is told of a run, and how actors and their learner keep step."""

import logging
import sys

import cloudpickle
import pytest
from agent_parts import make_agent
from async_parts import make_a3c
from on_policy_parts import make_on_policy
from tensorboard_files import scalars

from pfrl_like.experiments import EvaluationHook, train_agent_actor_learner, train_agent_async
from pfrl_like.testing import Chain

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module


class Episodes(EvaluationHook):
    """Writes the number of episodes of an evaluation, and of their steps, to a file."""

    support_train_agent_async = True

    def __init__(self, path):
        self.path = path

    def __call__(self, env, agent, evaluator, step, eval_stats, agent_stats, env_stats):
        with open(self.path, "a") as file:
            file.write(f"{eval_stats['episodes']} {round(eval_stats['length_mean'] * eval_stats['episodes'])}\n")


class Sink:
    """A logger of metrics."""

    def __init__(self):
        self.steps = []

    def log(self, step, metrics):
        self.steps.append(step)

    def close(self):
        self.steps.append("closed")


def make_env(process_idx, test):
    return Chain(4, terminates=False, time_limit=5)


def run(outdir, **options):
    arguments = {"eval_interval": 20, "eval_n_episodes": 3, "start_method": "fork", "agent": make_a3c(), **options}
    train_agent_async(outdir, 1, make_env, steps=60, evaluation_hooks=[Episodes(outdir / "lengths")], **arguments)
    return [tuple(map(int, line.split())) for line in (outdir / "lengths").read_text().splitlines()]


def test_what_is_told_of_a_run_reaches_whom_it_is_for(tmp_path, capsys, caplog):
    pytest.importorskip("tensorboard")
    (tmp_path / "usual").mkdir()
    (tmp_path / "told").mkdir()
    caplog.set_level(logging.INFO)
    evaluations = run(tmp_path / "usual", progress=False)
    assert evaluations and set(evaluations) == {(3, 15)}
    assert (tmp_path / "usual" / "best").exists()
    assert not list((tmp_path / "usual").glob("events.out.tfevents*"))
    assert capsys.readouterr().err == ""
    assert "of.a.user" not in {record.name for record in caplog.records}
    sink, clocks = Sink(), []
    evaluations = run(
        tmp_path / "told", eval_n_episodes=None, eval_n_steps=10, save_best_so_far_agent=False, use_tensorboard=True,
        logger=logging.getLogger("of.a.user"), progress=True, hooks=[lambda clock: clocks.append(clock.t)],
        loggers=[sink],
    )  # fmt: skip
    assert evaluations and set(evaluations) == {(2, 10)}
    assert not (tmp_path / "told" / "best").exists()
    assert {"train/return", "eval/mean"} <= scalars(tmp_path / "told").keys()
    assert "60/60 steps" in capsys.readouterr().err
    assert "of.a.user" in {record.name for record in caplog.records}
    assert clocks[-1] == 60 and sink.steps[-1] == "closed" and len(sink.steps) == 13  # episodes of five steps


def test_processes_start_as_they_are_told(tmp_path):
    def which(process_idx, test):
        import multiprocessing

        with open(tmp_path / f"process-{process_idx}", "w") as file:
            file.write(multiprocessing.current_process().__class__.__name__)
        return make_env(process_idx, test)

    for processes in (1, 3):
        train_agent_async(
            tmp_path, processes, which, steps=20, eval_interval=None, make_agent=lambda index: make_a3c(),
            start_method="fork",
        )  # fmt: skip
        assert len(list(tmp_path.glob("process-*"))) == processes
    assert (tmp_path / "process-0").read_text() == "ForkProcess"


@pytest.mark.parametrize("kind", ["PPO", "TRPO", "A2C", "REINFORCE"])
@pytest.mark.parametrize("given", ["agent", "make_agent"])
@pytest.mark.parametrize("start_method", ["fork", None])
def test_agents_that_share_nothing_are_refused_with_what_trains_them(tmp_path, kind, given, start_method):
    agent = make_on_policy(kind)
    part, name = (agent, "agent") if given == "agent" else (lambda index: agent, r"make_agent\(0\)")
    with pytest.raises(TypeError, match=rf"^{name} is a {kind}, which has no shared_attributes.*A3C, ACER") as caught:
        train_agent_async(tmp_path, 2, make_env, eval_interval=None, start_method=start_method, **{given: part})
    assert "Train this one with train_agent_batch or train_agent;" in str(caught.value)


def test_agents_with_replay_are_told_of_actors_and_a_learner(tmp_path):
    with pytest.raises(TypeError, match="Train this one with train_agent_actor_learner or"):
        train_agent_async(tmp_path, 2, make_env, agent=make_agent(), start_method="fork")


def test_without_shared_memory_any_agent_trains(tmp_path):
    agent = make_on_policy("PPO", update_interval=20)
    train_agent_async(
        tmp_path, 1, make_env, steps=60, eval_interval=None, agent=agent, start_method="fork", use_shared_memory=False
    )
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
        return make_env(process_idx, test)

    result = train_agent_actor_learner(
        agent, numbered, 10**6, tmp_path / "run", 3, eval_interval=None, start_method="fork", **options
    )
    assert told == [(3, options)]
    assert {path.name for path in indices.iterdir()} == {"0", "1", "2"}
    assert result is agent and agent.optim_t == 30
    assert agent.t >= 60  # two steps for each update
    assert (tmp_path / "run" / "run.json").exists()
