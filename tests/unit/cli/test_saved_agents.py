"""Commands that use a saved agent."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from cli_parts import TRAIN
from PIL import Image

from pfrl_like.cli import main
from pfrl_like.cli.saved_agents import agent_directory


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run."""
    folder = tmp_path_factory.mktemp("runs")
    assert main([*TRAIN, "--steps", "60", "--quiet", "--outdir", str(folder)]) == 0
    (outdir,) = folder.iterdir()
    return outdir


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_best_agent_of_a_run_is_used_or_else_the_newest(trained: Path, folder: Path) -> None:
    assert agent_directory(str(trained)) == str(trained / "best")
    assert agent_directory(str(trained / "12_checkpoint")) == str(trained / "12_checkpoint")
    copied = shutil.copytree(trained, folder / "copied")
    shutil.rmtree(copied / "best")
    assert agent_directory(str(copied)) == str(copied / "60_finish")
    assert main(["evaluate", str(folder)]) == 2


def test_evaluate_prints_the_same_score_for_the_same_seed(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for seed, episodes in (("0", "3"), ("0", "3"), ("1", "1")):
        assert main(["evaluate", str(trained), "--episodes", episodes, "--seed", seed]) == 0
        lines.append(capsys.readouterr().out)
    assert lines[0] == lines[1] and "std" not in lines[2]
    x = r"-?[\d.]+"
    pattern = rf"DQN in CartPole-v1: mean {x}, std {x}, 95% interval \[{x}, {x}\], episodes 3 \(.+best\)\n"
    assert re.fullmatch(pattern, lines[0])


def test_the_environment_can_be_replaced(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained), "--episodes", "1", "--env", "CartPole-v0"]) == 0
    assert "DQN in CartPole-v0" in capsys.readouterr().out
    assert main(["evaluate", str(trained), "--env", "CartPol-v0"]) == 2
    assert "argument --env: env is 'CartPol-v0'" in capsys.readouterr().err


def test_watch_writes_a_gif(trained: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(trained), "--gif", "agent"]) == 0
    assert Image.open(folder / "agent.gif").n_frames > 1 and "in agent.gif" in capsys.readouterr().out


def test_watch_shows_episodes_in_a_window(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pygame")
    assert main(["watch", str(trained), "--env", "CartPole-v1"]) == 0
    assert "DQN in CartPole-v1: mean " in capsys.readouterr().out


def test_ope_prints_estimates(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--dataset", "cartpole", "--steps", "5", "--estimators"
    assert main(["ope", str(trained), *options, "fqe"]) == 0
    assert capsys.readouterr().out.startswith("direct method: ")
    assert main(["ope", str(trained), *options, "fqf"]) == 2
    assert main(["ope", str(trained), "--dataset", "nothing.h5"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "argument --estimators: " in errors[0] and "argument --dataset: nothing.h5: " in errors[1]


def test_export_writes_a_policy(trained: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(trained), "policy.pt"]) == 0
    assert capsys.readouterr().out == "input input_0: float32 [batch, 4]\noutput action: int64 [batch]\n"
    assert torch.jit.load(folder / "policy.pt")(torch.zeros(3, 4)).shape == (3,)
    assert main(["export", str(trained), "policy.foo"]) == 2
    assert "argument FILE: path is 'policy.foo'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda plan: plan["env"]["calls"][0].update(args=["os:CartPole-v1"]), "name it with --env"),
        (lambda plan: plan["env"]["calls"][0].update(function={"name": "datasets.get_cartpole"}), "name it with --env"),
        (lambda plan: plan["env"].update(value=[{"none": True}, [{"name": "envs.make_env"}], []]), "has the wrapper"),
        (lambda plan: plan.update(env=3), "without a valid environment"),
        (lambda plan: plan.pop("env"), "without a valid environment"),
    ],
)
def test_the_environment_of_a_strange_directory_is_rejected(
    change: object, text: str, trained: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pfrl_like.zoo.load_agent import load_agent

    agent = load_agent(trained / "best").agent
    agent.composition = json.loads(next((trained / "best").glob("composition*.json")).read_text())
    change(agent.composition["run"])  # type: ignore[operator]
    agent.save(folder / "agent")
    assert main(["evaluate", "agent"]) == 2
    assert text in capsys.readouterr().err
