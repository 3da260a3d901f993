"""Runners, estimators and checks accept environment ids, and close what they have made."""

import gymnasium
import numpy as np
import pytest
from estimator_parts import QUIET, make
from fqe_parts import LeansOn, config
from resume_parts import small_dqn
from run_parts import Stopped, record, stop_at, table

from pfrl_like import experiments, ope
from pfrl_like.algos import EpochDQN
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.online.buffers import ReplayBuffer
from pfrl_like.testing import check_env

ID = "CartPole-v1"


@pytest.fixture(autouse=True)
def closed(monkeypatch):
    envs = []
    monkeypatch.setattr("gymnasium.envs.classic_control.CartPoleEnv.close", lambda env: envs.append(env))
    return envs


def agent():
    return small_dqn(gymnasium.make(ID), explorer=ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)))


def metrics(outdir, runner=experiments.train_agent, env=ID, **options):
    runner(agent(), env, steps=40, outdir=outdir, progress=False, **options)
    assert record(outdir)["env"] == ID
    return table(outdir / "metrics.csv")


@pytest.mark.parametrize(
    ("name", "eval_env"), [("train_agent", None), pytest.param("train_agent_batch", ID, marks=pytest.mark.slow)]
)
def test_equal_seeds_give_equal_runs_and_what_was_made_is_closed(name, eval_env, tmp_path, closed):
    runner, plain = getattr(experiments, f"{name}_with_evaluation"), getattr(experiments, name)
    options = {"eval_n_steps": None, "eval_n_episodes": 1, "eval_interval": 20, "eval_env": eval_env}
    first = metrics(tmp_path / "first", runner, **options)
    assert closed and first == metrics(tmp_path / "second", runner, **options) == metrics(tmp_path / "third", plain)
    count = len(closed)
    metrics(tmp_path / "given", plain, gymnasium.make(ID))
    assert len(closed) == count


@pytest.mark.slow
def test_a_run_by_id_resumes(tmp_path):
    whole = metrics(tmp_path / "whole", checkpoint_freq=10)
    with pytest.raises(Stopped):
        metrics(tmp_path / "stopped", checkpoint_freq=10, hooks=[stop_at(25)])
    assert metrics(tmp_path / "stopped", checkpoint_freq=10, resume=True) == whole


def test_processes_and_epochs_run_by_id(tmp_path, closed):
    options = {"agent": agent(), "steps": 30, "eval_interval": 10, "eval_n_episodes": 1, "use_shared_memory": False}
    experiments.train_agent_async(tmp_path / "async", 1, ID, start_method="fork", progress=False, **options)
    assert table(tmp_path / "async" / "scores.txt")
    given = {"steps_per_epoch": 2, "n_train_steps": 1, "buffer_batch_size": 4, "min_buffer_size": 4}
    algorithm = EpochDQN(ID, None, agent().model, agent().replay_buffer, **given)
    runner, count = experiments.EpochRunner(algorithm, ID, tmp_path / "epochs", eval_env=ID), len(closed)
    assert [runner.train(n_epochs, resume=True) for n_epochs in (1, 2)]
    assert len(closed) == count + 4 and len(table(tmp_path / "epochs" / "epochs.csv")) == 2


def test_evaluations_estimators_and_checks_take_ids(tmp_path, closed):
    sac = make("SAC").fit_online("Pendulum-v1", eval_env="Pendulum-v1", n_steps=20, n_steps_per_epoch=20, **QUIET)
    mean = experiments.eval_performance(ID, agent(), None, 1)["mean"]
    fqe = ope.DiscreteFQE(LeansOn(True), config())
    assert len(fqe.collect(ID, ReplayBuffer(30, ID), n_steps=20, show_progress=False)) == 20
    assert evaluate_on_environment(ID, n_trials=1)(LeansOn(True)) > 0 < mean
    assert len(experiments.collect_demonstrations(agent(), ID, 12, None, tmp_path)) == 12
    experiments.Evaluator(agent(), ID, None, 1, 10, tmp_path).close()
    check_env(ID)
    assert len(closed) == 8 and len(sac.eval_results_["evaluation"]) == 1
