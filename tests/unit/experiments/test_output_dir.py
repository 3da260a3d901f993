import argparse
import contextlib
import datetime
import json
import math
import pathlib
import re
import subprocess
from unittest import mock

import numpy as np
import pytest
from experiment_fakes import Bare, Counting

from pfrl_like import experiments as runs
from pfrl_like.experiments.prepare_output_dir import save_git_information
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.secrets import MASK


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def repository(tmp_path):
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    (tmp_path / "file").write_text("1")
    for command in ("init -q", "add .", "commit -qm first", "commit --allow-empty -qm second"):
        subprocess.run([*run, *command.split()], check=True)
    return tmp_path


def test_id_follows_commit_changes_arguments_and_prefix(repository):
    first = runs.generate_exp_id(argv=["a"])
    assert first == runs.generate_exp_id(argv=["a"]) != runs.generate_exp_id(argv=["b"])
    assert runs.generate_exp_id(prefix="run", argv=["a"]) == "run-" + first
    (repository / "file").write_text("2")
    assert runs.generate_exp_id(argv=["a"]) != first
    assert runs.generate_exp_id(argv=["--token=a"]) != runs.generate_exp_id(
        argv=["--token=b"]
    )  # though both are masked


def test_id_without_git_is_refused():
    with pytest.raises(RuntimeError, match="git"):
        runs.generate_exp_id()


def test_files_of_a_run_under_git(repository):
    args = argparse.Namespace(lr=1, url=pathlib.PurePosixPath("x://me:pw@host"), api_key="a")
    outdir = runs.prepare_output_dir(args, basedir="runs", argv=["train.py", "--lr", "1"])
    files = {path.name: path.read_text() for path in (repository / outdir).iterdir()}
    assert json.loads(files["args.txt"]) == {"lr": 1, "url": "x:/me:pw@host", "api_key": MASK}
    assert files["command.txt"] == "train.py --lr 1"
    assert set(files) == {"args.txt", "command.txt", "environ.txt", "start.txt"} | {
        f"git-{name}.txt" for name in ("head", "status", "log", "diff")
    }


def test_git_information_alone_is_recorded_in_the_same_files(repository):
    (repository / "notes").mkdir()
    (repository / "file").write_text("2")
    save_git_information(repository / "notes")
    runs.prepare_output_dir(None, exp_id="run")
    alone, of_run = (
        {path.name: path.read_text() for path in (repository / folder).glob("git-*")} for folder in ("notes", "run")
    )
    assert alone.keys() == {f"git-{name}.txt" for name in ("head", "status", "log", "diff")}
    assert "modified:   file" in alone.pop("git-status.txt")
    assert alone.items() <= of_run.items()


def test_git_information_outside_a_repository_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="not in a git repository with a commit"):
        save_git_information(tmp_path)


def test_no_arguments_are_recorded_as_null(tmp_path):
    outdir = runs.prepare_output_dir(None, basedir=tmp_path, exp_id="x")
    assert pathlib.Path(outdir, "args.txt").read_text() == "null"  # as PFRL 0.4.0


@pytest.mark.parametrize("args", ["x", [1, 2], 3.0])
def test_arguments_that_are_none_are_refused(args, tmp_path):
    with pytest.raises(TypeError, match="args is .*, expected a dict, an argparse.Namespace or None"):
        runs.prepare_output_dir(args, tmp_path, "run")
    assert not [*tmp_path.iterdir()]


def test_numbers_that_are_not_finite_are_written_as_pfrl_writes_them(tmp_path):
    path = runs.prepare_output_dir({"lr": math.nan, "clip": math.inf}, tmp_path, "run", argv=["x"])
    assert (tmp_path / "run" / "args.txt").read_text() == '{"lr": NaN, "clip": Infinity}' and path


@pytest.mark.parametrize("exp_id", ["../up", "..", "a/../../up", "/up"])
def test_an_id_that_leads_out_of_the_directory_is_refused(exp_id, tmp_path):
    with pytest.raises(ValueError, match=f"exp_id is '{exp_id}', expected a name below basedir"):
        runs.prepare_output_dir({}, tmp_path / "base", exp_id)
    assert not [*tmp_path.iterdir()]
    assert runs.prepare_output_dir({}, tmp_path, "group/..run", argv=["x"]) == str(tmp_path / "group/..run")


def test_a_repository_without_a_commit_is_one_but_names_no_run(tmp_path):
    assert not runs.is_under_git_control() and runs.prepare_output_dir({}, time_format="before") == "./before"
    subprocess.run(["git", "init", "-q"], check=True)
    assert runs.is_under_git_control()
    outdir = runs.prepare_output_dir({}, time_format="now")
    assert outdir == "./now" and not (tmp_path / "now" / "git-head.txt").exists()


def test_older_run_of_the_same_id_is_kept_aside(tmp_path):
    for _ in range(2):
        runs.prepare_output_dir({}, exp_id="x", time_format="T")
        (tmp_path / "x" / "earlier-1").mkdir(exist_ok=True)
    assert len((tmp_path / "x" / "start.txt").read_text().splitlines()) == 2
    assert [path.name for path in (tmp_path / "x.T.backup").glob("[es][at]*")] == ["start.txt"]
    runs.prepare_output_dir({}, exp_id="x", time_format="U", make_backup=False)
    assert not (tmp_path / "x.U.backup").exists()


def test_a_value_of_the_environment_in_a_changed_file_is_masked_and_commits_stay(repository, monkeypatch):
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True, text=True).stdout.strip()
    monkeypatch.setenv("WANDB_API_KEY", "0123-abc")
    monkeypatch.setenv("DEPLOY_TOKEN", head)
    (repository / "file").write_text("login('0123-abc', 'https://me:pw@host')")
    outdir = repository / runs.prepare_output_dir({}, basedir="runs", argv=["a"])
    assert f"login('{MASK}', 'https://{MASK}@host')" in (outdir / "git-diff.txt").read_text()
    assert (outdir / "git-head.txt").read_text().strip() == head in (outdir / "git-log.txt").read_text()


def test_the_log_has_the_newest_commits_and_says_how_many_it_lacks(repository, monkeypatch):
    monkeypatch.setitem(runs.prepare_output_dir.__globals__, "_MAX_COMMITS", 1)
    log = (repository / runs.prepare_output_dir({}, basedir="runs", argv=["a"]) / "git-log.txt").read_text()
    assert "second" in log and "first" not in log and log.endswith("\n[cut: 1 older commits of 2]\n")


def test_a_long_diff_is_cut_after_a_line_and_hides_a_secret_at_the_cut(repository, monkeypatch):
    monkeypatch.setitem(runs.prepare_output_dir.__globals__, "_MAX_CHARACTERS", 200)
    monkeypatch.setenv("WANDB_API_KEY", "0123-abc")
    (repository / "file").write_text("0123-abc\n" * 100)
    diff = (repository / runs.prepare_output_dir({}, basedir="runs", argv=["a"]) / "git-diff.txt").read_text()
    assert len(diff) < 300 and "0123" not in diff
    assert re.fullmatch(rf".*\n\+{re.escape(MASK)}\n\[cut: the last \S+ of \S+ characters\]\n", diff, re.DOTALL)


NOW = datetime.datetime(2026, 11, 23, 22, 12, 59)


def test_the_name_of_a_run_says_when_who_and_where():
    assert runs.run_directory_name("CartPole-v1", "DQN", 0, now=NOW) == "20261123-2212-dqn-cartpole-seed0"
    assert runs.run_directory_name("games:ALE/Pong-v5", "My (2)", 3, now=NOW) == "20261123-2212-my-2-ale-pong-seed3"
    assert runs.run_directory_name(Counting(3), Bare(), 1, now=NOW) == "20261123-2212-bare-counting-seed1"
    with pytest.raises(ValueError, match="agent is '&', expected a name with a letter a-z or a digit"):
        runs.run_directory_name("CartPole-v1", "&", 0)


def test_every_run_gets_a_directory_of_its_own(tmp_path):
    paths = [runs.new_run_directory(tmp_path / "runs", "CartPole-v1", "dqn", 0, now=NOW) for _ in range(3)]
    first = str(tmp_path / "runs" / "20261123-2212-dqn-cartpole-seed0")
    assert paths == [first, f"{first}-2", f"{first}-3"] and all(pathlib.Path(path).is_dir() for path in paths)


def test_linear_interpolation_reaches_and_keeps_its_end():
    seen = []
    hook = runs.LinearInterpolationHook(5, 1.0, 0.0, lambda env, agent, value: seen.append(value))
    for step in (1, 3, 5, 7):
        hook(None, None, step)
    assert seen == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("extent, n", [((4, None), 4), ((None, 2), 6)])
def test_demonstrations_can_be_loaded_again(agent, tmp_path, extent, n):
    runs.collect_demonstrations(agent, Counting(3), *extent, tmp_path)
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
    buffer = runs.collect_demonstrations(agent, Counting(3, mask=mask), 3, None, tmp_path)
    batch = buffer.sample_batch(3)
    assert batch.action_mask.tolist() == batch.next_action_mask.tolist() == [[True, False]] * 3
    assert agent.seen.n == 2


@pytest.mark.parametrize("extent", [(0, None), (None, -1), (None, None)])
def test_demonstrations_of_nothing_are_refused(agent, tmp_path, extent):
    with pytest.raises(ValueError, match="exactly one" if extent == (None, None) else "expected an integer from 1 on"):
        runs.collect_demonstrations(agent, Counting(), *extent, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pruned_trial_ends_the_run(agent, tmp_path):
    optuna = pytest.importorskip("optuna")
    trial = mock.Mock(**{"should_prune.side_effect": [False, True]})
    hooks = [runs.OptunaPrunerHook(trial)]
    with pytest.raises(optuna.TrialPruned):
        runs.train_agent_with_evaluation(agent, Counting(3), 30, None, 1, 3, tmp_path, evaluation_hooks=hooks)
    assert trial.report.call_args_list == [mock.call(3.0, 3), mock.call(3.0, 6)]
