"""The commands `train` and `fit`."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_parts import ROOT, TRAIN, Patch, Printed, records, run
from run_parts import change_record

from pfrl_like.cli import main
from pfrl_like.datasets import get_pendulum
from pfrl_like.runs.run_files import RECORD
from pfrl_like.storage.manifest import WriterLock
from pfrl_like.zoo.make import Made

STEPS = "--steps", "60"
#: For tests of directories: nothing is learnt.
FEW = "--steps", "2"
FIT = (
    *("fit", "--agent", "cql", "--steps", "2"),
    *("--set", "hidden_sizes=[8]", "--set", "minibatch_size=4", "--set", "eval_n_episodes=1"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: Patch, no_waiting_for_the_disk: None) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def only_run(folder: Path) -> Path:
    """The only run directory below `results`."""
    (outdir,) = (folder / "results").iterdir()
    return outdir


@pytest.mark.parametrize("in_a_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_has_a_dated_directory_checkpoints_scores_and_its_settings(
    in_a_process: bool, folder: Path, capsys: Printed
) -> None:
    words = *TRAIN, *STEPS, "--set", "lr=1e-4"
    status, out, err = run(folder, *words) if in_a_process else (main(words), *capsys.readouterr())
    outdir = only_run(folder)
    assert (status, err) == (0, "") and outdir.name[8:9] == "-" and outdir.name.endswith("-dqn-cartpole-seed0")
    lines = out.splitlines()
    assert lines[0] == f"dqn in CartPole-v1, seed 0: starting results/{outdir.name}"
    assert lines[-2].startswith("step 60: score ") and lines[-1].endswith(f" in results/{outdir.name}")
    assert {"6_checkpoint", "54_checkpoint", "60_finish", "best"} <= {path.name for path in outdir.iterdir()}
    config = tomllib.loads((outdir / "run.toml").read_text())
    assert [config[name] for name in ("agent", "env", "seed", "steps", "threads")] == ["dqn", "CartPole-v1", 0, 60, 1]
    assert config["settings"]["lr"] == 1e-4 and config["settings"]["hidden_sizes"] == [8]
    assert json.loads(config["composition"]["json"])["run"]["steps"] == 60


def test_a_run_continues_until_it_has_finished(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *STEPS]) == 0
    outdir = only_run(folder)
    change_record(outdir, outcome="running")  # as after a kill
    (outdir / "60_finish").rename(folder / "saved")
    (outdir / RECORD).chmod(0o600)
    assert main([*TRAIN, *STEPS]) == 0
    assert f"resuming results/{outdir.name}" in capsys.readouterr().out
    (again,) = records(folder / "results")
    assert (again["resumed"]["t"], again["resumed"]["resume"], again["outcome"]) == (54, "exact", "finished")
    assert main([*TRAIN, *STEPS]) == 0
    out = capsys.readouterr().out
    assert "has finished before" in out and out.endswith(f" in results/{outdir.name}\n")
    assert only_run(folder) == outdir


def test_other_settings_seeds_locked_runs_and_new_start_another_run(folder: Path) -> None:
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    outdir = only_run(folder)
    (outdir / RECORD).unlink()  # the run is unfinished
    lock = WriterLock(str(outdir))
    others = ((), ("--seed", "1"), ("--set", "lr=0.5"), ("--steps", "3"))
    for number, options in enumerate(others, 2):
        assert main([*TRAIN, *FEW, "--quiet", *options]) == 0
        assert len([*(folder / "results").iterdir()]) == number
    lock.release()
    assert main([*TRAIN, *FEW, "--quiet", "--new"]) == 0
    assert len([*(folder / "results").iterdir()]) == 6 and not (outdir / RECORD).exists()
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    assert (outdir / RECORD).exists()


def test_quiet_prints_only_the_result(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("score ") and line.endswith(f"in results/{only_run(folder).name}")


def test_a_config_trains_again_and_options_replace_its_values(folder: Path) -> None:
    assert main([*TRAIN, *STEPS, "--quiet", "--set", "max_grad_norm=None"]) == 0
    first = only_run(folder)
    config = str(first / "run.toml")
    assert main(["train", "--config", config, "--outdir", "b", "--quiet"]) == 0
    (again,) = (folder / "b").iterdir()
    assert (again / "run.toml").read_text() == Path(config).read_text()
    assert (again / "scores.txt").read_text().split("\n")[-2].split("\t")[3:] == (
        (first / "scores.txt").read_text().split("\n")[-2].split("\t")[3:]
    )
    changes = "--seed", "3", "--steps", "30", "--set", "gamma=0.5"
    assert main(["train", "--config", config, "--outdir", "c", "--quiet", *changes]) == 0
    (other,) = (tomllib.loads(path.read_text()) for path in (folder / "c").glob("*/run.toml"))
    assert (other["seed"], other["steps"], other["settings"]["gamma"]) == (3, 30, 0.5)
    assert other["settings"]["hidden_sizes"] == [8] and other["settings"]["max_grad_norm"] == "None"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("train", "--env", "CartPole-v1"), "the option --agent is required"),
        (("train", "--agent", "dqn"), "the option --env is required"),
        (("train", "--agent", "dqnn", "--env", "CartPole-v1"), "argument --agent: agent is 'dqnn'"),
        (("train", "--agent", "dqn", "--env", "CartPol-v1"), "argument --env: env is 'CartPol-v1'"),
        (
            ("train", "--agent", "dqn", "--env", "Pendulum-v1"),
            "argument --agent: agent is 'dqn', which takes discrete actions, but the action space is Box(-2.0, 2.0, "
            "(1,), float32): expected an agent for continuous actions: sac, tqc, ",
        ),
        (("train", "--agent", "dqn", "--env", "phys2d/CartPole-v1"), "argument --env: "),
        ((*TRAIN, "--set", "stop_after=1"), "argument --set: stop_after is no setting, use the option --stop-after"),
        (("train", "--config", "stop.toml"), "argument --config: stop_after is 0, expected a positive number"),
        ((*TRAIN, "--set", "lrr=1"), "argument --set: dqn has no setting 'lrr'; the nearest is 'lr'"),
        ((*TRAIN, "--set", "lr=high"), "argument --set: lr is 'high' (str), expected a finite number"),
        ((*TRAIN, "--env", "CartPole-v1@fast"), "argument --env: env_id is 'CartPole-v1@fast'"),
        ((*TRAIN, "--dataset", "pendulum"), "argument --dataset: dataset is given, but DQN learns online: leave"),
        (("fit", "--agent", "cql", "--env", "MountainCarContinuous-v0"), "CQL learns from data: pass --dataset"),
        ((*FIT, "--dataset", "nothing.npz", "--env", "Pendulum-v1"), "argument --dataset: nothing.npz: "),
        ((*FIT, "--dataset", "nothing.npz"), "the option --env is required"),
        (
            ("fit", "--agent", "DQN", "--dataset", "cartpole"),
            "argument --agent: dqn learns online, use the command train",
        ),
        (("fit", "--agent", "cqll", "--dataset", "pendulum"), "argument --agent: agent is 'cqll'"),
        (("train", "--agent", "dqn", "--env", "nothing:X-v0"), "argument --env: No module named 'nothing'"),
        ((*TRAIN, "--set", "seed=1"), "argument --set: seed is no setting, use the option --seed"),
        (("train", "--config", "nothing.toml"), "argument --config: nothing.toml: "),
        (("train", "--config", "odd.toml"), "argument --config: odd.toml has the key 'learning_rate'"),
        (("train", "--config", "broken.toml"), "argument --config: "),
    ],
)
def test_an_invalid_option_is_named(words: tuple[str, ...], text: str, folder: Path, capsys: Printed) -> None:
    (folder / "odd.toml").write_text("learning_rate = 1")
    (folder / "broken.toml").write_text("agent =")
    (folder / "stop.toml").write_text("stop_after = 0")
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m pfrl_like: error: ") and text in line
    assert not (folder / "results").exists()


def test_a_missing_package_names_its_extra(monkeypatch: Patch, capsys: Printed) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    assert main(["train", "--agent", "dqn", "--env", "LunarLander-v3"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "LunarLander-v3 needs the package box2d" in line and '".[box2d]"' in line


def test_a_score_ends_a_run_which_then_counts_as_finished(folder: Path, capsys: Printed) -> None:
    stops = "--stop-at-score", "1"
    assert main([*TRAIN, *STEPS, *stops]) == 0
    (first,) = records(folder / "results")
    assert first["outcome"].endswith(" >= 1") and first["t"] < 60
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == f"step {first['t']}: {first['outcome']}" and lines[-1].startswith("score ")
    assert tomllib.loads((only_run(folder) / "run.toml").read_text())["stop_at_score"] == 1
    assert main([*TRAIN, *STEPS, *stops]) == 0
    assert "has finished before" in capsys.readouterr().out


def test_options_to_stop_are_no_settings_and_a_run_that_others_stopped_continues(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *STEPS, "--stop-at-score", "1"]) == 0
    (first,) = records(folder / "results")
    capsys.readouterr()
    assert main([*TRAIN, *STEPS, "--stop-after", "9"]) == 0
    assert f"resuming results/{only_run(folder).name}" in capsys.readouterr().out
    (again,) = records(folder / "results")
    assert (again["resumed"]["t"], again["t"], again["outcome"]) == (first["t"], 60, "finished")
    config = tomllib.loads((only_run(folder) / "run.toml").read_text())
    assert config["stop_after"] == 9 and "stop_at_score" not in config
    for stops in ((), ("--stop-at-score", "1")):
        assert main([*TRAIN, *STEPS, *stops]) == 0
        assert "has finished before" in capsys.readouterr().out


def test_a_finished_run_comes_before_one_that_other_options_have_stopped(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    assert main([*TRAIN, *FEW, "--quiet", "--new", "--stop-after", "1e-9"]) == 0
    for stops in ((), ("--stop-after", "1e-9")):
        assert main([*TRAIN, *FEW, *stops]) == 0
        assert "has finished before" in capsys.readouterr().out


def test_a_new_run_names_the_unfinished_run_and_its_other_settings(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *FEW, "--quiet", "--set", "lr=0.5"]) == 0
    outdir = only_run(folder)
    (outdir / RECORD).unlink()  # the run is unfinished
    capsys.readouterr()
    note = f"The unfinished run results/{outdir.name} has other settings: "
    for options, text in (((), "steps = 2, lr = 0.5.\n"), (("--new",), ""), (("--seed", "1"), "")):
        assert main([*TRAIN, "--steps", "3", *options]) == 0
        out = capsys.readouterr().out
        assert (note in out) == bool(text) and text in out
    lock = WriterLock(str(outdir))
    assert main([*TRAIN, "--steps", "4"]) == 0
    lock.release()
    assert note not in capsys.readouterr().out


def test_a_time_ends_a_run_also_after_resume_from_its_config(folder: Path, monkeypatch: Patch, capsys: Printed) -> None:
    assert main([*TRAIN, *STEPS, "--stop-after", "1e-9"]) == 0
    outdir, (record,) = only_run(folder), records(folder / "results")
    assert (record["t"], record["outcome"]) == (2, "stopped: 6e-08 seconds have passed")
    change_record(outdir, outcome="running")  # as after a kill
    (outdir / RECORD).chmod(0o600)
    capsys.readouterr()
    assert main(["train", "--config", str(outdir / "run.toml")]) == 0
    assert f"resuming results/{outdir.name}" in capsys.readouterr().out
    (again,) = records(folder / "results")
    assert (again["t"], again["outcome"]) == (3, "stopped: 6e-08 seconds have passed")


def test_a_score_that_is_older_than_its_run_has_its_step(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    outdir = only_run(folder)
    (outdir / RECORD).chmod(0o600)
    change_record(outdir, t=1_500, outcome="stopped: 60 seconds have passed")
    capsys.readouterr()
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    assert capsys.readouterr().out.endswith(f" at step 2 in results/{outdir.name}\n")


def test_failed_training_has_status_1_and_one_line(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *STEPS, "--set", "lr=1e30"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"training failed in results/{only_run(folder).name}: ")


def test_a_run_without_a_checkpoint_that_can_be_loaded_names_the_option_new(folder: Path, capsys: Printed) -> None:
    assert main([*TRAIN, *FEW, "--quiet"]) == 0
    outdir = only_run(folder)
    (outdir / RECORD).unlink()  # the run is unfinished
    for path in outdir.glob("*/run"):
        shutil.rmtree(path)
    assert main([*TRAIN, *FEW, "--quiet"]) == 1
    assert capsys.readouterr().err.endswith(". With --new, a new run starts\n")


def test_a_directory_that_cannot_be_written_has_status_1(folder: Path, capsys: Printed) -> None:
    (folder / "results").write_text("")
    assert main([*TRAIN, *STEPS]) == 1
    assert "training failed in results: " in capsys.readouterr().err


def test_an_interrupted_new_run_says_how_it_continues(monkeypatch: Patch, capsys: Printed) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Made, "train", interrupt)
    assert main([*TRAIN, *STEPS, "--new"]) == 130
    assert "interrupted; the same command without --new continues the run in results/" in capsys.readouterr().err


def test_fit_learns_from_packaged_data_and_from_files(folder: Path, capsys: Printed) -> None:
    assert main([*FIT, "--dataset", "pendulum"]) == 0
    assert "cql in Pendulum-v1, seed 0: starting" in capsys.readouterr().out
    get_pendulum()[0].dump(folder / "data.npz")
    assert main([*FIT, "--dataset", "data.npz", "--env", "Pendulum-v1"]) == 0
    assert main([*FIT, "--dataset", "data.npz", "--env", "Pendulum-v1"]) == 0
    configs = [tomllib.loads(path.read_text()) for path in sorted((folder / "results").glob("*/run.toml"))]
    assert [config["dataset"] for config in configs] == ["pendulum", str(folder / "data.npz")]


HOSTILE = "raise SystemExit('a file of the current directory was run')"


def test_the_program_imports_a_file_of_the_current_directory_only_for_env(folder: Path, monkeypatch: Patch) -> None:
    path = [each for each in sys.path if each]
    monkeypatch.setattr(sys, "path", [*path])
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    (folder / "gymnasium.py").write_text(HOSTILE)
    (folder / "my_envs.py").write_text(
        "import gymnasium\ngymnasium.register('My-v0', gymnasium.spec('CartPole-v1').entry_point)"
    )
    for status, command, env, added in (
        (0, ["show", "dqn"], "CartPole-v1", []),
        (0, ["show", "dqn"], "my_envs:My-v0", [str(folder)]),
        (2, ["evaluate", "absent", "--env"], "my_envs:My-v0", [str(folder)]),
    ):
        monkeypatch.setattr(sys, "path", [*path])
        monkeypatch.setattr(sys, "argv", ["pfrl-like", *command, env])
        assert main() == status
        assert sys.path == [*path, *added]
    assert not os.environ["PYTHONSAFEPATH"]


@pytest.mark.slow
def test_the_installed_program_runs_in_a_directory_with_other_modules(folder: Path) -> None:
    for name in ("gymnasium", "torch", "numpy", "multiprocessing"):
        (folder / f"{name}.py").write_text(HOSTILE)
    program = folder / "bin" / "pfrl-like"
    program.parent.mkdir()
    program.write_text("import sys\nfrom pfrl_like.cli import main\nsys.exit(main())")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(program), *TRAIN, *STEPS, "--seeds", "2"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "failed" not in done.stdout, done


@pytest.mark.slow
def test_a_module_in_the_current_directory_registers_environments(folder: Path) -> None:
    text = "import gymnasium\ngymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv', None, 20)\n"
    (folder / "mine.py").write_text(text)
    status, out, err = run(folder, *TRAIN, "--env", "mine:Mine-v0", *STEPS)
    assert (status, err) == (0, "") and "-dqn-mine-seed0" in out


@pytest.mark.slow
def test_a_recorded_run_can_be_repeated(folder: Path) -> None:
    for seed in ("0", "1"):
        assert run(folder, *TRAIN, *STEPS, "--seed", seed)[0] == 0
    first, second = sorted(str(path) for path in (folder / "results").iterdir())
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    status, out, err = run(folder, "diff-runs", first, second, "--rerun")
    assert status == 1 and "steps: the first difference is at step 1" in out, out + err
    assert "failed" not in out and "not reproducible" not in out, out + err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
