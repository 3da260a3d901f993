import argparse
import contextlib
import json
import math
import pathlib
import subprocess
from unittest import mock

import numpy as np
import pytest
from experiment_fakes import Bare, Counting, Recorder
from run_parts import record

from pfrl_like.experiments import (
    LinearInterpolationHook,
    OptunaPrunerHook,
    collect_demonstrations,
    generate_exp_id,
    is_under_git_control,
    prepare_output_dir,
    train_agent,
    train_agent_with_evaluation,
)
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.secrets import MASK


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def repository(tmp_path):
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    (tmp_path / "file").write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*run, *command], check=True)
    return tmp_path


def test_id_follows_commit_changes_arguments_and_prefix(repository):
    first = generate_exp_id(argv=["a"])
    assert first == generate_exp_id(argv=["a"]) != generate_exp_id(argv=["b"])
    assert generate_exp_id(prefix="run", argv=["a"]) == "run-" + first
    (repository / "file").write_text("2")
    assert generate_exp_id(argv=["a"]) != first
    assert generate_exp_id(argv=["--token=a"]) != generate_exp_id(argv=["--token=b"])  # though both are masked


def test_id_without_git_is_refused():
    with pytest.raises(RuntimeError, match="git"):
        generate_exp_id()


def test_files_of_a_run_under_git(repository):
    args = argparse.Namespace(lr=1, url=pathlib.PurePosixPath("x://me:pw@host"), api_key="a")
    outdir = prepare_output_dir(args, basedir="runs", argv=["train.py", "--lr", "1"])
    files = {path.name: path.read_text() for path in (repository / outdir).iterdir()}
    assert json.loads(files["args.txt"]) == {"lr": 1, "url": "x:/me:pw@host", "api_key": MASK}
    assert files["command.txt"] == "train.py --lr 1"
    assert set(files) == {"args.txt", "command.txt", "environ.txt", "start.txt"} | {
        f"git-{name}.txt" for name in ("head", "status", "log", "diff")
    }


def test_no_arguments_are_recorded_as_null(tmp_path):
    outdir = prepare_output_dir(None, basedir=tmp_path, exp_id="x")
    assert pathlib.Path(outdir, "args.txt").read_text() == "null"  # as PFRL 0.4.0


@pytest.mark.parametrize("args", ["x", [1, 2], 3.0])
def test_arguments_that_are_none_are_refused(args, tmp_path):
    with pytest.raises(TypeError, match="args is .*, expected a dict, an argparse.Namespace or None"):
        prepare_output_dir(args, tmp_path, "run")
    assert not [*tmp_path.iterdir()]


def test_numbers_that_are_not_finite_are_written_as_pfrl_writes_them(tmp_path):
    path = prepare_output_dir({"lr": math.nan, "clip": math.inf}, tmp_path, "run", argv=["x"])
    assert (tmp_path / "run" / "args.txt").read_text() == '{"lr": NaN, "clip": Infinity}' and path


@pytest.mark.parametrize("exp_id", ["../up", "..", "a/../../up", "/up"])
def test_an_id_that_leads_out_of_the_directory_is_refused(exp_id, tmp_path):
    with pytest.raises(ValueError, match=f"exp_id is '{exp_id}', expected a name below basedir"):
        prepare_output_dir({}, tmp_path / "base", exp_id)
    assert not [*tmp_path.iterdir()]
    assert prepare_output_dir({}, tmp_path, "group/..run", argv=["x"]) == str(tmp_path / "group/..run")


def test_a_repository_without_a_commit_is_one_but_names_no_run(tmp_path):
    assert not is_under_git_control() and prepare_output_dir({}, time_format="before") == "./before"
    subprocess.run(["git", "init", "-q"], check=True)
    assert is_under_git_control()
    outdir = prepare_output_dir({}, time_format="now")
    assert outdir == "./now" and not (tmp_path / "now" / "git-head.txt").exists()


def test_older_run_of_the_same_id_is_kept_aside(tmp_path):
    for _ in range(2):
        prepare_output_dir({}, exp_id="x", time_format="T")
        (tmp_path / "x" / "earlier-1").mkdir(exist_ok=True)
    assert len((tmp_path / "x" / "start.txt").read_text().splitlines()) == 2
    assert [path.name for path in (tmp_path / "x.T.backup").glob("[es][at]*")] == ["start.txt"]
    prepare_output_dir({}, exp_id="x", time_format="U", make_backup=False)
    assert not (tmp_path / "x.U.backup").exists()


def test_a_value_of_the_environment_in_a_changed_file_is_masked_and_commits_stay(repository, monkeypatch):
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True, text=True).stdout.strip()
    monkeypatch.setenv("WANDB_API_KEY", "0123-abc")
    monkeypatch.setenv("DEPLOY_TOKEN", head)
    (repository / "file").write_text("login('0123-abc', 'https://me:pw@host')")
    outdir = repository / prepare_output_dir({}, basedir="runs", argv=["a"])
    assert f"login('{MASK}', 'https://{MASK}@host')" in (outdir / "git-diff.txt").read_text()
    assert (outdir / "git-head.txt").read_text().strip() == head in (outdir / "git-log.txt").read_text()


def test_linear_interpolation_reaches_and_keeps_its_end():
    seen = []
    hook = LinearInterpolationHook(5, 1.0, 0.0, lambda env, agent, value: seen.append(value))
    for step in (1, 3, 5, 7):
        hook(None, None, step)
    assert seen == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("extent, n", [((4, None), 4), ((None, 2), 6)])
def test_demonstrations_can_be_loaded_again(agent, tmp_path, extent, n):
    collect_demonstrations(agent, Counting(3), *extent, tmp_path)
    loaded = ReplayBuffer()
    loaded.load(tmp_path / "demonstrations.replay")
    assert len(loaded) == n and not agent.observed and len(agent.evaluated) == n


def test_demonstrations_keep_masks_even_of_an_agent_that_takes_none(tmp_path):
    class Evaluated(Bare):
        def eval_mode(self):
            return contextlib.nullcontext()

        def dry_run(self, obs, action_space):
            self.seen = action_space

    agent, mask = Evaluated(), np.array([True, False])
    buffer = collect_demonstrations(agent, Counting(3, mask=mask), 3, None, tmp_path)
    batch = buffer.sample_batch(3)
    assert batch.action_mask.tolist() == batch.next_action_mask.tolist() == [[True, False]] * 3
    assert agent.seen.n == 2


@pytest.mark.parametrize("extent", [(0, None), (None, -1), (None, None)])
def test_demonstrations_of_nothing_are_refused(agent, tmp_path, extent):
    with pytest.raises(ValueError, match="exactly one" if extent == (None, None) else "expected an integer from 1 on"):
        collect_demonstrations(agent, Counting(), *extent, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pruned_trial_ends_the_run(agent, tmp_path, caplog):
    optuna = pytest.importorskip("optuna")
    trial = mock.Mock(**{"should_prune.side_effect": [False, True]})
    hooks = [OptunaPrunerHook(trial)]
    with pytest.raises(optuna.TrialPruned) as raised:
        train_agent_with_evaluation(agent, Counting(3), 30, None, 1, 3, tmp_path, evaluation_hooks=hooks)
    assert trial.report.call_args_list == [mock.call(3.0, 3), mock.call(3.0, 6)]
    assert record(tmp_path)["outcome"] == "pruned" and not hasattr(raised.value, "__notes__") and not caplog.records
    assert agent.saved[-1] == str(tmp_path / "6_finish") and (tmp_path / "report.html").exists()


@pytest.mark.parametrize("raises", [True, False])
def test_optuna_counts_a_trial_that_a_hook_of_the_clock_ends_as_pruned(raises, tmp_path):
    optuna = pytest.importorskip("optuna")

    def objective(trial):
        def prune(clock):
            if clock.t == 4 and raises:
                raise optuna.TrialPruned
            if clock.t == 4:
                clock.stop("pruned")

        train_agent(Recorder(), Counting(3), 9, tmp_path, hooks=[prune])
        raise optuna.TrialPruned

    study = optuna.create_study()
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.PRUNED
    assert record(tmp_path)["outcome"] == ("pruned" if raises else "stopped: pruned")
